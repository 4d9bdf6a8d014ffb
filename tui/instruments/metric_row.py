"""A row of the panel, and what it can say: a figure, a bar, a sparkline."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from textual.content import Content
from textual.widget import Widget

from tui.instruments.bars import bar, sparkline
from tui.instruments.metrics import Metric
from tui.instruments.numbers import UNKNOWN, Words


class MetricValue(Protocol):
    """What a row says; equal values look the same."""

    def words(self, label: str, width: int) -> Words:
        """The row, at most `width` columns."""


@dataclass(frozen=True, slots=True)
class TextValue:
    """A label and a text at the right end; without a label, a text from the left."""

    text: str = UNKNOWN
    style: str = ""

    def words(self, label: str, width: int) -> Words:
        """Label, space, text."""
        if not label:
            return ((self.text, self.style),)
        return (label, "$foreground-muted"), (self.text.rjust(width - len(label)), self.style)


@dataclass(frozen=True, slots=True)
class BarValue:
    """A share between 0 and 1, as a line that fills."""

    filled: float = 0.0
    style: str = ""

    def words(self, label: str, width: int) -> Words:
        """The bar alone."""
        return bar(self.filled, width, self.style)


@dataclass(frozen=True, slots=True)
class SparklineValue:
    """Times and their median, as a line of small columns."""

    times: Sequence[float] = ()
    middle: float | None = None

    def words(self, label: str, width: int) -> Words:
        """The sparkline alone."""
        return ((sparkline(self.times, self.middle, width), "$text-primary"),)


class MetricRow(Widget):
    """One line about one entry, which the mouse explains."""

    def __init__(self, entry: Metric) -> None:
        super().__init__(name=entry.name)
        self.tooltip = entry.meaning
        self._label = entry.label
        self._value: MetricValue = TextValue()

    def show(self, value: MetricValue) -> None:
        """Draw the row again if this is not what it says already."""
        if value != self._value:
            self._value = value
            self.refresh()

    def render(self) -> Content:
        """What it says, in the width it has."""
        return Content.assemble(*self._value.words(self._label, self.size.width))
