"""`edgellm pull`: get a model from Hugging Face, or another hub that speaks its routes."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgellm.cli.screen import Progress
from edgellm.errors import EdgeLLMError, ModelFileError, OptionError
from edgellm.tables import table

if TYPE_CHECKING:
    from edgellm.hub import Candidate, Hub, Reference, Repository


@click.command("pull")
@click.argument("reference", metavar="[REPO[:QUANT]]", required=False)
def command(reference: str | None) -> None:
    """Get a GGUF model: REPO is ORG/NAME on Hugging Face, QUANT such as Q8_0, or a part of a file's name.

    Without QUANT it is Q4_K_M, or else the largest that fits in memory; without REPO, some small models are shown.
    Every file is compared with its hash and checked; what an interrupted pull has brought is kept and gone on with.

    HF_TOKEN (or `hf auth login`) is for gated models, HF_ENDPOINT for another hub.
    """
    if reference is None:
        click.echo("\n".join(_suggestions()))
        return
    from edgellm.cli.transfer import stopping

    with stopping(), Progress() as progress:
        done = _pull(reference, progress)
    click.echo("\n".join(done))


def _pull(typed: str, progress: Progress) -> list[str]:
    """Get a model; what to say of it."""
    from edgellm.cli.transfer import Transfer
    from edgellm.hub import Hub, find_pulled, in_other_cache, is_offline, pull

    meant = _parse(typed)
    if is_offline() and (path := _resolved(typed)):
        return _here(path, "is here already (HF_HUB_OFFLINE forbids to look for a newer one)")
    hub = Hub(Transfer(progress))
    progress.working(f"asking {hub.endpoint}")
    repository, model = _choose(hub, meant)
    if path := find_pulled(repository, model):
        return _here(path, "is here already, the same that the hub has")
    if path := in_other_cache(model):
        return _here(path, "is here already, in the cache of Hugging Face")
    progress.clear()
    _warn_of_architecture(repository)
    return _here(pull(hub, repository, model), "is whole")


def _parse(typed: str) -> "Reference":
    from edgellm.gguf.printable import printable
    from edgellm.hub import parse_reference

    meant = parse_reference(typed)
    if meant is None:
        advice = "give ORG/NAME or ORG/NAME:QUANT, such as Qwen/Qwen3-0.6B-GGUF:Q8_0"
        raise OptionError(f"{printable(typed)} is no name of a repository; {advice}")
    return meant


def _resolved(typed: str) -> Path | None:
    from edgellm.models import resolve

    try:
        return resolve(typed).absolute()
    except ModelFileError:
        return None


def _choose(hub: "Hub", meant: "Reference") -> "tuple[Repository, Candidate]":
    from edgellm.hub import candidates, choose
    from edgellm.hub.suggestions import fits
    from edgellm.machine import available_memory

    repository = hub.repository(meant.repository)
    found = candidates(repository)
    if not found:
        safetensors = any(file.name.endswith(".safetensors") for file in repository.files)
        advice = f"`edgellm convert {repository.name} -o OUT.gguf` makes one" if safetensors else "choose another"
        raise EdgeLLMError(f"{repository.name} has no GGUF file; {advice}")
    return repository, choose(repository.name, found, meant.wanted, lambda nbytes: fits(nbytes, available_memory()))


def _warn_of_architecture(repository: "Repository") -> None:
    """Say beforehand that a model cannot be computed, if the hub knows what it is."""
    from edgellm.arch import ARCHITECTURES
    from edgellm.gguf.printable import printable

    if repository.architecture not in (None, *ARCHITECTURES):
        what = f"architecture {printable(str(repository.architecture))}"
        click.echo(f"edgellm: note: {what} is not supported; it may run with --engine llama.cpp", err=True)


def _here(path: Path, what: str) -> list[str]:
    from edgellm.gguf.printable import printable
    from edgellm.models import name_of

    name = shlex.quote(printable(name_of(path), 400))
    return [f"{printable(str(path), 400)} {what}", f"next: edgellm generate {name} --chat -p 'Hello!'"]


def _suggestions() -> Iterator[str]:
    from edgellm.gguf.printable import size
    from edgellm.hub.suggestions import SUGGESTIONS
    from edgellm.machine import available_memory

    free = available_memory()
    rows = [("✓" if s.fits(free) else "", s.reference, f"{s.bytes / 1e9:.1f} GB", s.good_at) for s in SUGGESTIONS]
    yield from table(("", "edgellm pull …", "about", "good at"), rows)
    yield ""
    yield f"✓ fits in the {size(free)} of memory that are free here; any other GGUF model: edgellm pull ORG/NAME"
