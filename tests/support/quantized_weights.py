"""Weights as GPTQ, AWQ and bitsandbytes store them, written bit by bit from the definitions of these layouts.

Each function draws a matrix and returns its stored tensors under the names of a checkpoint, and its exact weights.
"""

import json
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support.make_checkpoint import Stored

Array = NDArray[Any]
Exact = NDArray[np.float64]

NF4 = [
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
]
"""Values of NF4 (Dettmers et al., QLoRA, appendix E)."""
FP4 = [sign * size / 12 for sign in (1, -1) for size in (0, 0.0625, 8, 12, 4, 6, 2, 3)]
"""Values of FP4 by code (`get_4bit_type` of bitsandbytes/functional.py)."""
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Which of eight outputs is in bits 4 i … 4 i + 3 of a word (`order_map` of awq/modules/linear/gemm.py)."""


class QuantizedModule(NamedTuple):
    """The stored tensors of a module by name, and the weights they stand for, float64 [rows, columns]."""

    tensors: dict[str, Stored]
    weights: Exact


def stored(values: Array, dtype: str = "") -> Stored:
    """An array as it is stored; numpy's types of one kind stand for those of safetensors."""
    kinds = {"i4": "I32", "f2": "F16", "f4": "F32", "u1": "U8", "i1": "I8"}
    return Stored(
        dtype or kinds[values.dtype.str[1:]], values.shape, np.ascontiguousarray(values).reshape(-1).view("u1")
    )


def bit_stream(codes: Array, bits: int) -> Array:
    """Integers [·, n] as words int32 [·, n · bits / 32]: bit j of integer i is bit i · bits + j of a row."""
    each = codes[..., None] >> np.arange(bits) & 1
    return np.packbits(each.reshape(len(codes), -1).astype(np.uint8), axis=1, bitorder="little").view("<i4")


