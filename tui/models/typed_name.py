"""A typed name that is not in the list: a repository to pull from, or a file."""

import os
from collections.abc import Iterable, Iterator

from tui.models.row import ModelRow


def typed_row(typed: str, rows: Iterable[ModelRow]) -> Iterator[ModelRow]:
    """A row for a path or ORG/NAME that is not among the rows. Whether it exists shows when it is chosen."""
    if " " in typed or any(row.name == typed for row in rows):
        return
    if typed.startswith(("/", "./", "../", "~")) or (typed.lower().endswith(".gguf") and ":" not in typed):
        path = os.path.expanduser(typed)  # noqa: PTH111 (Path.expanduser raises where there is none)
        yield ModelRow(path, "file", note="Enter opens this file")
    elif "/" in typed:
        yield ModelRow(typed, "Hugging Face", note="Enter asks Hugging Face for it", offered=True)
