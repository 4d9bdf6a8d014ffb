"""The files of a Hugging Face checkpoint that a conversion reads."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from edgellm.errors import EdgeLLMError, EdgeLLMWarning, ModelFileError, UnsupportedModelError
from edgellm.fmt import printable
from edgellm.hub.client import Hub, is_offline
from edgellm.hub.download import download_files, is_downloaded
from edgellm.hub.listing import RemoteFile, Repository, unsafe_names_problem
from edgellm.hub.observer import DownloadObserver
from edgellm.hub.transfer import read_small_file
from edgellm.models.stores import hugging_face_cache
from edgellm.system.folders import models_folder

RequiredFiles = Callable[[Iterable[str], Callable[[str], bytes]], Sequence[str]]
"""`required_files(names, read)` selects the files that a conversion reads; `read(name)` returns the content of one."""

_CARD = "README.md"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def fetch_checkpoint(name: str, observer: DownloadObserver, required_files: RequiredFiles) -> Path:
    """The folder of the checkpoint ORG/NAME, which is downloaded unless it is on this machine. Raises EdgeLLMError."""
    if is_offline() and (folder := _any_folder(name)):
        return folder
    hub = Hub(observer)
    repository = hub.repository(name)
    files = _select_files(hub, repository, required_files)
    home = models_folder() / repository.name
    if all(is_downloaded(home, file) for file in files):
        return home
    return _cached(repository, files) or download_files(hub, repository, files, no_check)


def _select_files(hub: Hub, repository: Repository, required_files: RequiredFiles) -> list[RemoteFile]:
    """The files to download. Raises EdgeLLMError if the repository has no checkpoint, or a file of it is missing."""
    files = {file.name: file for file in repository.files}

    def read(name: str) -> bytes:
        return _read_local(repository, files[name]) or read_small_file(hub, repository, files[name])

    try:
        names = required_files([*files, *repository.unsafe], read)
    except (ModelFileError, UnsupportedModelError) as error:
        raise type(error)(f"{repository.name}: {error}") from error
    if not names or "config.json" not in files:
        _refuse(repository)
    if missing := [name for name in names if name not in files]:
        unsafe = unsafe_names_problem(name for name in missing if name in repository.unsafe)
        lacks = f"lacks {printable(missing[0])}, which its index names; choose another repository"
        raise EdgeLLMError(f"{repository.name} {f'cannot be converted: {unsafe}' if unsafe else lacks}")
    return [files[name] for name in names]


def _read_local(repository: Repository, file: RemoteFile) -> bytes | None:
    """The content of a file on this machine, if it is that of the hub."""
    home, snapshot = models_folder() / repository.name, _snapshot(repository.name, repository.commit)
    for path in (home / file.name if is_downloaded(home, file) else None, snapshot / file.name):
        if path and _size(path) == file.bytes:
            return path.read_bytes()
    return None


def _any_folder(name: str) -> Path | None:
    """The folder of a checkpoint without asking a hub: pulled before, or the newest in Hugging Face's own cache."""
    try:
        commit = (hugging_face_cache() / _cache_name(name) / "refs/main").read_text()[:100].strip()
    except (OSError, ValueError):
        commit = ""
    cached = [_snapshot(name, commit)] if commit.isalnum() else []
    return next((folder for folder in (models_folder() / name, *cached) if _size(folder / "config.json") >= 0), None)


def _cached(repository: Repository, files: Sequence[RemoteFile]) -> Path | None:
    """The folder in Hugging Face's own cache, if it has all files; warns if only the model card is missing."""
    folder = _snapshot(repository.name, repository.commit)
    missing = [file.name for file in files if _size(folder / file.name) != file.bytes]
    if missing == [_CARD]:
        problem = f"has no {_CARD}, so licence and base model are left out; `hf download {repository.name} {_CARD}`"
        text = f"the copy of {repository.name} in the cache of Hugging Face {problem} adds it"
        warnings.warn(text, EdgeLLMWarning, stacklevel=2)
    return folder if missing in ([], [_CARD]) else None


def _snapshot(name: str, commit: str) -> Path:
    return hugging_face_cache() / _cache_name(name) / "snapshots" / commit


def _cache_name(name: str) -> str:
    return f"models--{name.replace('/', '--')}"


def _size(path: Path) -> int:
    """The size of a regular file in bytes; -1 for anything else."""
    try:
        return path.stat().st_size if path.is_file() else -1
    except OSError:
        return -1


def no_check(folder: Path, names: Sequence[str]) -> None:
    """Check nothing: the conversion checks a checkpoint itself."""


def _refuse(repository: Repository) -> NoReturn:
    names = [file.name.lower() for file in repository.files]
    if any(name.endswith(".gguf") for name in names):
        problem = f"holds GGUF files, which need no conversion; `edgellm pull {repository.name}` gets one"
    elif any(name.startswith("adapter_") for name in names):
        problem = "holds a LoRA adapter, not a model; merge it into its base model (peft: merge_and_unload) first"
    elif any(name.endswith(_PICKLES) for name in names):
        problem = (
            "has its weights pickled, and unpickling runs whatever code is inside; choose one with .safetensors files"
        )
    else:
        problem = "has no config.json with .safetensors files beside it; choose another repository"
    raise EdgeLLMError(f"{repository.name} {problem}")
