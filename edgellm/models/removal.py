"""Removes models: only files that were pulled."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from edgellm.errors import ModelFileError
from edgellm.fmt import printable, shown_path
from edgellm.models.lock import pull_lock
from edgellm.models.names import canonical_name, resolve, unique_names
from edgellm.models.pull_records import pulled_repositories, read_record, unfinished_pulls, write_record
from edgellm.models.split_names import split_name
from edgellm.models.stores import BUILT_IN, StoredModel, stored_models
from edgellm.system.folders import models_folder


@dataclass(frozen=True)
class Removable:
    """Files by their paths below `folder`; the whole folder if `partial`, an unfinished pull."""

    what: str
    folder: Path
    names: tuple[str, ...]
    bytes: int
    partial: bool = False


def find_removable(model: str) -> list[Removable]:
    """What `edgellm rm MODEL` removes: all pulled files of a repository ORG/NAME, or one model with all its parts.

    Raises ModelFileError for a name of no model or of several, and for a file that was not pulled; the message then
    says how to remove it.
    """
    if found := list(_repository(model)):
        return found
    path = resolve(model)
    if found := list(_model(canonical_name(path))):
        return found
    raise ModelFileError(f"{shown_path(path.absolute())}: {_elsewhere(canonical_name(path))}")


def removable_names() -> list[str]:
    """The names that `find_removable` accepts: models, then repositories, unfinished pulls included."""
    weights = {canonical_name(kept.folder / name) for kept in pulled_repositories() for name in kept.weights}
    models = stored_models()
    named = zip(unique_names(models), models, strict=True)
    repositories = dict.fromkeys(kept.repository for kept in (*pulled_repositories(), *unfinished_pulls()))
    return [*(name for name, model in named if canonical_name(model.path) in weights), *repositories]


def remove(item: Removable) -> None:
    """Remove files, their entries in the record, and folders that are empty then.

    Raises OSError, and EdgeLLMError if another process is pulling them.
    """
    if item.partial:
        with pull_lock(item.folder, item.what):
            rmtree(item.folder)
    else:
        for name in item.names:
            (item.folder / name).unlink(missing_ok=True)
        record = read_record(item.folder)
        write_record(item.folder, {name: entry for name, entry in record.items() if name not in item.names})
        for name in item.names:
            _remove_empty((item.folder / name).parent)
    _remove_empty(item.folder if item.folder.exists() else item.folder.parent)


def _repository(name: str) -> Iterator[Removable]:
    for kept in pulled_repositories():
        if kept.repository.casefold() == name.casefold():
            yield Removable(kept.repository, kept.folder, tuple(kept.files), kept.present_bytes)
    for kept in unfinished_pulls():
        if kept.repository.casefold() == name.casefold():
            what = f"{kept.repository}, an unfinished pull"
            yield Removable(what, kept.folder, tuple(kept.files), kept.present_bytes, partial=True)


def _model(identity: str) -> Iterator[Removable]:
    for kept in pulled_repositories():
        names = {name: split_name(name.rpartition(".")[0]) for name in kept.weights}
        mine = next((model for name, model in names.items() if canonical_name(kept.folder / name) == identity), None)
        if mine:
            parts = tuple(name for name, model in names.items() if model == mine)
            total = sum((kept.folder / name).stat().st_size for name in parts if (kept.folder / name).exists())
            yield Removable(f"{kept.repository}/{mine[0]}", kept.folder, parts, total)


def _elsewhere(identity: str) -> str:
    """To which program a file belongs that was not pulled, and how to remove it there."""
    stored = next((m for m in stored_models() if canonical_name(m.path) == identity), None)
    source = stored.source if stored else None
    if stored and source == "ollama":
        return f"belongs to ollama; `ollama rm {printable(stored.names[0])}` removes it"
    if stored and source == "Hugging Face":
        return f"is in the cache of Hugging Face; `hf cache rm model/{printable(_hub_name(stored))}` removes it"
    if source == BUILT_IN:
        return "is part of edgellm and stays with it; give a model that was pulled"
    if source == "LM Studio":
        return "belongs to LM Studio; remove it there, under My Models"
    return "was not pulled by edgellm; remove the file yourself"


def _hub_name(stored: StoredModel) -> str:
    return "/".join(stored.names[1].split("/")[:2]) if len(stored.names) > 1 else stored.names[0]


def _remove_empty(folder: Path) -> None:
    """Remove a folder and its parents while they are empty, but never the folder of models."""
    while folder != models_folder() and models_folder() in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
