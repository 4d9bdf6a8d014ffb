"""A row of the panel, and its kinds of values: text, bar, sparkline."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from textual.content import Content
from textual.widget import Widget

from tui.instruments.bars import bar, sparkline
from tui.instruments.metrics import Metric
from tui.instruments.numbers import UNKNOWN, Words


class MetricValue(Protocol):
    """The value of a row; equal values look the same."""

    def words(self, label: str, width: int) -> Words:
        """The text of the row, at most `width` columns."""


@dataclass(frozen=True, slots=True)
class TextValue:
    """A label, and a text at the right end; without a label, the text at the left."""

    text: str = UNKNOWN
    style: str = ""

    def words(self, label: str, width: int) -> Words:
        """Label, space, text."""
        if not label:
            return ((self.text, self.style),)
        return (label, "$foreground-muted"), (self.text.rjust(width - len(label)), self.style)


@dataclass(frozen=True, slots=True)
class BarValue:
    """A share between 0 and 1, as a bar."""

    filled: float = 0.0
    style: str = ""

    def words(self, label: str, width: int) -> Words:
        """The bar alone."""
        return bar(self.filled, width, self.style)


@dataclass(frozen=True, slots=True)
class SparklineValue:
    """Times and their median, as a sparkline."""

    times: Sequence[float] = ()
    middle: float | None = None

    def words(self, label: str, width: int) -> Words:
        """The sparkline alone."""
        return ((sparkline(self.times, self.middle, width), "$text-primary"),)


class MetricRow(Widget):
    """The line of a metric, with its explanation as the tooltip."""

    def __init__(self, metric: Metric) -> None:
        super().__init__(name=metric.name)
        self.tooltip = metric.meaning
        self._label, self._is_optional = metric.label, metric.optional
        self.display = not metric.optional
        self._value: MetricValue = TextValue()

    def show(self, value: MetricValue) -> None:
        """Redraw the row if the value differs."""
        if value != self._value:
            self._value = value
            self.display = not self._is_optional or value != TextValue()
            self.refresh()

    def render(self) -> Content:
        """The text of the row at its width."""
        return Content.assemble(*self._value.words(self._label, self.size.width))
