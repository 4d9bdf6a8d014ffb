"""The conversation as shown: one widget that renders what is visible, and keeps what it rendered."""

from tui.transcript.entry import TranscriptEntry
from tui.transcript.view import Transcript

__all__ = ["Transcript", "TranscriptEntry"]
