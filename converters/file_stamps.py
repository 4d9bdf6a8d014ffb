"""Detecting that source files change during a conversion."""

from collections.abc import Iterable
from pathlib import Path

from edgellm.errors import ModelFileError
from edgellm.fmt import shown_path


class FileStamps:
    """Identity, size and modification time of files, taken on construction. A conversion reads them for minutes."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._states = {path: _state(path) for path in paths}

    def check_unchanged(self) -> None:
        """Raise ModelFileError if a file was changed or replaced since."""
        for path, state in self._states.items():
            if _state(path) != state:
                name = shown_path(path)
                raise ModelFileError(f"{name}: was changed while it was read; wait until it is whole, then try again")


def _state(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
