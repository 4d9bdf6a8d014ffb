"""The measured time that tokens of prompts add to a batch.

A token takes the longer the more tokens are before it, as it attends to all of them: the time is a constant for each
token, and another one for each cell of the KV cache that it sees. Both follow the batches by normalized least mean
squares (B. Widrow and S. Stearns, Adaptive Signal Processing, 1985).
"""

from math import sqrt

_FIRST_ROW_S = 0.005
"""Seconds of a token, until it is known."""

_CELLS, _FIRST_SHARE = 1024, 0.25
"""Cells of the KV cache whose time is learned as one number; and that time relative to the rest of a token, until it is
known (measured with AMX on Emerald Rapids, 1.2B: 0.9 to 3.7 ms)."""

_UP, _DOWN = 0.25, 0.125
"""The share of an error by which the times are corrected, if a batch took longer than expected, and if it took less: a
batch should seldom take longer."""

_MOST_ERROR = 2.0
"""A batch that takes longer than this many times the expected time was disturbed, and counts as one that took that."""


class PromptTimes:
    """Seconds of a token, and of the cells that it sees; `known` after the first batch."""

    def __init__(self) -> None:
        self._row_s, self._cells_s, self.known = _FIRST_ROW_S, 0.0, False

    def record(self, rows: int, position: float, seconds: float) -> None:
        """`rows` tokens, on average behind `position` ones of their prompts, added `seconds` to a batch."""
        cells = (position + rows / 2) / _CELLS
        if not self.known:
            self._row_s, self.known = max(seconds / rows, _FIRST_ROW_S / 1000) / (1 + _FIRST_SHARE * cells), True
            self._cells_s = _FIRST_SHARE * self._row_s
            return
        expected = self._row_s + self._cells_s * cells
        error = min(seconds / rows, _MOST_ERROR * expected) - expected
        step = error * (_UP if error > 0 else _DOWN) / (1 + cells * cells)
        self._row_s = max(self._row_s / 2, self._row_s + step)
        self._cells_s = max(0.0, self._cells_s + step * cells)

    def seconds(self, rows: float, position: int) -> float:
        """What `rows` tokens behind the first `position` ones of a prompt add to a batch, or to several."""
        return rows * (self._row_s + self._cells_s * (position + rows / 2) / _CELLS)

    def rows_within(self, seconds: float, position: int) -> float:
        """How many tokens behind the first `position` ones of a prompt add `seconds`."""
        # The root of `self.seconds(rows, position) == seconds`.
        cell_s = self._cells_s / _CELLS
        row_s = self._row_s + cell_s * position
        return 2 * seconds / (row_s + sqrt(row_s * row_s + 2 * cell_s * seconds))
