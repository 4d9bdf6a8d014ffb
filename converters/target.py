"""Checks of the target path and its disk, made before any weight is read."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from converters.output import temporary_path, wrap_os_errors
from edgellm.errors import EdgeLLMError, OptionError
from edgellm.fmt import shown_path, size


def check_target(
    out: str | os.PathLike[str],
    sources: Iterable[str | os.PathLike[str] | None],
    *,
    force: bool,
    example: str = "model.gguf",
) -> Path:
    """The path of the file to write, symbolic links resolved.

    Raises OptionError for an empty name. Raises EdgeLLMError if no file can be written there, if it exists and is one
    of the `sources`, under whatever name, or if it exists and `force` is False. Sources that are None do not count.
    `example` is the name of such a file.
    """
    if not os.fspath(out):
        raise OptionError("the new file has an empty name; give one")
    name = shown_path(out)
    with wrap_os_errors(Path(out)):
        target = _resolved(out, name)
        _check_folder(out, target, name, example)
        if Path(out).exists():
            _check_replaced(Path(out), name, sources, force)
    return target


def _resolved(out: str | os.PathLike[str], name: str) -> Path:
    try:
        return Path(out).resolve()
    except (RuntimeError, ValueError):  # a loop of links, or a NUL character
        raise EdgeLLMError(f"{name}: is no path to a file; choose another name") from None


def _check_folder(out: str | os.PathLike[str], target: Path, name: str, example: str) -> None:
    if target.is_dir():
        inside = shown_path(Path(out) / example)
        raise EdgeLLMError(f"{name}: is a folder; give the name of a file in it, such as {inside}")
    if os.fspath(out).endswith(("/", os.sep)):
        raise EdgeLLMError(f"{name}: there is no such folder; make it first, or give the name of a file")
    if not target.parent.is_dir():
        raise EdgeLLMError(f"{name}: there is no folder {shown_path(target.parent)}; make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise EdgeLLMError(f"{name}: this folder may not be written to; choose another place")


def _check_replaced(target: Path, name: str, sources: Iterable[str | os.PathLike[str] | None], force: bool) -> None:
    if any(source is not None and Path(source).exists() and target.samefile(source) for source in sources):
        raise EdgeLLMError(f"{name}: is read by this command; choose another name")
    if not target.is_file():
        raise EdgeLLMError(f"{name}: is not a regular file; choose another name")
    if not force:
        raise EdgeLLMError(f"{name}: exists; choose another name, or replace it with --force")


def check_disk_space(target: Path, nbytes: int) -> None:
    """Raise EdgeLLMError if the disk has less than `nbytes` free; the space of a killed run's file counts as free."""
    with wrap_os_errors(target):
        free = shutil.disk_usage(target.parent).free + _taken(temporary_path(target))
    if nbytes > free:
        name, needed = shown_path(target), size(nbytes)
        raise EdgeLLMError(f"{name}: needs {needed}, and its disk has {size(free)} free; make room, or write elsewhere")


def _taken(path: Path) -> int:
    """Bytes that a file occupies on the disk; a sparse file occupies less than its length."""
    try:
        return 512 * getattr(path.lstat(), "st_blocks", 0)
    except FileNotFoundError:
        return 0
