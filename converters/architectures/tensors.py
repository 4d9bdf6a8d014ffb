"""The tensors that a model must have and those of a checkpoint, matched one to one before any is read."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from converters.architectures.families.family import Family
from converters.architectures.layouts import CheckpointLayout, find_layout, layouts_of
from converters.architectures.model import TextModel
from converters.architectures.sizes import CheckpointSizes
from converters.architectures.sources import padded, stacked
from converters.architectures.unneeded import without_unneeded
from converters.architectures.wanted import Wanted, wanted_tensors
from converters.tensors import Source
from edgellm.arch.positions import RopeType
from edgellm.arch.tensor_names import OUTPUT
from edgellm.fmt import printable


def read_tensors(model: TextModel, family: Family) -> list[Source]:
    """All tensors under their GGUF names, sorted by file and by name in the checkpoint.

    An output matrix is kept where there is one, also with `tie_word_embeddings`, unless the family drops it. Raises
    ModelFileError, and UnsupportedModelError for an unknown layout.
    """
    layout, wanted = _layout(model), dict(wanted_tensors(model, family))
    found = _match(model, family, layout, wanted)
    for gguf_name, tensor in wanted.items():
        if gguf_name not in found and not tensor.optional:
            model.config.fail(f"the checkpoint has no tensor for {gguf_name} of GGUF; get another copy of it")
    permuted = layout.rope_type is not model.facts.rope_type
    return [_source(model, name, parts, wanted[name].shape, permuted) for name, parts in found.items()]


def _source(
    model: TextModel, gguf_name: str, parts: Mapping[int, str], shape: tuple[int, ...], permuted: bool
) -> Source:
    order = _row_order(gguf_name, model.sizes) if permuted else None
    sources = [model.checkpoint.source(parts[i], gguf_name, order) for i in sorted(parts)]
    if len(sources[0].shape) < len(shape):
        return stacked(gguf_name, sources)
    return sources[0] if sources[0].shape == shape else padded(sources[0], shape[0])


def _layout(model: TextModel) -> CheckpointLayout:
    """The layout of the tensors. Raises UnsupportedModelError for one that is not known for this architecture."""
    facts, tensors = model.facts, model.checkpoint.tensors
    layout = find_layout(layouts_of(facts), tensors)
    if layout and (layout.rope_type is facts.rope_type or facts.rope_type is RopeType.NORM):
        return layout
    name = printable(min(tensors, default="none"))
    what = f"the layout of {layout.name}" if layout else f"a layout that is not known here ({name}, …)"
    problem = f"the tensors have {what}, which cannot be converted for {facts.name}"
    return model.config.refuse(f"{problem}; get the checkpoint in the layout of transformers")


def _match(
    model: TextModel, family: Family, layout: CheckpointLayout, wanted: Wanted
) -> Mapping[str, Mapping[int, str]]:
    """The checkpoint's names of each tensor's parts, most often one, by its GGUF name; all shapes are as wanted."""
    found: dict[str, dict[int, str]] = {}
    for name in _names(model, family):
        place, shape = layout.place(name), model.checkpoint.tensors[name].shape
        if place is None or place.name not in wanted or place.part in found.get(place.name, {}):
            what = f"tensor {printable(name)} has no place in this {model.facts.name} model"
            model.config.fail(f"{what}, and what it does is not known here; choose another checkpoint")
        asked = wanted[place.name].shape if place.part is None else wanted[place.name].shape[1:]
        is_padded = place.name.split(".")[0] in family.padded and shape[1:] == asked[1:] and shape[0] <= asked[0]
        if shape != asked and not is_padded:
            shapes = f"{list(shape)}, not {list(asked)} as config.json asks"
            model.config.fail(f"tensor {printable(name)} has shape {shapes}; get another copy of the checkpoint")
        found[place.name] = {**found.pop(place.name, {}), place.part or 0: name}  # at the place of its last part
    _check_parts(model, found, wanted)
    return found


def _check_parts(model: TextModel, found: Mapping[str, Mapping[int, str]], wanted: Wanted) -> None:
    for gguf_name, parts in found.items():
        shape = wanted[gguf_name].shape
        is_whole = len(model.checkpoint.tensors[next(iter(parts.values()))].shape) == len(shape)
        count = 1 if is_whole else shape[0]
        if sorted(parts) != list(range(count)):
            problem = f"the checkpoint has {len(parts)} of {count} parts of {gguf_name}"
            model.config.fail(f"{problem}; get another copy of it")


def _names(model: TextModel, family: Family) -> Iterator[str]:
    """The tensors of the checkpoint that the file needs, by file and name."""
    tensors = model.checkpoint.tensors
    in_order = sorted(tensors, key=lambda name: (tensors[name].file.name, name))
    drops_output = family.drops_tied_output and model.config.flag("tie_word_embeddings")
    for name in without_unneeded(in_order, model.checkpoint.path):
        is_output = drops_output and name.endswith(f"{OUTPUT.hugging_face}.weight")
        if not is_output and not name.endswith(family.parameters):
            yield name


def _row_order(gguf_name: str, sizes: CheckpointSizes) -> NDArray[np.intp] | None:
    """The row of the checkpoint's tensor for each row of GGUF's, from RoPE type NEOX to NORM; None for the same order.

    Of each head of q and k, rows i and i + head_dim / 2 become 2i and 2i + 1. The inverse is `permute` in
    transformers/models/llama/convert_llama_weights_to_hf.py.
    """
    *_, layer, stem, _ = ("", *gguf_name.split("."))
    if stem not in ("attn_q", "attn_k"):
        return None
    heads, head_dim = sizes.heads if stem == "attn_q" else sizes.kv_heads[int(layer)], sizes.head_dim[int(layer)]
    rows = np.arange(heads * head_dim).reshape(heads, 2, head_dim // 2)
    return rows.swapaxes(1, 2).reshape(-1)
