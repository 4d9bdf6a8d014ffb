"""Downloads the files of a model or checkpoint into edgellm's folder of models: all of them, checked, or none."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, shown_path, size
from edgellm.hub.client import Hub
from edgellm.hub.listing import RemoteFile, Repository
from edgellm.hub.transfer import download_file
from edgellm.models.lock import pull_lock
from edgellm.models.pull_records import incoming_folder, incoming_root, is_record, read_record, write_record
from edgellm.system.folders import models_folder

Check = Callable[[Path, Sequence[str]], None]


def download_files(hub: Hub, repository: Repository, files: Sequence[RemoteFile], check: Check) -> Path:
    """Download files of a repository, but those that are here, and return the folder that has them.

    The files stay in a staging folder until all are complete and `check(folder, names)` has accepted them; then they
    move to their place. Raises EdgeLLMError. Bytes that arrived are kept for the next attempt, unless `check` raises.
    """
    home = models_folder() / repository.name
    if all(is_downloaded(home, file) for file in files):
        return home
    _refuse_to_replace(home, files)
    staging = incoming_folder(repository.name, {file.name: file.record for file in files})
    with _translate_os_errors(staging), _staging(staging, repository.name):
        write_record(staging, {file.name: file.record for file in files})
        _replace_outdated(staging, files)
        _move_back(home, staging, files)
        _check_space(staging, files)
        hub.observer.starting(_describe(repository, files), sum(file.bytes for file in files))
        _fetch_all(hub, repository, files, staging)
        try:
            check(staging, [file.name for file in files])
        except EdgeLLMError:
            shutil.rmtree(staging)
            raise
        _install(staging, home, files)
    return home


def is_downloaded(home: Path, file: RemoteFile) -> bool:
    """Whether a file was pulled before, and the hub still has the same."""
    return read_record(home).get(file.name) == file.record and _size(home / file.name) == file.bytes


@contextmanager
def _staging(folder: Path, repository: str) -> Iterator[None]:
    """Lock a staging folder, and remove it at the end if no bytes arrived."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with pull_lock(folder, repository):
            try:
                yield
            finally:
                if not any(map(_has_content, folder.rglob("*"))):
                    shutil.rmtree(folder, ignore_errors=True)
    finally:
        _remove_empty(folder.parent)


def _has_content(path: Path) -> bool:
    return path.is_file() and not is_record(path) and _size(path) > 0


def _refuse_to_replace(home: Path, files: Sequence[RemoteFile]) -> None:
    record = read_record(home)
    for file in files:
        if file.name not in record and (home / file.name).exists():
            path = shown_path(home / file.name)
            raise EdgeLLMError(f"{path}: is there already, and was not pulled; move it elsewhere first")


def _replace_outdated(staging: Path, files: Sequence[RemoteFile]) -> None:
    """Move the unchanged files of an earlier commit to `staging`, and remove the rest of them."""
    for other in staging.parent.iterdir():
        record = read_record(other) if other != staging and other.is_dir() else {}
        if record.keys().isdisjoint(file.name for file in files):
            continue
        for name in (file.name for file in files if record.get(file.name) == file.record):
            for path in (other / name, other / f"{name}.part"):
                if path.exists():
                    _move(path, staging / path.relative_to(other))
        shutil.rmtree(other)


def _move_back(home: Path, staging: Path, files: Sequence[RemoteFile]) -> None:
    """Move files back from `home`, as after a kill between two moves, because all files are checked together."""
    for file in files:
        if is_downloaded(home, file):
            _move(home / file.name, staging / file.name)


def _check_space(staging: Path, files: Sequence[RemoteFile]) -> None:
    there = sum(max(0, _size(staging / f.name), _size(staging / f"{f.name}.part")) for f in files)
    needed, free = sum(file.bytes for file in files) - there, shutil.disk_usage(staging).free
    if needed > free:
        where = shown_path(models_folder())
        advice = "make room (`edgellm list`, `edgellm rm`), or set EDGELLM_HOME to a folder on another disk"
        raise EdgeLLMError(f"{size(needed)} are missing, but {size(free)} are free in {where}; {advice}")


def _describe(repository: Repository, files: Sequence[RemoteFile]) -> str:
    what = printable(files[0].name) if len(files) == 1 else f"{len(files)} files"
    return f"{repository.name}: {what}"


def _fetch_all(hub: Hub, repository: Repository, files: Sequence[RemoteFile], staging: Path) -> None:
    total, before, arrived = sum(file.bytes for file in files), 0, 0

    def progressed(received: int, new: int) -> None:
        nonlocal arrived
        arrived += new
        hub.observer.progressed(before + received, total, arrived)

    for file in files:
        path, part = staging / file.name, staging / f"{file.name}.part"
        if _size(path) != file.bytes:
            path.parent.mkdir(parents=True, exist_ok=True)
            download_file(hub, repository, file, part, progressed)
            _sync(part)
            _move(part, path)
        before += file.bytes


def _install(staging: Path, home: Path, files: Sequence[RemoteFile]) -> None:
    """Move files to their place. Older files of the same names are removed first, so that the record is never wrong."""
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
    """The size of a file in bytes; -1 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _remove_empty(folder: Path) -> None:
    """Remove a folder and its parents while they are empty, up to the folder of all unfinished pulls."""
    while folder != incoming_root().parent:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


@contextmanager
def _translate_os_errors(folder: Path) -> Iterator[None]:
    """Turn an OSError into an EdgeLLMError that names the path and says what to do."""
    try:
        yield
    except OSError as error:
        where = shown_path(error.filename or folder)
        advice = "make room or check its permissions; the downloaded bytes are kept"
        raise EdgeLLMError(f"{where}: cannot be written ({error.strerror or error}); {advice}") from error
