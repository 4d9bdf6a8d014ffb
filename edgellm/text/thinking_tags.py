"""The marks between which a reply thinks, by its chat template."""

from typing import NamedTuple

from edgellm.text import thought_channel


class ThinkingTags(NamedTuple):
    """The texts before and behind what a model thinks.

    `lead` and `follow` are the white space that models write before and behind `closing`.
    """

    opening: str
    closing: str
    lead: str = ""
    follow: str = ""


_KNOWN = (
    ThinkingTags("<think>", "</think>", "\n", "\n\n"),
    ThinkingTags("[THINK]", "[/THINK]"),  # Mistral
    ThinkingTags("<seed:think>", "</seed:think>", "\n", "\n"),  # Seed-OSS
)


def thinking_tags(source: str) -> ThinkingTags | None:
    """The tags that a chat template knows; None for harmony, which has channels, and for models that do not think."""
    if thought_channel.has_thought_channel(source):
        return ThinkingTags(thought_channel.OPEN, thought_channel.CLOSE)
    return next((tags for tags in _KNOWN if tags.opening in source or tags.closing in source), None)
