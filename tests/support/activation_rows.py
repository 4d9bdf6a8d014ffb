"""Rows of activations for kernels of single ops, and runs of such an op in chunks of every size."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kquants.layout import PIECE
from support.kernels import guarded, same_bits

Array = NDArray[Any]


class ActivationRows:
    """Rows of n float32 as buffers hold them, zero up to a multiple of 16 values, with bytes behind that stay."""

    def __init__(self, x: Array) -> None:
        rows, self.n = x.shape
        self._padded = -(-self.n // 16) * 16
        self.array = guarded((rows, self._padded + 16), np.float32)
        self.array[:, : self._padded] = 0
        self.array[:, : self.n] = x
        self.nbytes = self.array[0].nbytes

    @property
    def values(self) -> Array:
        """float32 [rows, n], a copy."""
        return self.array[:, : self.n].copy()

    def check(self) -> None:
        """That the padding is zero, and that nothing behind it was written."""
        padding, behind = self.array[:, self.n : self._padded].copy(), self.array[:, self._padded :].copy()
        assert same_bits(padding, np.zeros_like(padding)), "padding must be zero"
        assert same_bits(behind, guarded(behind.shape, np.float32)), "wrote past the row"


def pieces(n: int) -> int:
    """Units of a row of n values in ops whose unit is a piece of a row."""
    return -(-n // PIECE)


def in_any_chunks(run: Callable[[int], Sequence[ActivationRows]], units: int) -> list[Array]:
    """The values of the rows that `run(chunk)` returns, which are the same bits for all units at once and for few."""
    whole, *others = ([(rows.check(), rows.values)[1] for rows in run(chunk)] for chunk in (units, 1, 2))
    for found in others:
        assert all(same_bits(a, b) for a, b in zip(found, whole, strict=True)), "a chunk changes bits"
    return whole
