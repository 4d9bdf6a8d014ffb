"""Resolves a reference, ORG/NAME or ORG/NAME:QUANT, to a model on this machine."""

import re
from dataclasses import dataclass
from pathlib import Path

from edgellm.errors import EdgeLLMError, ModelFileError, OptionError
from edgellm.fmt import printable
from edgellm.hub.client import Hub, is_offline
from edgellm.hub.listing import Repository, unsafe_names_problem
from edgellm.hub.observer import DownloadObserver
from edgellm.hub.quant_selection import GGUFChoice, gguf_choices, is_gguf, select_gguf
from edgellm.hub.reference import Reference, parse_reference
from edgellm.hub.suggestions import fits
from edgellm.hub.verify import find_in_hf_cache, find_pulled, pull
from edgellm.models import resolve
from edgellm.system.machine import available_memory

_PIECE = re.compile(r"\.gguf[.-](part|split)", re.IGNORECASE)
"""Names of files that were cut at any byte, as publishers did before llama.cpp could split models."""


@dataclass(frozen=True)
class FetchedModel:
    """The first file of a model, and its state: words that follow its path."""

    path: Path
    state: str


def fetch_model(typed: str, observer: DownloadObserver) -> FetchedModel:
    """The model that `typed` refers to. It is pulled unless this machine has the same files as the hub.

    Raises OptionError for text that names no repository, and EdgeLLMError.
    """
    reference = _parse(typed)
    if is_offline() and (path := _resolved(typed)):
        return FetchedModel(path, "is here already (HF_HUB_OFFLINE forbids to look for a newer one)")
    hub = Hub(observer)
    observer.connecting(str(hub.endpoint))
    repository, model = _select(hub, reference)
    if path := find_pulled(repository, model):
        return FetchedModel(path, "is here already, the same as on the hub")
    if path := find_in_hf_cache(model):
        return FetchedModel(path, "is here already, in the cache of Hugging Face")
    observer.resolved(repository)
    return FetchedModel(pull(hub, repository, model), "is complete")


def _parse(typed: str) -> Reference:
    reference = parse_reference(typed)
    if reference is None:
        advice = "give ORG/NAME or ORG/NAME:QUANT, such as Qwen/Qwen3-0.6B-GGUF:Q8_0"
        raise OptionError(f"{printable(typed)} is not the name of a repository; {advice}")
    return reference


def _resolved(typed: str) -> Path | None:
    try:
        return resolve(typed).absolute()
    except ModelFileError:
        return None


def _select(hub: Hub, reference: Reference) -> tuple[Repository, GGUFChoice]:
    repository = hub.repository(reference.repository)
    found = gguf_choices(repository)
    try:
        if found:
            return repository, select_gguf(
                repository.name, found, reference.selector, lambda nbytes: fits(nbytes, available_memory())
            )
        raise EdgeLLMError(f"{repository.name} has no GGUF file; {_advice(repository)}")
    except EdgeLLMError:
        if problem := _unusable(repository, reference.selector):
            raise EdgeLLMError(f"{repository.name}: {problem}") from None
        raise


def _advice(repository: Repository) -> str:
    safetensors = any(file.name.endswith(".safetensors") for file in repository.files)
    return f"`edgellm convert {repository.name}` makes one" if safetensors else "choose another"


def _unusable(repository: Repository, selector: str) -> str:
    """Why a file that `selector` may mean is not offered; empty if there is no such file."""
    folded = selector.casefold().removesuffix(".gguf")
    pieces = [f.name for f in repository.files if _PIECE.search(f.name) and folded in f.name.casefold()]
    if pieces:
        way = "join them with `cat` in order, and put the file into ./models"
        return f"{printable(pieces[0])} is a piece of a GGUF file; download all of them, {way}"
    return unsafe_names_problem(name for name in repository.unsafe if is_gguf(name) and folded in name.casefold())
