"""Files that belong together, from a hub into edgellm's folder of models: all of them whole and checked, or none."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, size
from edgellm.hub.client import Hub
from edgellm.hub.listing import RemoteFile, Repository
from edgellm.hub.transfer import download_file
from edgellm.models.lock import pull_lock
from edgellm.models.pull_records import incoming_folder, incoming_root, is_record, read_record, write_record
from edgellm.system.folders import models_folder

Check = Callable[[Path, Sequence[str]], None]


def download_files(hub: Hub, repository: Repository, files: Sequence[RemoteFile], check: Check) -> Path:
    """Bring files of a repository; the folder that they are below. What is there already is not fetched again.

    They wait beside each other under their names until all have come, and `check(folder, names)` has not raised: then
    they move to their place. Raises EdgeLLMError; what came is kept for the next time, but not what `check` refuses.
    """
    home = models_folder() / repository.name
    if all(is_downloaded(home, file) for file in files):
        return home
    _refuse_to_replace(home, files)
    staging = incoming_folder(repository.name, {file.name: file.record for file in files})
    with _told(staging), _staging(staging, repository.name):
        write_record(staging, {file.name: file.record for file in files})
        _replace_outdated(staging, files)
        _gather(home, staging, files)
        _check_space(staging, files)
        hub.observer.starting(_words(repository, files), sum(file.bytes for file in files))
        _fetch_all(hub, repository, files, staging)
        try:
            check(staging, [file.name for file in files])
        except EdgeLLMError:
            shutil.rmtree(staging)
            raise
        _settle(staging, home, files)
    return home


def is_downloaded(home: Path, file: RemoteFile) -> bool:
    """Whether a file was pulled before, the same that the hub has now."""
    return read_record(home).get(file.name) == file.record and _size(home / file.name) == file.bytes


@contextmanager
def _staging(folder: Path, repository: str) -> Iterator[None]:
    """Have a folder to oneself; one into which nothing came is removed again."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with pull_lock(folder, repository):
            try:
                yield
            finally:
                if not any(map(_has_come, folder.rglob("*"))):
                    shutil.rmtree(folder, ignore_errors=True)
    finally:
        _remove_empty(folder.parent)


def _has_come(path: Path) -> bool:
    return path.is_file() and not is_record(path) and _size(path) > 0


def _refuse_to_replace(home: Path, files: Sequence[RemoteFile]) -> None:
    record = read_record(home)
    for file in files:
        if file.name not in record and (home / file.name).exists():
            path = printable(str(home / file.name), 400)
            raise EdgeLLMError(f"{path}: is there already, and was not pulled; move it elsewhere first")


def _replace_outdated(staging: Path, files: Sequence[RemoteFile]) -> None:
    """Take over what came of an earlier commit and has not changed since, and remove the rest of it."""
    for other in staging.parent.iterdir():
        record = read_record(other) if other != staging and other.is_dir() else {}
        if record.keys().isdisjoint(file.name for file in files):
            continue
        for name in (file.name for file in files if record.get(file.name) == file.record):
            for path in (other / name, other / f"{name}.part"):
                if path.exists():
                    _move(path, staging / path.relative_to(other))
        shutil.rmtree(other)


def _gather(home: Path, staging: Path, files: Sequence[RemoteFile]) -> None:
    """Move back what is in its place already, as after a kill between two moves: files are checked side by side."""
    for file in files:
        if is_downloaded(home, file):
            _move(home / file.name, staging / file.name)


def _check_space(staging: Path, files: Sequence[RemoteFile]) -> None:
    there = sum(max(0, _size(staging / f.name), _size(staging / f"{f.name}.part")) for f in files)
    needed, free = sum(file.bytes for file in files) - there, shutil.disk_usage(staging).free
    if needed > free:
        where = printable(str(models_folder()), 400)
        advice = "make room (`edgellm list`, `edgellm rm`), or set EDGELLM_HOME to a folder on another disk"
        raise EdgeLLMError(f"{size(needed)} are to come, but {size(free)} are free in {where}; {advice}")


def _words(repository: Repository, files: Sequence[RemoteFile]) -> str:
    what = printable(files[0].name) if len(files) == 1 else f"{len(files)} files"
    return f"{repository.name}: {what}"


def _fetch_all(hub: Hub, repository: Repository, files: Sequence[RemoteFile], staging: Path) -> None:
    total, before, came = sum(file.bytes for file in files), 0, 0

    def moved(have: int, new: int) -> None:
        nonlocal came
        came += new
        hub.observer.progressed(before + have, total, came)

    for file in files:
        path, part = staging / file.name, staging / f"{file.name}.part"
        if _size(path) != file.bytes:
            path.parent.mkdir(parents=True, exist_ok=True)
            download_file(hub, repository, file, part, moved)
            _sync(part)
            _move(part, path)
        before += file.bytes


def _settle(staging: Path, home: Path, files: Sequence[RemoteFile]) -> None:
    """Move files to their place; what has the place of one goes first, so that the record is never wrong of it."""
    for file in files:
        (home / file.name).unlink(missing_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    write_record(home, read_record(home) | {file.name: file.record for file in files})
    for file in reversed(files):
        _move(staging / file.name, home / file.name)
    shutil.rmtree(staging)


def _move(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)  # noqa: PTH105 (it replaces on every system)


def _sync(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _size(path: Path) -> int:
    """A file's size; -1 is that of none, as a file may be empty."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _remove_empty(folder: Path) -> None:
    """Remove a folder and those around it, as far as they are empty, up to that of all that comes."""
    while folder != incoming_root().parent:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Turn an error of the system into one that names the folder and says what to do."""
    try:
        yield
    except OSError as error:
        where = printable(str(error.filename or folder), 400)
        advice = "make room or check its permissions; what has come is kept"
        raise EdgeLLMError(f"{where}: cannot be written ({error.strerror or error}); {advice}") from error
