"""Where model files are on this machine: folders of edgellm, Hugging Face, ollama and LM Studio, and the package."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgellm import builtin
from edgellm.models.ollama import ollama_models
from edgellm.models.quant import quant_in_name
from edgellm.models.scan import model_files
from edgellm.system.folders import expand_path, models_folder

BUILT_IN = "built-in"
"""The source of the model that comes with edgellm."""

SYSTEM_OLLAMA = Path("/usr/share/ollama/.ollama/models")
"""The store of ollama when it runs as a system service on Linux."""

_MAX_PATH_LENGTH = 4096


@dataclass
class StoredModel:
    """A model file that was found but not opened.

    `names` are all names that MODEL accepts for it, the one to show first. `source` is the program that keeps it.
    """

    names: list[str]
    source: str
    path: Path


def stored_models() -> list[StoredModel]:
    """Every model file on this machine, each once with all its names, even if several links lead to it."""
    found: dict[object, StoredModel] = {}
    for model in _all():
        first = found.setdefault(_identity(model.path), model)
        first.names.extend(name for name in model.names if name not in first.names)
    return list(found.values())


def _all() -> Iterator[StoredModel]:
    yield from _folder("./models", Path("models"))
    yield from _edgellm(models_folder())
    yield from _hugging_face(hugging_face_cache())
    for store in _ollama_stores():
        for name, path in ollama_models(store):
            yield StoredModel([name, name.removesuffix(":latest")], "ollama", path)
    for folder in _lm_studio_homes():
        yield from _folder("LM Studio", folder / "models")
    yield from _built_in()


def _built_in() -> Iterator[StoredModel]:
    """The built-in model; its second name is for machines where another file has the first."""
    yield StoredModel([builtin.NAME, f"edgellm/{builtin.NAME}"], BUILT_IN, builtin.PATH)


def _folder(source: str, folder: Path) -> Iterator[StoredModel]:
    for name, path in model_files(folder):
        yield StoredModel([name.rpartition("/")[2], name], source, path)


def _edgellm(folder: Path) -> Iterator[StoredModel]:
    """Pulled models, which can also be named ORG/NAME:QUANT."""
    for model in _folder("edgellm", folder):
        *repository, name = model.names[-1].split("/", 2)
        if len(repository) == 2 and (quant := quant_in_name(name)):
            model.names.append(f"{'/'.join(repository)}:{quant}")
        yield model


def _hugging_face(cache: Path) -> Iterator[StoredModel]:
    """Files at models--ORG--NAME/snapshots/REVISION/...; if several revisions have a file, that of branch main."""
    for repository in sorted(_subfolders(cache)):
        kind, *parts = repository.name.split("--")
        if kind != "models":
            continue
        named: set[str] = set()
        for revision in _revisions(repository):
            for name, path in model_files(revision):
                if name not in named:
                    named.add(name)
                    yield StoredModel([name.rpartition("/")[2], "/".join([*parts, name])], "Hugging Face", path)


def _revisions(repository: Path) -> list[Path]:
    """The snapshot folders of a repository, that of branch main first."""
    try:
        main = (repository / "refs/main").read_text()[:100].strip()
    except (OSError, ValueError):
        main = ""
    return sorted(_subfolders(repository / "snapshots"), key=lambda folder: (folder.name != main, folder.name))


def _subfolders(folder: Path) -> list[Path]:
    try:
        return [Path(entry) for entry in os.scandir(folder) if os.path.isdir(entry)]  # noqa: PTH112 (never raises)
    except OSError:
        return []


def hugging_face_cache() -> Path:
    """The cache folder, found as `huggingface_hub` does; HUGGINGFACE_HUB_CACHE is the old name of HF_HUB_CACHE."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if cache := os.environ.get(name):
            return expand_path(cache)
    if home := os.environ.get("HF_HOME"):
        return expand_path(home) / "hub"
    return expand_path(os.environ.get("XDG_CACHE_HOME") or str(_home() / ".cache")) / "huggingface/hub"


def _lm_studio_homes() -> list[Path]:
    """The folders of LM Studio: the one in its pointer file, and the defaults of its newer and older versions."""
    usual = [_home() / ".lmstudio", _home() / ".cache/lm-studio"]
    pointer = _home() / ".lmstudio-home-pointer"
    try:
        if not pointer.is_file():  # a FIFO would block
            return usual
        with pointer.open(encoding="utf-8") as file:
            chosen = Path(file.read(_MAX_PATH_LENGTH).strip())
    except (OSError, ValueError):
        return usual
    return [chosen, *usual] if chosen.is_absolute() else usual


def _ollama_stores() -> list[Path]:
    own = os.environ.get("OLLAMA_MODELS") or _home() / ".ollama/models"
    return [Path(own), SYSTEM_OLLAMA]


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # noqa: PTH111 (Path.home raises where there is none)


def _identity(path: Path) -> object:
    """A key that is equal for two paths to the same file."""
    try:
        found = path.stat()
    except OSError:
        return path
    return found.st_dev, found.st_ino
