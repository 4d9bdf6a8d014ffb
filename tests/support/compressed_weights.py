"""Weights as compressed-tensors and ModelOpt store them, written number by number from the definitions of the layouts.

Each function draws a matrix and returns its stored tensors under the names of a checkpoint, and its exact weights.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from support.checkpoint_numbers import encode, fp8_values
from support.make_checkpoint import Stored
from support.quantized_weights import QuantizedModule, stored

Array = NDArray[Any]

E2M1 = [sign * size for sign in (1.0, -1.0) for size in (0, 0.5, 1, 1.5, 2, 3, 4, 6)]
"""The values of floats of 4 bits (OCP Microscaling Formats 1.0, 5.3.3)."""


def floats(values: Array, dtype: str) -> tuple[Stored, Array]:
    """Numbers as they are stored in F32, F16 or BF16, and what is stored, float64."""
    rounded = values.astype(np.float32)
    if dtype == "BF16":
        bits = encode(rounded, "BF16").view("<u2").astype("<u4") << 16
        rounded = bits.view(np.float32).reshape(values.shape)
    elif dtype == "F16":
        rounded = rounded.astype(np.float16).astype(np.float32)
    return Stored(dtype, values.shape, encode(rounded, dtype)), rounded.astype(np.float64)


def words(integers: Array, bits: int) -> Array:
    """Signed integers [rows, n] in words [rows, n / (32 // bits)], by `pack_to_int32` of compressed-tensors.

    They are raised by 2^(bits - 1). A word holds whole integers only, the first in its lowest bits.
    """
    each = 32 // bits
    raised = np.pad(integers + (1 << bits - 1), ((0, 0), (0, -integers.shape[1] % each)))
    found = np.zeros((len(raised), raised.shape[1] // each), np.uint64)
    for i in range(raised.shape[1]):
        found[:, i // each] += raised[:, i].astype(np.uint64) << np.uint64(i % each * bits)
    return found.astype(np.uint32).view(np.int32)


def pack_quantized(
    name: str,
    rows: int,
    columns: int,
    bits: int = 4,
    group: int = 32,
    *,
    sym: bool = True,
    order: Sequence[int] | None = None,
    dtype: str = "BF16",
) -> QuantizedModule:
    """A module of "pack-quantized"; `group` -1 is a scale for each row, 0 one for all.

    `order` are the columns in the order of groups, as actorder "group" has them. Layout: `compress_weight` of
    compressed_tensors/compressors/quantized_compressors/pack_quantized.py.
    """
    rng = np.random.default_rng([*name.encode()])
    half = 1 << bits - 1
    codes = rng.integers(-half, half, (rows, columns))
    tensors, scales, zeros, groups = _grid(rng, (rows, columns), (half, group), sym, dtype)
    if zeros is not None:
        packed = words(zeros.T, bits).T
        tensors["weight_zero_point"] = stored(packed) if group else stored(zeros.reshape(-1).astype(np.int8))
    if order is not None:
        groups[np.asarray(order)] = groups.copy()
        tensors["weight_g_idx"] = stored(groups.astype(np.int32))
    tensors["weight_packed"] = stored(words(codes, bits))
    tensors["weight_shape"] = stored(np.array([rows, columns], np.int64), "I64")
    return _module(name, tensors, codes, scales, zeros, groups)


def int_quantized(
    name: str, rows: int, columns: int, group: int = -1, *, sym: bool = True, dtype: str = "BF16"
) -> QuantizedModule:
    """A module of "int-quantized", integers of 8 bits in bytes; `group` as in `pack_quantized`."""
    rng = np.random.default_rng([*name.encode()])
    codes = rng.integers(-128, 128, (rows, columns))
    tensors, scales, zeros, groups = _grid(rng, (rows, columns), (128, group), sym, dtype)
    if zeros is not None:
        kept = zeros.astype(np.int8)
        tensors["weight_zero_point"] = stored(kept if group else kept.reshape(1))
    return _module(name, {"weight": stored(codes.astype(np.int8)), **tensors}, codes, scales, zeros, groups)


def _grid(
    rng: np.random.Generator, shape: tuple[int, int], half_and_group: tuple[int, int], sym: bool, dtype: str
) -> tuple[dict[str, Stored], Array, Array | None, Array]:
    """The tensor of scales, scales [rows, groups], zero points, the group of each column."""
    (rows, columns), (half, group) = shape, half_and_group
    size = group if group > 0 else columns
    grid = (rows if group else 1, -(-columns // size))
    tensor, scales = floats(rng.uniform(0.002, 0.02, grid), dtype)
    if not group:
        tensor = Stored(tensor.dtype, (1,), tensor.data)
    zeros = None if sym else rng.integers(-half, half, grid)
    return {"weight_scale": tensor}, scales, zeros, np.arange(columns) // size


def _module(
    name: str, tensors: dict[str, Stored], codes: Array, scales: Array, zeros: Array | None, groups: Array
) -> QuantizedModule:
    weights = (codes - (0 if zeros is None else zeros[:, groups])) * scales[:, groups]
    return QuantizedModule({f"{name}.{part}": tensor for part, tensor in tensors.items()}, weights)


Scaling = Literal["tensor", "channel", "group", "block"]


def float_quantized(name: str, rows: int, columns: int, scaling: Scaling = "channel") -> QuantizedModule:
    """A module of "float-quantized": FP8; groups of 32 columns, blocks of 16 rows and 32 columns."""
    rng = np.random.default_rng([*name.encode()])
    codes = rng.integers(0, 127, (rows, columns), np.uint8) | rng.integers(0, 2, (rows, columns), np.uint8) << 7
    height, width = {"tensor": (rows, columns), "channel": (1, columns), "group": (1, 32), "block": (16, 32)}[scaling]
    grid = (-(-rows // height), -(-columns // width))
    tensor, scales = floats(rng.uniform(1e-4, 1e-3, grid), "F32")
    shape = (1,) if scaling == "tensor" else grid
    parts = {"weight": Stored("F8_E4M3", (rows, columns), codes.ravel()), "weight_scale": tensor}
    parts["weight_scale"] = Stored(tensor.dtype, shape, tensor.data)
    spread = scales.repeat(height, 0)[:rows].repeat(width, 1)[:, :columns]
    weights = fp8_values("F8_E4M3").astype(np.float64)[codes] * spread
    return QuantizedModule({f"{name}.{part}": each for part, each in parts.items()}, weights)


def nvfp4(
    name: str, rows: int, columns: int, layout: Literal["modelopt", "compressed"] = "modelopt"
) -> QuantizedModule:
    """A module in NVFP4. Layouts: `NVFP4QTensor` of modelopt/torch/quantization/qtensor/nvfp4_tensor.py, and
    compressed_tensors/compressors/quantized_compressors/fp4_quantized.py.

    The factor is one of float32; compressed-tensors stores what divides.
    """
    rng = np.random.default_rng([*name.encode()])
    codes, data = _e2m1(rng, rows, columns)
    scales = rng.integers(0x20, 0x7F, (rows, columns // 16)).astype(np.uint8)
    scales[0, 0] = 3  # below the normal numbers
    spread = fp8_values("F8_E4M3").astype(np.float64)[scales].repeat(16, 1)
    number = np.float32(rng.uniform(2e-5, 6e-5))
    parts = {"weight_scale": Stored("F8_E4M3", scales.shape, scales.ravel())}
    if layout == "modelopt":
        factor = number
        parts |= {"weight": stored(data), "weight_scale_2": stored(np.array(number)), "input_scale": _one()}
    else:
        divisor = np.float32(1) / number
        factor = np.float32(1) / divisor
        parts |= {"weight_packed": stored(data), "weight_global_scale": stored(np.array([divisor]))}
        parts["input_global_scale"] = _one()
    weights = np.array(E2M1)[codes] * spread * np.float64(factor)
    return QuantizedModule({f"{name}.{part}": each for part, each in parts.items()}, weights)


def mxfp4(name: str, rows: int, columns: int) -> QuantizedModule:
    """A module of "mxfp4-pack-quantized". Layout: as `nvfp4` of compressed-tensors; scales are powers of two, E8M0."""
    rng = np.random.default_rng([*name.encode()])
    codes, data = _e2m1(rng, rows, columns)
    scales = rng.integers(116, 124, (rows, columns // 32)).astype(np.uint8)
    weights = np.array(E2M1)[codes] * 2.0 ** (scales.astype(float).repeat(32, 1) - 127)
    return QuantizedModule({f"{name}.weight_packed": stored(data), f"{name}.weight_scale": stored(scales)}, weights)


def _e2m1(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, Array]:
    """Codes [rows, columns], and the bytes that hold two of them each, the first in the low half."""
    codes = rng.integers(0, 16, (rows, columns))
    return codes, (codes[:, ::2] + 16 * codes[:, 1::2]).astype(np.uint8)


def _one() -> Stored:
    return stored(np.ones(1, np.float32))
