"""The panel beside the conversation: all metrics, each with a tooltip."""

from pathlib import Path

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Label

from tui.core.activity import Activity
from tui.core.memory import Memory
from tui.instruments.metric_row import MetricRow
from tui.instruments.metric_values import metric_values
from tui.instruments.metrics import SECTIONS

_FULL_HEIGHT = sum(2 + sum(not metric.optional for metric in metrics) for metrics in SECTIONS.values()) - 2
"""Lines of the whole panel: each section but the first has a title, and a blank line above it."""


class Panel(VerticalScroll):
    """What the model does, its speed, and the machine's memory."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = {metric.name: MetricRow(metric) for metrics in SECTIONS.values() for metric in metrics}

    def compose(self) -> ComposeResult:
        """The sections, one below the other."""
        for title, metrics in SECTIONS.items():
            if title:
                yield Label(title)
            for metric in metrics:
                yield self._rows[metric.name]

    def on_resize(self) -> None:
        """Leave out the blank lines between sections on a short screen."""
        self.set_class(self.size.height < _FULL_HEIGHT, "-short")

    def show(self, activity: Activity, memory: Memory | None) -> None:
        """Show the current values."""
        for name, value in metric_values(activity, memory).items():
            self._rows[name].show(value)
