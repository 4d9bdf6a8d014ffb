"""Pulls a model and verifies it, or finds it on this machine."""

from collections.abc import Sequence
from pathlib import Path

from edgellm.errors import EdgeLLMError, ModelFileError
from edgellm.fmt import printable, shown_path
from edgellm.gguf import GGUFFile
from edgellm.gguf.check import find_problems
from edgellm.hub.client import Hub
from edgellm.hub.download import download_files, is_downloaded
from edgellm.hub.listing import Repository
from edgellm.hub.quant_selection import GGUFChoice
from edgellm.models.stores import stored_models
from edgellm.system.folders import models_folder


def pull(hub: Hub, repository: Repository, model: GGUFChoice) -> Path:
    """Download all parts of a model and check the GGUF file. Returns the path of its first part.

    Raises EdgeLLMError.
    """

    def check(folder: Path, names: Sequence[str]) -> None:
        hub.observer.verifying(names[0])
        if problem := _problem(folder / names[0]):
            what = f"{printable(names[0])} of {repository.name} has the hash that the hub lists, but is damaged"
            raise EdgeLLMError(f"{what}: {problem}; nothing of it was kept, choose another model")

    return download_files(hub, repository, model.files, check) / model.files[0].name


def find_pulled(repository: Repository, model: GGUFChoice) -> Path | None:
    """The path of the first part of a model that was pulled before; None unless the hub still has the same files."""
    home = models_folder() / repository.name
    return home / model.files[0].name if all(is_downloaded(home, file) for file in model.files) else None


def find_in_hf_cache(model: GGUFChoice) -> Path | None:
    """The path of the model in Hugging Face's own cache, where large files are named by their hash; None without."""
    first, hashes = model.files[0], [file.hash.partition(":")[2] for file in model.files]
    for stored in stored_models():
        blob = stored.path.resolve()
        if stored.source == "Hugging Face" and blob.name == hashes[0]:
            blobs = [blob.with_name(name) for name in hashes]
            sizes = [path.stat().st_size if path.is_file() else -1 for path in blobs]
            if sizes == [file.bytes for file in model.files] and stored.path.name == first.name.rpartition("/")[2]:
                return stored.path
    return None


def _problem(path: Path) -> str | None:
    """The first problem of a GGUF file, without its path; None if it has none."""
    try:
        with GGUFFile.open(path) as file:
            return next(find_problems(file), None)
    except ModelFileError as error:
        problem, _, advice = str(error).removeprefix(f"{shown_path(path)}: ").rpartition("; ")
        return problem or advice
