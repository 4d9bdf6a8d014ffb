"""What the machine is doing while it does it: a status line, a panel, and the figures kept under a reply.

    numbers, bars     numbers and shares in words and lines
    figures           the line under a reply
    parts, fit        what the status line says, and what of it fits ─▶ status_line
    entries, values   what the panel explains, and what it says      ─▶ panel (rows)

Each widget has one method, `show(reading, memory)`, to be called as often as one likes: only what changed is drawn.
The widgets load on first use, so that `figures` needs no screen.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.instruments.panel import Panel
    from tui.instruments.status_line import StatusLine

_HOME_OF = {"Panel": "tui.instruments.panel", "StatusLine": "tui.instruments.status_line"}

__all__ = ["Panel", "StatusLine"]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tui.instruments' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
