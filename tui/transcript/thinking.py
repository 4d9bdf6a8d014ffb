"""Splitting a reply into thinking and answer.

<think> … </think> answer                          most models
… </think> answer, with the mark on its own line   those whose prompt opens the thinking, such as DeepSeek-R1
<think> … </think> <answer> … </answer>            Hunyuan; ERNIE 4.5 has <response>
"""

import re
from typing import NamedTuple

_OPENING, _CLOSING = "<think>", "</think>"
_START = re.compile(rf"\s*{_OPENING}")
_CLOSING_LINE = re.compile(rf"^{_CLOSING}[ \t]*$", re.MULTILINE)
_WRAPPERS = ("<answer>", "<response>")
_WRAPPER = re.compile(r"\s*<(answer|response)>\n?")


class Thinking(NamedTuple):
    """A reply in two parts. `thought` is None without thinking; `done` is False while the model still thinks."""

    thought: str | None
    answer: str
    done: bool = True


def split(text: str, running: bool) -> Thinking:
    """Split a reply. While it is `running`, an incomplete mark at its end belongs to neither part."""
    start = _START.match(text)
    if start is None:
        if closing := _CLOSING_LINE.search(text):
            return Thinking(text[: closing.start()], _unwrapped(text[closing.end() :], running))
        begun = running and _OPENING.startswith(text.strip())
        return Thinking(None, "" if begun else text)
    end = text.find(_CLOSING, start.end())
    if end < 0:
        thought = text[start.end() :]
        return Thinking(_without_half(thought, _CLOSING) if running else thought, "", not running)
    return Thinking(text[start.end() : end], _unwrapped(text[end + len(_CLOSING) :], running))


def _unwrapped(answer: str, running: bool) -> str:
    """An answer without the tags that some models have around it, behind their thinking."""
    start = _WRAPPER.match(answer)
    if start is None:
        begun = running and answer.strip() and any(each.startswith(answer.strip()) for each in _WRAPPERS)
        return "" if begun else answer
    inside, closing = answer[start.end() :], f"</{start[1]}>"
    if closing in inside:
        within, _, behind = inside.partition(closing)
        return within.rstrip("\n") + behind
    return _without_half(inside, closing) if running else inside


def _without_half(text: str, mark: str) -> str:
    """The text without the beginning of a mark at its end."""
    at = text.rfind("<")
    return text[:at] if at >= 0 and mark.startswith(text[at:]) else text