def gptq(
    name: str,
    rows: int,
    columns: int,
    bits: int = 4,
    group: int = 32,
    *,
    v2: bool = False,
    sym: bool = True,
    order: Sequence[int] | None = None,
    g_idx: bool = True,
) -> QuantizedModule:
    """A module of GPTQ; `order` are the columns in the order of groups, as act-order has them; group -1 is one group.

    Layout: `pack` of auto_gptq/nn_modules/qlinear/qlinear_cuda.py.
    """
    rng, size = np.random.default_rng([*name.encode()]), columns if group < 0 else group
    groups = np.empty(columns, np.int32)
    groups[np.arange(columns) if order is None else order] = np.arange(columns) // size
    count = -(-columns // size)
    codes = rng.integers(0, 1 << bits, (rows, columns))
    zeros = (
        np.full((count, rows), 1 << bits - 1)
        if sym
        else rng.integers(0 if v2 or bits == 3 else 1, 1 << bits, (count, rows))
    )
    scales = rng.uniform(0.005, 0.02, (count, rows)).astype(np.float16)
    tensors = {
        f"{name}.qweight": stored(bit_stream(codes, bits).T),
        f"{name}.qzeros": stored(bit_stream(zeros if v2 else zeros - 1, bits)),
        f"{name}.scales": stored(scales),
    }
    if g_idx:
        tensors[f"{name}.g_idx"] = stored(groups)
    weights = (codes - zeros[groups].T) * scales.astype(np.float64)[groups].T
    return QuantizedModule(tensors, weights)


def awq(name: str, rows: int, columns: int, group: int = 32) -> QuantizedModule:
    """A module of AWQ in the version "gemm". Layout: `from_linear` of awq/modules/linear/gemm.py."""
    codes, zeros, scales, weights = _drawn_4bit(name, rows, columns, group)
    tensors = {"qweight": stored(_awq_words(codes)), "qzeros": stored(_awq_words(zeros)), "scales": stored(scales)}
    return QuantizedModule({f"{name}.{part}": tensor for part, tensor in tensors.items()}, weights)


def awq_gemv(name: str, rows: int, columns: int, group: int = 32) -> QuantizedModule:
    """A module of AWQ in the version "gemv". Layout: `from_linear` of awq/modules/linear/gemv.py."""
    codes, zeros, scales, weights = _drawn_4bit(name, rows, columns, group)
    parts = {32: 4, 64: 2}.get(group, 1)
    words = -(-(columns // group) // 8)
    width = -(-words // parts) * parts
    padded = np.zeros((2, rows, 8 * width))
    padded[0, :, : len(zeros)], padded[1, :, : len(zeros)] = zeros.T, scales.T
    tensors = {
        f"{name}.qweight": stored(bit_stream(codes.T, 4)),
        f"{name}.qzeros": stored(bit_stream(padded[0].astype(int), 4)),
        f"{name}.scales": stored(padded[1].astype(np.float16)),
    }
    return QuantizedModule(tensors, weights)


def _drawn_4bit(name: str, rows: int, columns: int, group: int) -> tuple[Array, Array, Array, Exact]:
    """Codes [columns, rows], zeros and scales [groups, rows], and the weights [rows, columns]."""
    rng, count = np.random.default_rng([*name.encode()]), columns // group
    codes, zeros = rng.integers(0, 16, (columns, rows)), rng.integers(0, 16, (count, rows))
    scales = rng.uniform(0.005, 0.02, (count, rows)).astype(np.float16)
    weights = (codes - zeros.repeat(group, 0)) * scales.astype(np.float64).repeat(group, 0)
    return codes, zeros, scales, weights.T


def _awq_words(codes: Array) -> Array:
    words = np.zeros((len(codes), codes.shape[1] // 8), np.uint32)
    for word, place in product(range(words.shape[1]), range(8)):
        words[:, word] |= codes[:, 8 * word + AWQ_ORDER[place]].astype(np.uint32) << np.uint32(4 * place)
    return words.view(np.int32)


def bnb_4bit(name: str, shape: tuple[int, ...], kind: str = "nf4", block: int = 64, nested: int = 0) -> QuantizedModule:
    """A tensor of `Linear4bit`; `nested` are the scales that share one with double quantization.

    Layout: `QuantState.as_dict` of bitsandbytes/functional.py. The weights are those of float32 computed step by step.
    """
    rng, count = np.random.default_rng([*name.encode()]), int(np.prod(shape))
    codes = rng.integers(0, 16, count)
    table, blocks = np.array(NF4 if kind == "nf4" else FP4, np.float32), -(-count // block)
    scales = rng.uniform(0.02, 0.1, blocks).astype(np.float32)
    state: dict[str, Any] = {"quant_type": kind, "blocksize": block, "dtype": "bfloat16", "shape": list(shape)}
    pairs = np.pad(codes, (0, count % 2)).reshape(-1, 2)
    tensors = {name: stored((pairs[:, :1] << 4 | pairs[:, 1:]).astype(np.uint8)), f"{name}.quant_map": stored(table)}
    if nested:
        coded = rng.integers(0, 256, blocks)
        values = np.linspace(-1, 1, 256, dtype=np.float32)
        outer, offset = rng.uniform(0.02, 0.03, -(-blocks // nested)).astype(np.float32), np.float32(0.0625)
        scales = values[coded] * outer[np.arange(blocks) // nested] + offset
        state |= {"nested_blocksize": nested, "nested_dtype": "float32", "nested_offset": float(offset)}
        tensors[f"{name}.nested_absmax"], tensors[f"{name}.nested_quant_map"] = stored(outer), stored(values)
    tensors[f"{name}.absmax"] = stored(coded.astype(np.uint8) if nested else scales)
    text = np.frombuffer(json.dumps(state).encode(), np.uint8)
    tensors[f"{name}.quant_state.bitsandbytes__{kind}"] = stored(text)
    weights = table[codes].astype(np.float64) * scales[np.arange(count) // block]
    return QuantizedModule(tensors, weights.reshape(shape))


def bnb_int8(name: str, rows: int, columns: int) -> QuantizedModule:
    """A module of `Linear8bitLt`. Layout: `Linear8bitLt._save_to_state_dict` of bitsandbytes/nn/modules.py."""
    rng = np.random.default_rng([*name.encode()])
    codes, scales = rng.integers(-127, 128, (rows, columns)), rng.uniform(0.1, 1, rows).astype(np.float32)
    tensors = {
        f"{name}.weight": stored(codes.astype(np.int8)),
        f"{name}.SCB": stored(scales),
        f"{name}.weight_format": stored(np.array(0, np.uint8)),
    }
    return QuantizedModule(tensors, codes * scales.astype(np.float64)[:, None] / 127)
