"""What proposes drafts."""

from typing import Literal

Source = Literal["guide", "lookup", "model", "mtp", "eagle", "assistant"]
"""Forced text, prompt lookup, a draft model, or a head: for multi-token prediction, of EAGLE-3, or Gemma 4's."""
