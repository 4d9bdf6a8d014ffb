"""The tensors that a model must have, and those that a checkpoint has, matched one to one before any is read."""

import warnings
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from converters.architectures.config import Config
from converters.architectures.layouts import Layout, layout_of
from converters.architectures.spare import without_spare
from converters.architectures.variant import CheckpointSizes, Variant
from converters.checkpoint import Checkpoint
from converters.tensors import Source
from edgellm.errors import EdgeLLMWarning
from edgellm.fmt import printable

Shapes = Mapping[str, tuple[int, ...]]

_EMBEDDING, _OUTPUT = "token_embd.weight", "output.weight"
_IN_A_LARGER_MODEL = ("model.language_model.", "language_model.", "model.text_model.", "text_model.")


def read_tensors(checkpoint: Checkpoint, config: Config, variant: Variant, sizes: CheckpointSizes) -> list[Source]:
    """All tensors under their GGUF names, by file and name in the checkpoint. Raises ModelFileError.

    A model with tied embeddings may have an output matrix nonetheless, which is kept. Raises UnsupportedModelError
    for a layout that is not known here.
    """
    wanted = dict(_shapes(config, variant, sizes))
    layout = _layout(checkpoint, config, variant)
    found = _match(checkpoint, config, layout, variant, wanted)
    optional = {_OUTPUT} if config.flag("tie_word_embeddings") else set()
    for gguf_name in wanted:
        if gguf_name not in found and gguf_name not in optional:
            config.fail(f"the checkpoint has no tensor for {gguf_name} of GGUF; get another copy of it")
    moves = variant.neighbours and layout.halves
    return [
        checkpoint.source(name, gguf_name, _moved(gguf_name, sizes) if moves else None)
        for gguf_name, name in found.items()
    ]


def _layout(checkpoint: Checkpoint, config: Config, variant: Variant) -> Layout:
    """The layout of the tensors. Raises UnsupportedModelError for one that is not known for this architecture."""
    layout = layout_of(checkpoint.tensors)
    if layout and (layout.halves or variant.neighbours):
        return layout
    if inside := next((p for p in _IN_A_LARGER_MODEL if any(n.startswith(p) for n in checkpoint.tensors)), None):
        what = f"the weights ({inside}…) are the language part of a model that also takes images or sound"
        config.refuse(f"{what}; such models cannot be converted yet, choose the one for text alone")
    name = printable(min(checkpoint.tensors, default="none"))
    what = f"the layout of {layout.name}" if layout else f"a layout that is not known here ({name}, …)"
    problem = f"the tensors have {what}, which cannot be converted for {variant.architecture}"
    return config.refuse(f"{problem}; get the checkpoint in the layout of transformers")


def _match(checkpoint: Checkpoint, config: Config, layout: Layout, variant: Variant, wanted: Shapes) -> dict[str, str]:
    """The checkpoint's name of each tensor by its GGUF name, all with the shapes they must have."""
    found: dict[str, str] = {}
    in_order = sorted(checkpoint.tensors, key=lambda name: (checkpoint.tensors[name].file.name, name))
    for name in without_spare(in_order, checkpoint.path):
        gguf_name, shape = layout.gguf_name(name), checkpoint.tensors[name].shape
        if gguf_name is None or gguf_name not in wanted or gguf_name in found:
            what = f"tensor {printable(name)} has no place in this {variant.architecture} model"
            config.fail(f"{what}, and what it does is not known here; choose another checkpoint")
        if shape != wanted[gguf_name]:
            shapes = f"{list(shape)}, not {list(wanted[gguf_name])} as config.json asks"
            config.fail(f"tensor {printable(name)} has shape {shapes}; get another copy of the checkpoint")
        found[gguf_name] = name
    return found


def _shapes(config: Config, variant: Variant, sizes: CheckpointSizes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """GGUF names and shapes, in numpy order, of everything that such a model has."""
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    products = {
        "attn_q": (queries, sizes.width),
        "attn_k": (keys, sizes.width),
        "attn_v": (keys, sizes.width),
        "attn_output": (sizes.width, queries),
        "ffn_gate": (sizes.ffn, sizes.width),
        "ffn_up": (sizes.ffn, sizes.width),
        "ffn_down": (sizes.width, sizes.ffn),
    }
    norms = {"attn_norm": sizes.width, "ffn_norm": sizes.width}
    if variant.head_norms:
        norms |= {"attn_q_norm": sizes.head_dim, "attn_k_norm": sizes.head_dim}
    biases = [*variant.biases, *_optional_biases(config, variant)]
    yield _EMBEDDING, (sizes.vocab, sizes.width)
    yield "output_norm.weight", (sizes.width,)
    yield _OUTPUT, (sizes.vocab, sizes.width)
    for layer in (f"blk.{i}." for i in range(sizes.layers)):
        yield from ((f"{layer}{stem}.weight", shape) for stem, shape in products.items())
        yield from ((f"{layer}{stem}.weight", (n,)) for stem, n in norms.items())
        yield from ((f"{layer}{stem}.bias", products[stem][:1]) for stem in biases)


def _optional_biases(config: Config, variant: Variant) -> list[str]:
    found = [stem for key, stems in variant.optional_biases if config.flag(key) for stem in stems]
    if found and variant.biases_here_alone:
        where = printable(str(config.path), 400)
        text = f"{where}: attention_bias is true, which llama.cpp does not know of {variant.architecture}"
        warnings.warn(f"{text}; edgellm reads the new file, llama.cpp does not", EdgeLLMWarning, stacklevel=2)
    return found


def _moved(gguf_name: str, sizes: CheckpointSizes) -> NDArray[np.intp] | None:
    """Which row of the checkpoint's tensor each row of GGUF's is, or None where rows stay.

    Hugging Face turns dimension i of a head with i + head_dim / 2, and stores rows so
    (transformers/models/llama/convert_llama_weights_to_hf.py, `permute`); GGUF's llama has Meta's order, 2i with
    2i + 1.
    """
    stem = gguf_name.split(".")[-2]
    if stem not in ("attn_q", "attn_k"):
        return None
    heads = sizes.heads if stem == "attn_q" else sizes.kv_heads
    rows = np.arange(heads * sizes.head_dim).reshape(heads, 2, sizes.head_dim // 2)
    return rows.swapaxes(1, 2).reshape(-1)
