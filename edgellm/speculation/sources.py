"""What proposes drafts."""

from typing import Literal

Source = Literal["guide", "lookup", "model", "mtp", "eagle"]
"""Forced text, prompt lookup, a draft model, or a head: for multi-token prediction, or of EAGLE-3."""
