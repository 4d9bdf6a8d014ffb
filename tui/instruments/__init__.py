"""Live metrics: the status line, the panel, and the line of statistics below a reply.

    numbers, bars         formatting of numbers, bars and sparklines
    metrics               the metrics of the panel, with their explanations
    metric_values         their current values; metric_row is the widget of one of them, panel that of all
    status_text           the text of the status line; status_layout chooses what fits; status_line is the widget
    reply_stats           the line below a reply

`Panel.show` and `StatusLine.show` may be called at any rate: only changes are drawn. The widgets load on first use, so
that `reply_stats` needs no screen.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.instruments.panel import Panel
    from tui.instruments.status_line import StatusLine

_MODULE_OF = {"Panel": "tui.instruments.panel", "StatusLine": "tui.instruments.status_line"}

__all__ = ["Panel", "StatusLine"]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tui.instruments' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
