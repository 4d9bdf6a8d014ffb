"""Completion of file names."""

import heapq
import os
import re
from functools import lru_cache
from pathlib import Path

from tui.composer.completion import CompletionItem
from tui.core.files import unescaped

_MAX_COMPLETIONS = 50

_SPECIAL = re.compile(r"""([\s'"\\])""")


def complete_path(typed: str) -> list[CompletionItem]:
    r"""Up to 50 files and folders whose path begins with the typed text, sorted by name, ignoring case.

    Hidden ones are included only after a dot. An unreadable folder gives no completions. As in a shell, a backslash
    escapes a space or a quote (`My\ Notes`); before other characters it is literal, as in a Windows path.
    """
    if typed == "~":
        return [CompletionItem("~/", "your folder")]
    path = unescaped(typed.lstrip("'\""))
    shown_folder, begun = os.path.split(path)
    head = path[: len(path) - len(begun)]
    folder = _at_home(shown_folder)
    try:
        names = _names(folder, folder.stat().st_mtime_ns)
    except (OSError, ValueError):
        return []
    lower, hidden = begun.casefold(), begun.startswith(".")
    fitting = (name for name in names if name.casefold().startswith(lower) and (hidden or not name.startswith(".")))
    return [_completion(folder / name, head) for name in heapq.nsmallest(_MAX_COMPLETIONS, fitting, key=str.casefold)]


@lru_cache(maxsize=1)
def _names(folder: Path, changed: int) -> list[str]:
    """The names in a folder; `changed` is part of the cache key. Names with control characters are left out."""
    return [name for name in os.listdir(folder) if name.isprintable()]  # noqa: PTH208 (pathlib takes twice the time)


def _at_home(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # an unknown user
        return Path(path)


def _completion(path: Path, head: str) -> CompletionItem:
    folder = os.path.isdir(path)  # noqa: PTH112 (`Path.is_dir` raises OSError for a folder without access)
    end, about = ("/", "folder") if folder else ("", _size(path))
    return CompletionItem(_SPECIAL.sub(r"\\\1", head + path.name) + end, about, path.name + end)


def _size(path: Path) -> str:
    try:
        return f"{path.stat().st_size:,} bytes"
    except OSError:
        return ""
