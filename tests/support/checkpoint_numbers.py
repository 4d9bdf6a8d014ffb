"""The number formats of safetensors that numpy does not have, written out from their definitions."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

WIDTH = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I64": 8, "I32": 4}
WIDTH |= {"U8": 1, "I8": 1}
"""Bytes of a number."""
_BLOCK = 128


def fp8_values(kind: str) -> Floats:
    """The value of each of the 256 bytes, by "OCP 8-bit Floating Point Specification", tables 1 to 3."""
    exponent_bits, mantissa_bits, bias = {"F8_E4M3": (4, 3, 7), "F8_E5M2": (5, 2, 15)}[kind]
    values = []
    for byte in range(256):
        exponent = (byte >> mantissa_bits) & ((1 << exponent_bits) - 1)
        fraction = (byte & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
        size = fraction * 2.0 ** (1 - bias) if exponent == 0 else (1 + fraction) * 2.0 ** (exponent - bias)
        if kind == "F8_E4M3" and byte & 0x7F == 0x7F:
            size = np.nan
        if kind == "F8_E5M2" and exponent == 31:
            size = np.nan if fraction else np.inf
        values.append(-size if byte & 0x80 else size)
    return np.array(values, np.float32)


def encode(values: Floats, dtype: str) -> Bytes:
    """float32 numbers as the bytes of `dtype`, rounded to nearest; 1-D uint8."""
    if dtype == "BF16":
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").reshape(-1).view(np.uint8)
    if dtype.startswith("F8"):
        return _nearest(values, fp8_values(dtype)).reshape(-1)
    return values.astype({"F32": "<f4", "F16": "<f2"}[dtype]).reshape(-1).view(np.uint8)


def _nearest(values: Floats, table: Floats) -> Bytes:
    codes = np.flatnonzero(np.isfinite(table))
    codes = codes[np.argsort(table[codes], kind="stable")]
    middles = (table[codes][1:] + table[codes][:-1]) / 2
    return codes[np.searchsorted(middles, values)].astype(np.uint8)


def scale_shapes(shape: tuple[int, ...]) -> Mapping[str, tuple[int, ...]]:
    """The shape of a matrix's scales, by the way it is scaled."""
    rows, columns = shape
    return {"block": (-(-rows // _BLOCK), -(-columns // _BLOCK)), "row": (rows, 1), "tensor": (1,)}


def scale_to_fp8(values: Floats, dtype: str, scales: str) -> tuple[Bytes, Bytes]:
    """A matrix as FP8 bytes and the bytes of its float32 scales, as long as the numbers reach."""
    largest = np.float32({"F8_E4M3": 448, "F8_E5M2": 57344}[dtype])
    size = np.abs(values)
    if scales == "block":
        rows, columns = scale_shapes(values.shape)["block"]
        starts = [np.arange(n) * _BLOCK for n in (rows, columns)]
        peak = np.maximum.reduceat(np.maximum.reduceat(size, starts[0], axis=0), starts[1], axis=1)
        spread = peak.repeat(_BLOCK, 0)[: values.shape[0]].repeat(_BLOCK, 1)[:, : values.shape[1]]
    else:
        peak = spread = size.max(axis=1, keepdims=True) if scales == "row" else size.max(keepdims=True)
    scale = (peak / largest).astype(np.float32)
    return encode((values * (largest / spread)).astype(np.float32), dtype), encode(scale, "F32")
