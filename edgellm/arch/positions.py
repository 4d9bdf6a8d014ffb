"""What the positions of tokens do in attention: RoPE, and factors of queries."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class RopeType(Enum):
    """The dimensions of a head that RoPE rotates as pair i of n: 2i and 2i + 1 (NORM), or i and i + n (NEOX)."""

    NORM = "norm"
    NEOX = "neox"


class PositionTable(Protocol):
    """Float32 values for each position, the same in all sequences: angles of RoPE, or factors of queries."""

    @property
    def width(self) -> int:
        """Values of a position."""

    def values(self, positions: NDArray[Any]) -> NDArray[np.float32]:
        """Float32 [n, width] at [n] positions."""


@dataclass(frozen=True, eq=False)
class Rope:
    """Rotary position embedding: pair i of a head is rotated by the angle position · frequencies[i].

    `frequencies` is float64 [pairs] in radians per token, scaling included; 2 · pairs may be less than the head's
    values, of which the first are rotated. `magnitude` multiplies cosine and sine. Contexts of more than
    `original_context` tokens take `long` in its place, where that is given (LongRoPE).
    """

    frequencies: NDArray[np.float64]
    magnitude: float
    rope_type: RopeType
    long: "Rope | None" = None
    original_context: int = 0

    @property
    def width(self) -> int:
        """Values of a position: cosine and sine of each pair's angle, so as many as a head has rotated values."""
        return 2 * len(self.frequencies)

    def in_context(self, ctx: int) -> "Rope":
        """The RoPE of a context of `ctx` tokens."""
        return self.long if self.long and ctx > self.original_context else self

    def values(self, positions: NDArray[Any]) -> NDArray[np.float32]:
        """Cosine and sine of each pair's angle, float32 [n, 2 · pairs], at [n] positions."""
        angles = positions[:, None] * self.frequencies
        both = np.empty((*angles.shape, 2), np.float32)
        both[..., 0], both[..., 1] = np.cos(angles) * self.magnitude, np.sin(angles) * self.magnitude
        return both.reshape(len(positions), self.width)


@dataclass(frozen=True)
class AttentionTemperature:
    """A factor of the queries by position: 1 + scale · ln(1 + floor((position + offset) / original_context)).

    Llama 4 counts positions from 1 here, Ministral 3 from 0.
    """

    scale: float
    original_context: int
    offset: int = 0

    @property
    def width(self) -> int:
        """One value a position."""
        return 1

    def values(self, positions: NDArray[Any]) -> NDArray[np.float32]:
        """The factors, float32 [n, 1], at [n] positions."""
        wholes = np.floor((positions + self.offset) / self.original_context)
        return (1 + self.scale * np.log1p(wholes)).astype(np.float32)[:, None]
