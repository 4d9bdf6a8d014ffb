"""The measured times of decode batches, by their number of rows. All requests of a session share them."""

from functools import lru_cache

_COST = 1.0, 1.05, 1.3, 2.0, 3.5
"""Expected time of a batch of 1, 2, 3 to 4, 5 to 8 and 9 to 16 rows, relative to one row, until it is measured. These
are separate classes: `kquants.matmul` multiplies two, four, eight and sixteen rows at once; eight rows use unpacked
weights in most formats. A batch of twice as many rows as the last class takes twice as long."""

_COLD = 3
"""Batches of a class until its time is a moving average: the fastest of them is believed, as the first ones of a class
run cold. (Measured with AMX on Emerald Rapids, 1.2B: the first batches of two rows 53 to 63 ms, later ones 36.)"""

_CLASSES = 12
"""Classes of batches: the last has 1,025 rows and more."""

_COST_DECAY = 0.998
"""Factor on the cost of a class for each batch of another class: in the end the class is tried again, as the machine
may have changed."""


class StepTimes:
    """Times of batches that compute the next tokens of replies, drafts included, and no prompt."""

    def __init__(self) -> None:
        self._batches = 0
        self._seconds = [0.0] * _CLASSES  # of a batch of each class, 0 before the first
        self._last = [0] * _CLASSES  # the number of the last batch of each class
        self._counts = [0] * _CLASSES

    def record(self, rows: int, seconds: float) -> None:
        """A batch of `rows` rows took `seconds`."""
        kind = _class_of(rows)
        before, self._batches, self._last[kind] = self._seconds[kind], self._batches + 1, self._batches + 1
        self._counts[kind] += 1
        if self._counts[kind] == 1 and seconds > (self._estimate(kind) or seconds):
            return  # slower than expected: one that the class would seldom be tried again with
        if before and self._counts[kind] <= _COLD:
            seconds = min(before, seconds)
        elif before:  # a batch that takes much longer than usual was disturbed
            seconds = 0.7 * before + 0.3 * min(seconds, 2 * before)
        self._seconds[kind] = seconds

    def count(self, rows: int) -> int:
        """How many batches of the class of `rows` rows there were."""
        return self._counts[_class_of(rows)]

    def seconds(self, rows: int) -> float | None:
        """The expected seconds of a batch of `rows` rows; None before the first batch of any class.

        They are those of its class, or of the nearest measured one times the relative cost.
        """
        kind = _class_of(rows)
        return self._seconds[kind] or self._estimate(kind)

    def longer_seconds(self, rows: int, drafts: int, seconds: float | None) -> float:
        """How much longer a batch of `rows` rows took because of `drafts` of them; `seconds` are those of the batch.

        None for a batch with tokens of prompts, too: then, what is expected of its steps. A batch that takes much
        longer than that was disturbed. It is never less than 0, as a shorter batch is noise: else drafts of which none
        is accepted would be tried when the time of one row is overestimated. Call it before `record`.
        """
        usual, plain = self.seconds(rows) or 0.0, self.seconds(rows - drafts) or 0.0
        return max(0.0, (usual if seconds is None else min(seconds, 2 * usual)) - plain)

    def _estimate(self, kind: int) -> float | None:
        """The seconds of a batch of a class that was not measured."""
        measured = [each for each, seconds in enumerate(self._seconds) if seconds]
        if not measured:
            return None
        nearest = min(measured, key=lambda each: abs(each - kind))
        return self._seconds[nearest] * _cost(kind) / _cost(nearest)

    def wagered_seconds(self, rows: int) -> float | None:
        """`seconds`, which become less for as long as no batch of that class is computed."""
        seconds = self.seconds(rows)
        return seconds and seconds * _COST_DECAY ** (self._batches - self._last[_class_of(rows)])

    def doubted_seconds(self, rows: int) -> float | None:
        """`seconds`; if they are more than expected of the class, they become as many as that, like `wagered_seconds`.

        Times that are not dearer than expected are not doubted.
        """
        seconds, one, wagered = self.seconds(rows), self.seconds(1), self.wagered_seconds(rows)
        return seconds and one and wagered and max(wagered, min(seconds, one * _cost(_class_of(rows))))


@lru_cache(256)
def _class_of(rows: int) -> int:
    return min((rows - 1).bit_length(), _CLASSES - 1)


def _cost(kind: int) -> float:
    last = len(_COST) - 1
    return _COST[min(kind, last)] * 2.0 ** max(0, kind - last)
