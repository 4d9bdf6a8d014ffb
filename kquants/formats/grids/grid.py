"""A grid: a list of points, each the magnitudes of 4 or 8 weights. It is plain data; `grid_weights` looks it up."""

from dataclasses import dataclass, replace
from functools import cached_property

IQ2_LEVELS = (8, 25, 43)
"""The magnitudes of the three IQ2 formats."""

_GAPS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+"
_MORE = len(_GAPS) - 1


@dataclass(frozen=True)
class Grid:
    """Points of `weights` magnitudes, each of which is one of `levels`.

    A point is held as a number: its weights' levels are the digits, the first weight's the lowest, to the base of the
    number of levels. The numbers ascend. `gaps` has a letter for each, what it is more than the one before (the first:
    than -1), 0 … 62 by the letter's place in the alphabet of base64, with - for + there. + stands for 63 more in the
    letter that follows.
    """

    levels: tuple[int, ...]
    weights: int
    gaps: str

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The points as numbers."""
        found, number = list[int](), -1
        for letter in self.gaps:
            gap = _GAPS.index(letter)
            number += gap
            if gap < _MORE:
                found.append(number)
        return tuple(found)

    def words(self, offset: int = 0) -> list[int]:
        """The magnitudes plus an offset as bytes, point by point, four in a word of 32 bits."""
        magnitudes = [magnitude + offset for point in self.magnitudes for magnitude in point]
        return [int.from_bytes(magnitudes[i : i + 4], "little") for i in range(0, len(magnitudes), 4)]

    def divided_by(self, n: int) -> "Grid":
        """The grid whose magnitudes are those of this one divided by n."""
        return replace(self, levels=tuple(level // n for level in self.levels))

    @property
    def is_odd(self) -> bool:
        """Whether the levels are 1, 3, … 15: level 2 · code + 1 for each code."""
        return self.levels == tuple(range(1, 16, 2))

    @cached_property
    def codes(self) -> tuple[tuple[int, ...], ...]:
        """Of each point, which of `levels` each weight's magnitude is."""
        base = len(self.levels)
        return tuple(tuple(number // base**k % base for k in range(self.weights)) for number in self.numbers)

    @cached_property
    def magnitudes(self) -> tuple[tuple[int, ...], ...]:
        """Of each point, the magnitude of each weight."""
        return tuple(tuple(self.levels[code] for code in point) for point in self.codes)
