"""What a model thought before it answered."""

import re
from typing import NamedTuple

_OPENING, _CLOSING = "<think>", "</think>"
_START = re.compile(rf"\s*{_OPENING}")


class Thinking(NamedTuple):
    """A reply in its two parts. `thought` is None where there is none; `done` tells whether it has ended."""

    thought: str | None
    answer: str
    done: bool = True


def split(text: str, running: bool) -> Thinking:
    """The parts of a reply. Of one that is `running`, a mark that is not whole yet belongs to neither."""
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
