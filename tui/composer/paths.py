"""Completion of file names."""

import heapq
import os
import re
from functools import lru_cache
from pathlib import Path

from tui.composer.completion import CompletionItem

_MOST = 50

_SPECIAL = re.compile(r"""([\s'"\\])""")
_ESCAPED = re.compile(r"""\\([\s'"\\])""")


def complete_path(typed: str) -> list[CompletionItem]:
    r"""Up to 50 files and folders whose path begins with what is typed, by name; case does not matter.

    Hidden ones only after a dot. A folder that cannot be read has nothing in it. As in a shell, a backslash stands
    before a space or a quote in a name (`My\ Notes`); before anything else it is ordinary, as in a path of Windows.
    """
    if typed == "~":
        return [CompletionItem("~/", "your folder")]
    path = _ESCAPED.sub(r"\1", typed.lstrip("'\""))
    shown_folder, begun = os.path.split(path)
    head = path[: len(path) - len(begun)]
    folder = _at_home(shown_folder)
    try:
        names = _names(folder, folder.stat().st_mtime_ns)
    except (OSError, ValueError):
        return []
    lower, hidden = begun.casefold(), begun.startswith(".")
    fitting = (name for name in names if name.casefold().startswith(lower) and (hidden or not name.startswith(".")))
    return [_completion(folder / name, head) for name in heapq.nsmallest(_MOST, fitting, key=str.casefold)]


@lru_cache(maxsize=1)
def _names(folder: Path, changed: int) -> list[str]:
    """What is in a folder that changed then. Names with control characters cannot be typed and are left out."""
    return [name for name in os.listdir(folder) if name.isprintable()]  # noqa: PTH208 (paths take twice the time)


def _at_home(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # a user that is not known here
        return Path(path)


def _completion(path: Path, head: str) -> CompletionItem:
    folder = os.path.isdir(path)  # noqa: PTH112 (that of `Path` raises OSError where the folder may not be entered)
    end, about = ("/", "folder") if folder else ("", _size(path))
    return CompletionItem(_SPECIAL.sub(r"\\\1", head + path.name) + end, about, path.name + end)


def _size(path: Path) -> str:
    try:
        return f"{path.stat().st_size:,} bytes"
    except OSError:
        return ""
