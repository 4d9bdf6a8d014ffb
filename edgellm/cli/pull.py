"""`edgellm pull`: downloads a model from Hugging Face, or another hub with the same routes."""

import shlex
from collections.abc import Iterator

import click

from edgellm.cli.progress import ProgressLine
from edgellm.fmt import printable, shown_path, size, table


@click.command("pull")
@click.argument("reference", metavar="[REPO[:QUANT]]", required=False)
def command(reference: str | None) -> None:
    """Download a GGUF model. REPO is ORG/NAME on Hugging Face, QUANT is Q8_0, for example, or a part of a file's name.

    The default QUANT is Q4_K_M, or else the largest that fits in memory. Without REPO, some small models are listed.
    Every file is compared with its hash and checked. The next pull resumes an interrupted one.

    Gated models need a token: set HF_TOKEN, or run `hf auth login`. HF_ENDPOINT is for another hub.
    """
    if reference is None:
        click.echo("\n".join(_suggestions()))
        return
    from edgellm.cli.pull_progress import resume_hint

    with resume_hint(), ProgressLine() as progress:
        done = list(_fetch(reference, progress))
    click.echo("\n".join(done))


def _fetch(reference: str, progress: ProgressLine) -> Iterator[str]:
    """Download a model; yields the lines to print."""
    from edgellm.cli.pull_progress import PullDisplay
    from edgellm.hub import fetch_model
    from edgellm.models import display_name

    model = fetch_model(reference, PullDisplay(progress))
    yield f"{shown_path(model.path)} {model.state}"
    name = shlex.quote(printable(display_name(model.path), 400))
    yield f"next: edgellm generate {name} -p 'Hello!'"


def _suggestions() -> Iterator[str]:
    from edgellm.hub.suggestions import SUGGESTIONS
    from edgellm.system.machine import available_memory

    free = available_memory()
    rows = [("✓" if s.fits(free) else "", s.reference, f"{s.bytes / 1e9:.1f} GB", s.good_at) for s in SUGGESTIONS]
    yield from table(("", "edgellm pull …", "about", "good at"), rows)
    yield ""
    yield f"✓ fits in the {size(free)} of free memory; any other GGUF model: edgellm pull ORG/NAME"
