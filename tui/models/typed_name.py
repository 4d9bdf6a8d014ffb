"""What is typed may be a name that no list has: a repository to pull from, or a file."""

import os
from collections.abc import Iterable, Iterator

from tui.models.row import ModelRow


def typed_row(typed: str, rows: Iterable[ModelRow]) -> Iterator[ModelRow]:
    """A row for a path, or for ORG/NAME, unless it is among the rows. Whether there is such a thing shows later."""
    if " " in typed or any(row.name == typed for row in rows):
        return
    if typed.startswith(("/", "./", "../", "~")) or (typed.lower().endswith(".gguf") and ":" not in typed):
        path = os.path.expanduser(typed)  # noqa: PTH111 (Path.expanduser raises where there is none)
        yield ModelRow(path, "file", note="Enter opens this file")
    elif "/" in typed:
        yield ModelRow(typed, "Hugging Face", note="Enter asks Hugging Face for it", offered=True)
