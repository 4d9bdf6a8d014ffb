"""Titles, and other texts that end a line of the screen."""

import re

from edgellm.terminal.sanitize import sanitize

_ZERO_WIDTH_JOINER = "\u200d"
_JOINED = re.compile(f"([{_ZERO_WIDTH_JOINER}\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]+)")


def one_line(text: str, limit: int = 80) -> str:
    """The beginning of a text, on one line of at most `limit` characters, without control characters."""
    line = " ".join(text.split())
    return with_joiners(line if len(line) <= limit else f"{cut(line, limit - 1)}…")


def cut(text: str, limit: int) -> str:
    """The first `limit` characters of a text, without a joiner at their end."""
    return text[:limit].rstrip(_ZERO_WIDTH_JOINER)


def with_joiners(text: str) -> str:
    """As `sanitize`, but joiners, variation selectors and skin tones, which combine emoji, are kept.

    Terminals disagree about the width of such emoji, so that nothing may follow on the line.
    """
    return "".join(part if place % 2 else sanitize(part) for place, part in enumerate(_JOINED.split(text)))
