"""Model files below a folder that may be anything: huge, looped, half unreadable."""

import os
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from edgellm.models.split_names import split_name

_MAX_DEPTH = 8
_MAX_ENTRIES = 50_000


def model_files(root: Path) -> Iterator[tuple[str, Path]]:
    """The .gguf files below `root` in order of their names, and each one's path below it without the ending.

    Of a split model the first part there is stands for all. Links are followed, but no folder is entered twice, and
    none that is hidden: that is where programs keep what is not whole yet.
    What cannot be read is passed over, and so is what lies deeper, or comes later, than any collection does.
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
    """What is in a folder, by name; nothing if it was entered before or may not be read."""
    try:
        found = folder.stat()
        identity = (found.st_dev, found.st_ino)
        if identity in entered:
            return []
        entered.add(identity)
        with os.scandir(folder) as entries:
            return sorted(islice(entries, limit), key=lambda entry: entry.name)
    except (OSError, ValueError):  # of a path with a zero byte
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False
