"""Replies in two parts: what the model thinks, in <think> … </think>, and what it answers."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

OPENING, CLOSING = "<think>\n", "\n</think>\n\n"
"""What stands before and behind a thought in the text of a reply."""

_SPLIT = re.compile(r"\s*<think>\n?(?P<thought>.*?)(?:\n?</think>\n{0,2}(?P<answer>.*))?", re.DOTALL)


class Thought(NamedTuple):
    """A reply in two parts. `thought` is None without thinking, `answer` while the model still thinks."""

    thought: str | None
    answer: str | None

    @classmethod
    def of(cls, text: str) -> Self:
        """Split the text of a reply."""
        found = _SPLIT.fullmatch(text)
        return cls(found["thought"], found["answer"]) if found else cls(None, text)


def marked_thought(begun: str, opening: str, closing: str) -> list[tuple[str, bool]]:
    """The text of a reply so far, with marks of a model around its thought: texts, and whether each is a mark."""
    thought, answer = Thought.of(begun)
    if thought is None:
        return [(begun, False)]
    parts = [(opening, True), (thought, False)]
    return parts if answer is None else [*parts, (closing, True), (answer, False)]


def with_thinking(message: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """A message for a template that reads the thinking of a reply in a field of its own, beside `content`."""
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, str) or field in message:
        return message
    thought, answer = Thought.of(content)
    return message if thought is None else {**message, field: thought, "content": answer or ""}
