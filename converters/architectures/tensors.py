"""The tensors that a model must have and those of a checkpoint, matched one to one before any is read."""

import warnings
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from converters.architectures.config import Config
from converters.architectures.layouts import CheckpointLayout, find_layout, layouts_of
from converters.architectures.unneeded import without_unneeded
from converters.checkpoint import Checkpoint
from converters.tensors import Source
from edgellm.arch.description import ModelSizes, RopeType
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.tensor_names import EMBEDDING, OUTPUT, OUTPUT_NORM
from edgellm.errors import EdgeLLMWarning
from edgellm.fmt import printable

Shapes = Mapping[str, tuple[int, ...]]

_IN_A_LARGER_MODEL = ("model.language_model.", "language_model.", "model.text_model.", "text_model.")


def read_tensors(
    checkpoint: Checkpoint,
    config: Config,
    facts: ArchitectureFacts,
    checkpoint_class: CheckpointClass,
    sizes: ModelSizes,
) -> list[Source]:
    """All tensors under their GGUF names, sorted by file and by name in the checkpoint.

    An output matrix is kept where there is one, also with `tie_word_embeddings`. Raises ModelFileError, and
    UnsupportedModelError for an unknown layout.
    """
    biases = [*facts.biases, *_optional_biases(config, facts, checkpoint_class)]
    wanted = dict(_shapes(facts, biases, sizes))
    layout = _layout(checkpoint, config, facts)
    found = _match(checkpoint, config, layout, facts, wanted)
    optional = {f"{OUTPUT.gguf}.weight"} if config.flag("tie_word_embeddings") else set()
    for gguf_name in wanted:
        if gguf_name not in found and gguf_name not in optional:
            config.fail(f"the checkpoint has no tensor for {gguf_name} of GGUF; get another copy of it")
    permuted = layout.rope_type is not facts.rope_type
    return [
        checkpoint.source(name, gguf_name, _row_order(gguf_name, sizes) if permuted else None)
        for gguf_name, name in found.items()
    ]


def _layout(checkpoint: Checkpoint, config: Config, facts: ArchitectureFacts) -> CheckpointLayout:
    """The layout of the tensors. Raises UnsupportedModelError for one that is not known for this architecture."""
    layout = find_layout(layouts_of(facts), checkpoint.tensors)
    if layout and (layout.rope_type is facts.rope_type or facts.rope_type is RopeType.NORM):
        return layout
    if inside := next((p for p in _IN_A_LARGER_MODEL if any(n.startswith(p) for n in checkpoint.tensors)), None):
        what = f"the weights ({inside}…) are the language part of a model that also takes images or sound"
        config.refuse(f"{what}; such models cannot be converted yet, choose the one for text alone")
    name = printable(min(checkpoint.tensors, default="none"))
    what = f"the layout of {layout.name}" if layout else f"a layout that is not known here ({name}, …)"
    problem = f"the tensors have {what}, which cannot be converted for {facts.name}"
    return config.refuse(f"{problem}; get the checkpoint in the layout of transformers")


def _match(
    checkpoint: Checkpoint, config: Config, layout: CheckpointLayout, facts: ArchitectureFacts, wanted: Shapes
) -> dict[str, str]:
    """The checkpoint's name of each tensor by its GGUF name; all shapes are as wanted."""
    found: dict[str, str] = {}
    in_order = sorted(checkpoint.tensors, key=lambda name: (checkpoint.tensors[name].file.name, name))
    for name in without_unneeded(in_order, checkpoint.path):
        gguf_name, shape = layout.gguf_name(name), checkpoint.tensors[name].shape
        if gguf_name is None or gguf_name not in wanted or gguf_name in found:
            what = f"tensor {printable(name)} has no place in this {facts.name} model"
            config.fail(f"{what}, and what it does is not known here; choose another checkpoint")
        if shape != wanted[gguf_name]:
            shapes = f"{list(shape)}, not {list(wanted[gguf_name])} as config.json asks"
            config.fail(f"tensor {printable(name)} has shape {shapes}; get another copy of the checkpoint")
        found[gguf_name] = name
    return found


def _shapes(facts: ArchitectureFacts, biases: list[str], sizes: ModelSizes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """GGUF names and shapes, in numpy order, of all tensors of the model."""
    yield from ((f"{each.gguf}.weight", sizes.shape(each.shape)) for each in (EMBEDDING, OUTPUT_NORM, OUTPUT))
    shapes = {stem: sizes.shape(dimensions) for stem, dimensions in facts.shapes.items()}
    for layer in (f"blk.{i}." for i in range(sizes.layer_count)):
        yield from ((f"{layer}{stem}.weight", shape) for stem, shape in shapes.items())
        yield from ((f"{layer}{stem}.bias", shapes[stem][:1]) for stem in biases)


def _optional_biases(config: Config, facts: ArchitectureFacts, checkpoint_class: CheckpointClass) -> list[str]:
    found = [stem for key, stems in checkpoint_class.bias_keys.items() if config.flag(key) for stem in stems]
    if found and not facts.optional_biases_in_llamacpp:
        where = printable(str(config.path), 400)
        text = f"{where}: attention_bias is true, which llama.cpp does not know of {facts.name}"
        warnings.warn(f"{text}; edgellm reads the new file, llama.cpp does not", EdgeLLMWarning, stacklevel=2)
    return found


def _row_order(gguf_name: str, sizes: ModelSizes) -> NDArray[np.intp] | None:
    """The row of the checkpoint's tensor for each row of GGUF's, from RoPE type NEOX to NORM; None for the same order.

    Of each head of q and k, rows i and i + head_dim / 2 become 2i and 2i + 1. The inverse is `permute` in
    transformers/models/llama/convert_llama_weights_to_hf.py.
    """
    stem = gguf_name.split(".")[-2]
    if stem not in ("attn_q", "attn_k"):
        return None
    heads = sizes.heads if stem == "attn_q" else sizes.kv_heads
    rows = np.arange(heads * sizes.head_dim).reshape(heads, 2, sizes.head_dim // 2)
    return rows.swapaxes(1, 2).reshape(-1)
