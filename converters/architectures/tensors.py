"""The tensors of a GGUF file as sources, made of those of a checkpoint."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from converters.architectures.families.family import Family
from converters.architectures.fused import MatrixCache, fused_part
from converters.architectures.layouts import CheckpointLayout, find_layout, layouts_of
from converters.architectures.matching import Origin, match
from converters.architectures.model import TextModel
from converters.architectures.sizes import CheckpointSizes
from converters.architectures.sources import padded, reshaped, stacked
from converters.architectures.wanted import wanted_tensors
from converters.tensors import Source
from edgellm.arch.positions import RopeType
from edgellm.fmt import printable


def read_tensors(model: TextModel, family: Family) -> list[Source]:
    """All tensors under their GGUF names, sorted by file and by name in the checkpoint.

    An output matrix is kept where there is one, also with `tie_word_embeddings`, unless the family drops it. Raises
    ModelFileError, and UnsupportedModelError for an unknown layout.
    """
    layout, wanted = _layout(model), dict(wanted_tensors(model, family))
    found = match(model, family, layout, wanted)
    permuted, cache = layout.rope_type is not model.facts.rope_type, MatrixCache()
    return [_source(model, name, origin, wanted[name].shape, permuted, cache) for name, origin in found.items()]


def _source(
    model: TextModel, gguf_name: str, origin: Origin, shape: tuple[int, ...], permuted: bool, cache: MatrixCache
) -> Source:
    order = row_order(gguf_name, model.sizes) if permuted else None
    sources = [model.checkpoint.source(origin.names[i], gguf_name, order) for i in sorted(origin.names)]
    if origin.in_parts:
        return stacked(gguf_name, sources)
    if origin.fused:
        return fused_part(sources[0], origin.fused, origin.index, shape, cache)
    is_padded = prod(sources[0].shape) != prod(shape)
    return padded(sources[0], shape[0]) if is_padded else reshaped(sources[0], shape)


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


def row_order(gguf_name: str, sizes: CheckpointSizes) -> NDArray[np.intp] | None:
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
