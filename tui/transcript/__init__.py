"""The conversation as shown: one widget that renders what is visible, and keeps what it rendered."""

from tui.transcript.entry import Entry
from tui.transcript.view import Transcript

__all__ = ["Entry", "Transcript"]
