"""The thinking of Gemma 4 in a reply: a channel before the answer. (https://ai.google.dev/gemma/docs/core)

    <|channel>thought
    Let me see.<channel|>It is noon.

What a caller reads is text as other models write it: the thinking in <think> … </think>. A model that is not to think
may write an empty channel, of which nothing remains.
"""

from collections.abc import Mapping

from edgellm.text.thought import marked_thought
from edgellm.text.thought_reader import ThoughtReader

OPEN, CLOSE = "<|channel>", "<channel|>"
CHANNEL_MARKS = (OPEN, CLOSE)
"""The texts of the tokens around a channel."""

_NAME = "thought\n"


def has_thought_channel(source: str) -> bool:
    """Whether a chat template knows the channel."""
    return OPEN in source and CLOSE in source


def channel_continuation(begun: str) -> list[tuple[str, bool]]:
    """What follows the prompt of a reply that begins with the text `begun`: texts, and whether each is a mark."""
    return marked_thought(begun, OPEN + _NAME, CLOSE)


def channel_reader(marks: Mapping[int, str], begun: str = "") -> ThoughtReader:
    """A reader of replies with a channel; `marks` are CHANNEL_MARKS by the ids of their tokens."""
    return ThoughtReader(marks, begun, OPEN, is_named=True)
