"""The files of a Hugging Face checkpoint that a conversion reads."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from edgellm.errors import EdgeLLMError
from edgellm.home import models_folder
from edgellm.hub.bring import bring
from edgellm.hub.client import Hub, is_offline
from edgellm.hub.listing import RemoteFile, Repository
from edgellm.hub.watcher import Watcher
from edgellm.models.pulled import read_record
from edgellm.models.stores import hugging_face_cache

_TEXTS = (".json", ".jinja", ".txt", ".model")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def checkpoint(name: str, watcher: Watcher) -> Path:
    """The folder of the checkpoint ORG/NAME, fetched unless it is here. Raises EdgeLLMError."""
    if is_offline() and (folder := find_checkpoint(name)):
        return folder
    hub = Hub(watcher)
    repository = hub.repository(name)
    folder = find_checkpoint(repository.name, repository)
    return folder or bring(hub, repository, checkpoint_files(repository), no_check)


def checkpoint_files(repository: Repository) -> list[RemoteFile]:
    """The weights, and the small files beside them. Raises EdgeLLMError where no weights are that can be converted."""
    top = [file for file in repository.files if "/" not in file.name]
    stored = [f for f in top if f.name.endswith(".safetensors") and not f.name.startswith("adapter_")]
    # The same weights may lie beside them under another name, as consolidated.safetensors of Mistral.
    weights = [f for f in stored if f.name.startswith("model")] or stored
    if not weights or "config.json" not in {f.name for f in top}:
        _refuse(repository)
    return [f for f in top if f.name.endswith(_TEXTS)] + weights


def find_checkpoint(name: str, repository: Repository | None = None) -> Path | None:
    """The folder of a checkpoint that is here: pulled before, or in Hugging Face's own cache.

    With what the hub has now, `repository`, all of it must be there; without (no network), there must be a config.json.
    """
    for folder in (models_folder() / name, *_snapshots(name, repository)):
        names = {f.name: f.bytes for f in checkpoint_files(repository)} if repository else {"config.json": None}
        if all(_has(folder / file, nbytes) for file, nbytes in names.items()) and _is_current(folder, repository):
            return folder
    return None


def _snapshots(name: str, repository: Repository | None) -> list[Path]:
    folder = hugging_face_cache() / f"models--{name.replace('/', '--')}"
    try:
        commit = repository.commit if repository else (folder / "refs/main").read_text()[:100].strip()
    except (OSError, ValueError):
        return []
    return [folder / "snapshots" / commit] if commit.isalnum() else []


def _is_current(folder: Path, repository: Repository | None) -> bool:
    """Whether the record of a pulled checkpoint says what the hub has; snapshots have the commit in their path."""
    record = read_record(folder)
    if not repository or folder.name == repository.commit:
        return True
    return all(record.get(file.name) == file.entry for file in checkpoint_files(repository))


def _has(path: Path, nbytes: int | None) -> bool:
    try:
        return path.is_file() and nbytes in (None, path.stat().st_size)
    except OSError:
        return False


def no_check(folder: Path, names: Sequence[str]) -> None:
    """Converting checks a checkpoint itself."""


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
