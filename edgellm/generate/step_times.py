"""The measured times of decode batches, by their number of rows. All requests of a session share them."""

from dataclasses import dataclass

_COST = 1.0, 1.05, 1.3, 2.0, 3.5
"""Expected time of a batch of 1, 2, 3 to 4, 5 to 8 and 9 to 16 rows, relative to one row, until it is measured. These
are separate classes: `kquants.matmul` multiplies two, four, eight and sixteen rows at once; eight rows use unpacked
weights in most formats. A batch of twice as many rows as the last class takes twice as long."""

_CLASSES = 12
"""Classes of batches: the last has 1,025 rows and more."""

_COST_DECAY = 0.998
"""Factor on the cost of a class for each batch of another class: in the end the class is tried again, as the machine
may have changed."""


@dataclass
class _StepTime:
    """Seconds of a batch of one class, 0 before the first; and the number of batches of others since the last."""

    seconds: float = 0.0
    unused: int = 0

    def record(self, seconds: float) -> None:
        if self.seconds:  # a batch that takes much longer than usual was disturbed
            seconds = 0.7 * self.seconds + 0.3 * min(seconds, 2 * self.seconds)
        self.seconds, self.unused = seconds, 0


class StepTimes:
    """Times of batches that compute the next tokens of replies, drafts included, and no prompt."""

    def __init__(self) -> None:
        self._times = [_StepTime() for _ in range(_CLASSES)]

    def record(self, rows: int, seconds: float) -> None:
        """A batch of `rows` rows took `seconds`."""
        for each in self._times:
            each.unused += 1
        self._times[_class_of(rows)].record(seconds)

    def seconds(self, rows: int) -> float | None:
        """The seconds of a batch of `rows` rows; None before the first batch of any class."""
        return self._seconds(_class_of(rows))

    def wagered_seconds(self, rows: int) -> float | None:
        """`seconds`, which become less for as long as no batch of that class is computed."""
        seconds, kind = self._seconds(_class_of(rows)), _class_of(rows)
        return seconds and seconds * _COST_DECAY ** self._times[kind].unused

    def _seconds(self, kind: int) -> float | None:
        """Those of a class, or of the nearest measured one, times their relative cost."""
        if self._times[kind].seconds:
            return self._times[kind].seconds
        measured = [each for each, time in enumerate(self._times) if time.seconds]
        if not measured:
            return None
        nearest = min(measured, key=lambda each: abs(each - kind))
        return self._times[nearest].seconds * _cost(kind) / _cost(nearest)


def _class_of(rows: int) -> int:
    return min((rows - 1).bit_length(), _CLASSES - 1)


def _cost(kind: int) -> float:
    last = len(_COST) - 1
    return _COST[min(kind, last)] * 2.0 ** max(0, kind - last)
