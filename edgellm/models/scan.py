"""Finds GGUF files below a folder, which may be huge, contain cycles of links, or be unreadable in parts."""

import os
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from edgellm.models.split_names import split_name

_MAX_DEPTH = 8
_MAX_ENTRIES = 50_000


def model_files(root: Path) -> Iterator[tuple[str, Path]]:
    """The .gguf files below `root`, ordered by name: the path below `root` without extension, and the path.

    A split model is listed once, by its first part that is there. Links are followed, but no folder is entered twice.
    Hidden folders are skipped, because programs keep incomplete files there. Unreadable folders are skipped, and so are
    folders more than 8 levels deep, and everything after 50,000 entries.
    """
    models: set[tuple[str, str]] = set()
    for path in _files(root):
        name = path.relative_to(root).with_suffix("").as_posix()
        stem, count = split_name(name)
        if (stem, count) not in models:
            models.add((stem, count))
            yield stem, path


def _files(root: Path) -> Iterator[Path]:
    folders, left = deque([(root, 0)]), _MAX_ENTRIES
    entered: set[tuple[int, int]] = set()
    while folders and left > 0:
        folder, depth = folders.popleft()
        entries = _entries(folder, left, entered)
        left -= len(entries)
        for entry in entries:
            if _is_folder(entry):
                if depth < _MAX_DEPTH and not entry.name.startswith("."):
                    folders.append((Path(entry.path), depth + 1))
            elif entry.name.lower().endswith(".gguf"):
                yield Path(entry.path)


def _entries(folder: Path, limit: int, entered: set[tuple[int, int]]) -> list[os.DirEntry[str]]:
    """The entries of a folder, ordered by name; none if it was entered before or is unreadable."""
    try:
        found = folder.stat()
        identity = (found.st_dev, found.st_ino)
        if identity in entered:
            return []
        entered.add(identity)
        with os.scandir(folder) as entries:
            return sorted(islice(entries, limit), key=lambda entry: entry.name)
    except (OSError, ValueError):  # ValueError: a path with a zero byte
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
