"""The panel beside the conversation: all figures, each with an explanation for the mouse."""

from pathlib import Path

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Label

from tui.core.activity import Activity
from tui.core.memory import Memory
from tui.instruments.metric_row import MetricRow
from tui.instruments.metric_values import metric_values
from tui.instruments.metrics import SECTIONS

_ROOMY = sum(1 + 1 + len(entries) for entries in SECTIONS.values()) - 2
"""Lines with a title, and a space above it, over each section but the first."""


class Panel(VerticalScroll):
    """What the model is doing, what it costs, and what the machine has left."""

    DEFAULT_CSS = Path(__file__).with_suffix(".tcss").read_text(encoding="utf-8")

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows = {entry.name: MetricRow(entry) for entries in SECTIONS.values() for entry in entries}

    def compose(self) -> ComposeResult:
        """The sections, one under the other."""
        for title, entries in SECTIONS.items():
            if title:
                yield Label(title)
            for entry in entries:
                yield self._rows[entry.name]

    def on_resize(self) -> None:
        """On a short screen the space between the sections goes first."""
        self.set_class(self.size.height < _ROOMY, "-short")

    def show(self, reading: Activity, memory: Memory | None) -> None:
        """Say how it is now."""
        for name, value in metric_values(reading, memory).items():
            self._rows[name].show(value)
