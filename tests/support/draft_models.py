"""Model files that draft for each other, with an acceptance that is known or can be chosen.

Each function changes the parts of a file. A target and its draft are two results for one source:

    target                                draft                   acceptance
    `damped(parts, 1)`                    `first_layers(parts, 1)`    1, to the bit
    `damped(parts, 1, halvings)`          `first_layers(parts, 1)`    rises with `halvings`
    `parts.as_f32()`                      `noised(parts, sigma)`  falls with `sigma`
    `parts`                               `other_tokens(parts)`   0 without temperature

The acceptance of two distributions that draw with the same noise is `support.couplings.agreement`.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from gguf import GGMLQuantizationType as Type

from support import gguf_bytes as raw
from support.gguf_parts import GGUFParts

_SCALES: dict[Type, tuple[int, tuple[int, ...]]] = {
    Type.F16: (2, (0,)),
    Type.Q8_0: (34, (0,)),
    Type.Q4_K: (144, (0, 2)),
    Type.Q6_K: (210, (208,)),
}
"""Bytes of a block, and the offsets of the float16 in it that all its weights are multiplied by."""

_RESIDUAL = re.compile(r"blk\.(\d+)\.(attn_output|ffn_down)\.weight")
"""The matrices whose results a layer adds to the residual stream."""


def first_layers(parts: GGUFParts, count: int) -> GGUFParts:
    """The model of the first `count` layers, with the same embeddings, last norm and output matrix."""
    pairs = {name: pair for name, pair in parts.pairs.items() if not name.endswith(".block_count")}
    (key,) = parts.pairs.keys() - pairs.keys()
    tensors = {name: tensor for name, tensor in parts.tensors.items() if _layer(name) < count}
    return replace(parts, pairs=pairs | {key: raw.u32_pair(key, count)}, tensors=tensors)


def damped(parts: GGUFParts, first: int, halvings: float | None = None) -> GGUFParts:
    """The model whose layers from number `first` on add 2 ** -halvings times as much to the residual stream.

    None: they add nothing, so that the logits are those of `first_layers(parts, first)`, to the bit. The factor is
    exact for whole numbers of halvings; else the float16 scales of quantized blocks are rounded.
    """
    factor = 0.0 if halvings is None else 2.0**-halvings

    def change(tensor: raw.RawTensor) -> raw.RawTensor:
        is_damped = _RESIDUAL.fullmatch(str(tensor.name)) and _layer(str(tensor.name)) >= first
        return replace(tensor, data=_scaled(tensor, factor)) if is_damped else tensor

    return _changed(parts, change)


def noised(parts: GGUFParts, sigma: float, seed: int = 0) -> GGUFParts:
    """A copy with float32 weights; each matrix has normal noise of `sigma` times its standard deviation."""
    rng = np.random.default_rng(seed)

    def change(tensor: raw.RawTensor) -> raw.RawTensor:
        if len(tensor.dims) == 1:
            return tensor
        weights = np.frombuffer(tensor.data, np.float32)
        noise = sigma * weights.std() * rng.standard_normal(len(weights), np.float32)
        return replace(tensor, data=(weights + noise).astype(np.float32).tobytes())

    return _changed(parts.as_f32(), change)


def other_tokens(parts: GGUFParts) -> GGUFParts:
    """A copy whose logits are those of the tokens before: its most likely token is another one, at the same cost.

    It has an output matrix of its own, as the embeddings stay.
    """
    output = parts.tensors.get("output.weight", parts.tensors["token_embd.weight"])
    rows = np.frombuffer(output.data, np.uint8).reshape(output.dims[-1], -1)
    rotated = replace(output, name="output.weight", data=np.roll(rows, 1, axis=0).tobytes())
    return replace(parts, tensors=parts.tensors | {"output.weight": rotated})


def _layer(name: str) -> int:
    """The layer of a tensor; -1 for those of no layer."""
    found = re.match(r"blk\.(\d+)\.", name)
    return int(found[1]) if found else -1


def _changed(parts: GGUFParts, change: Callable[[raw.RawTensor], raw.RawTensor]) -> GGUFParts:
    return replace(parts, tensors={name: change(tensor) for name, tensor in parts.tensors.items()})


def _scaled(tensor: raw.RawTensor, factor: float) -> bytes:
    """The data of a tensor whose weights are multiplied by `factor`."""
    if tensor.kind == Type.F32:
        return (np.frombuffer(tensor.data, np.float32) * np.float32(factor)).tobytes()
    size, offsets = _SCALES[Type(tensor.kind)]
    blocks = np.frombuffer(tensor.data, np.uint8).reshape(-1, size).copy()
    for offset in offsets:
        scales = blocks[:, offset : offset + 2].copy().view(np.float16)
        blocks[:, offset : offset + 2] = (scales * np.float16(factor)).view(np.uint8)
    return blocks.tobytes()
