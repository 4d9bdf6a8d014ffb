"""From what a person types, ORG/NAME or ORG/NAME:QUANT, to a model that is here."""

from dataclasses import dataclass
from pathlib import Path

from edgellm.errors import EdgeLLMError, ModelFileError, OptionError
from edgellm.gguf.printable import printable
from edgellm.hub.choose import Candidate, candidates, choose
from edgellm.hub.client import Hub, is_offline
from edgellm.hub.listing import Repository
from edgellm.hub.reference import Reference, parse_reference
from edgellm.hub.suggestions import fits
from edgellm.hub.watcher import Watcher
from edgellm.hub.whole import find_pulled, in_other_cache, pull
from edgellm.machine import available_memory
from edgellm.models import resolve


@dataclass(frozen=True)
class Obtained:
    """The first file of a model, and in words that follow its name how it came here."""

    path: Path
    how: str


def obtain(typed: str, watcher: Watcher) -> Obtained:
    """The model that was asked for: the one that is here if the hub has no other, or else pulled.

    Raises OptionError for what names no repository, and EdgeLLMError.
    """
    meant = _parse(typed)
    if is_offline() and (path := _resolved(typed)):
        return Obtained(path, "is here already (HF_HUB_OFFLINE forbids to look for a newer one)")
    hub = Hub(watcher)
    watcher.asking(str(hub.address))
    repository, model = _choose(hub, meant)
    if path := find_pulled(repository, model):
        return Obtained(path, "is here already, the same that the hub has")
    if path := in_other_cache(model):
        return Obtained(path, "is here already, in the cache of Hugging Face")
    watcher.found(repository)
    return Obtained(pull(hub, repository, model), "is whole")


def _parse(typed: str) -> Reference:
    meant = parse_reference(typed)
    if meant is None:
        advice = "give ORG/NAME or ORG/NAME:QUANT, such as Qwen/Qwen3-0.6B-GGUF:Q8_0"
        raise OptionError(f"{printable(typed)} is no name of a repository; {advice}")
    return meant


def _resolved(typed: str) -> Path | None:
    try:
        return resolve(typed).absolute()
    except ModelFileError:
        return None


def _choose(hub: Hub, meant: Reference) -> tuple[Repository, Candidate]:
    repository = hub.repository(meant.repository)
    found = candidates(repository)
    if not found:
        safetensors = any(file.name.endswith(".safetensors") for file in repository.files)
        advice = f"`edgellm convert {repository.name} -o OUT.gguf` makes one" if safetensors else "choose another"
        raise EdgeLLMError(f"{repository.name} has no GGUF file; {advice}")
    return repository, choose(repository.name, found, meant.wanted, lambda nbytes: fits(nbytes, available_memory()))
