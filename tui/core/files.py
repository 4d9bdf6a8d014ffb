"""Files that go with a message."""

import re
from collections.abc import Iterable

_BACKTICKS = re.compile(r"`{3,}")


def with_files(text: str, files: Iterable[tuple[str, str]]) -> str:
    """A message as the model gets it: each file with its name, fenced, and below them what was typed."""
    return "\n\n".join(part for part in [*(_fenced(*file) for file in files), text] if part)


def _fenced(name: str, content: str) -> str:
    """The fence is longer than any in the file, so that none of it can be taken for the end."""
    longest = max(map(len, _BACKTICKS.findall(content)), default=2)
    fence = "`" * (longest + 1)
    return f"{name}:\n{fence}\n{content.rstrip()}\n{fence}"
