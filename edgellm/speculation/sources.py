"""What proposes drafts."""

from typing import Literal

Source = Literal["guide", "lookup", "model", "mtp", "eagle", "layers"]
"""Forced text, prompt lookup, a draft model, an MTP or EAGLE head, or the first layers of the target."""
