"""Titles, and other words that stand at the end of a line."""

import re

from edgellm.terminal.sanitize import sanitize

_ZERO_WIDTH_JOINER = "\u200d"
_JOINED = re.compile(f"([{_ZERO_WIDTH_JOINER}\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]+)")


def one_line(text: str, limit: int = 80) -> str:
    """A title, or a few words of a text, on one line of at most `limit` characters, harmless to a terminal."""
    line = " ".join(text.split())
    return with_joiners(line if len(line) <= limit else f"{cut(line, limit - 1)}…")


def cut(text: str, limit: int) -> str:
    """The first characters of a text, without a joiner that has nothing more to join."""
    return text[:limit].rstrip(_ZERO_WIDTH_JOINER)


def with_joiners(text: str) -> str:
    """As `sanitize`, but for what makes one emoji of several (joiners, variation selectors, skin tones).

    Terminals disagree about the width of these: so nothing may stand behind them that could be out of place.
    """
    return "".join(part if place % 2 else sanitize(part) for place, part in enumerate(_JOINED.split(text)))
