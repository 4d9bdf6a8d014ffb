"""Memory that kernels quantize activations to, and what it must hold."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kquants.layout import (
    INT16_GROUP_BYTES,
    PIECE,
    SUPER_GROUP_BYTES,
    X_BLOCK_BYTES,
    int16_bytes,
    quantized_bytes,
    super_quantized_bytes,
)
from kquants.records import QuantizeOp
from kquants.tuning import tuning
from support.kernels import batch_record, guarded, op_record, run_op
from support.quantized_rows import BlockRows, Rows, SuperRows

F32 = np.float32
Array = NDArray[Any]


class Targets:
    """Room for the rows of x that a kernel quantizes to, of each kind that n allows; 0 is what the others are given."""

    def __init__(self, rows: int, n: int) -> None:
        self.shape = rows, n
        self.q8 = self._room(quantized_bytes(n)) if n % 32 == 0 else 0
        self.super_q8 = self._room(super_quantized_bytes(n) + int16_bytes(n)) if n % 256 == 0 else 0

    def _room(self, row_bytes: int) -> Array:
        return guarded((self.shape[0] * row_bytes + 12,), np.uint8)

    def check(self, x: Array) -> None:
        """That they hold the rows of x, to the byte but for padding, and for what a NaN for a scale makes useless."""
        for buffer, kind in ((self.q8, BlockRows), (self.super_q8, SuperRows)):
            if isinstance(buffer, int):
                continue
            rows, rest = kind.of(x), buffer
            for wanted in rows.arrays() if len(x) > tuning().decode_rows else [rows.groups()]:
                found, rest = rest[: wanted.size].reshape(wanted.shape), rest[wanted.size :]
                unwritten = (wanted == 0xFF) & (found == guarded((1,), np.uint8))
                unwritten &= wanted.shape[2] != INT16_GROUP_BYTES
                assert ((wanted == found) | unwritten | self._broken(rows, wanted)).all()
            assert (rest == guarded((1,), np.uint8)).all(), "wrote past the rows"

    def _broken(self, rows: Rows, groups: Array) -> Array:
        """Where a scale is NaN, all of its (super-)block but the scale."""
        broken = np.zeros(groups.shape, bool)
        if isinstance(rows, SuperRows):
            broken[...] = np.isnan(rows.d).T[..., None]
            if groups.shape[2] == SUPER_GROUP_BYTES:
                broken[..., 256:260] = False
            return broken
        for b in range(8):
            at = 256 + X_BLOCK_BYTES * b
            is_nan = np.isnan(groups[..., at : at + 4].copy().view(F32))
            broken[..., 32 * b : 32 * b + 32] = broken[..., at + 4 : at + X_BLOCK_BYTES] = is_nan
        return broken


def quantize(x: Array, kernel: str = "quantize") -> Targets:
    rows, n = x.shape
    to, pieces = Targets(rows, n), -(-n // PIECE)
    given = QuantizeOp(x=x, x_bytes=x[0].nbytes, n=n, q8=to.q8, super_q8=to.super_q8)
    run_op(op_record(kernel, given), batch_record(rows), rows * pieces)
    return to
