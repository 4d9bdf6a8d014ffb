"""Splitting a reply into thinking and answer."""

import re
from typing import NamedTuple

_OPENING, _CLOSING = "<think>", "</think>"
_START = re.compile(rf"\s*{_OPENING}")


class Thinking(NamedTuple):
    """A reply in two parts. `thought` is None without thinking; `done` is False while the model still thinks."""

    thought: str | None
    answer: str
    done: bool = True


def split(text: str, running: bool) -> Thinking:
    """Split a reply. While it is `running`, an incomplete mark at its end belongs to neither part."""
    start = _START.match(text)
    if start is None:
        begun = running and _OPENING.startswith(text.strip())
        return Thinking(None, "" if begun else text)
    end = text.find(_CLOSING, start.end())
    if end < 0:
        thought = text[start.end() :]
        return Thinking(_without_half(thought) if running else thought, "", not running)
    return Thinking(text[start.end() : end], text[end + len(_CLOSING) :])


def _without_half(thought: str) -> str:
    at = thought.rfind("<")
    return thought[:at] if at >= 0 and _CLOSING.startswith(thought[at:]) else thought
