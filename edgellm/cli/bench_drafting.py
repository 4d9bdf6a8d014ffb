"""`edgellm bench --draft`: its options, and the run."""

import json
from collections.abc import Callable, Set
from typing import Any, NamedTuple, TypeVar

import click

from edgellm.bench.options import LOAD_NAMES
from edgellm.cli.options import AdvisedChoice, option_of
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.cli.shell_completion import draft_models
from edgellm.errors import OptionError
from edgellm.options import LoadOptions
from edgellm.terminal.streams import write_styled

_NAMES = "draft", "draft_max", "draft_rule"
_DEFAULTS = {"tokens": 256, "rounds": 3}
_LOOKUP, _BOTH = "lookup", "both"
_RULES = AdvisedChoice(["same", "rejection", _BOTH], "--draft-rule: give same, rejection or both")
F = TypeVar("F", bound=Callable[..., Any])


class DraftingOptions(NamedTuple):
    """What `edgellm bench --draft` measures; without a `draft` model, prompt lookup and forced text alone."""

    draft: str | None
    draft_max: int | None
    rules: tuple[str, ...]
    tokens: int
    rounds: int


def drafting_options(function: F) -> F:
    """Adds the options of a benchmark of drafts."""
    for option in (
        click.option("--draft-rule", type=_RULES, metavar="RULE", help="With --draft: same, rejection or both [same]."),
        option_of(LoadOptions, "draft_max"),
        click.option(
            "--draft",
            metavar=f"MODEL|auto|{_LOOKUP}",
            shell_complete=draft_models,
            help="Measure replies with drafts of this model and without; lookup: drafts from the text alone.",
        ),
    ):
        function = option(function)
    return function


def read_drafting(given: dict[str, Any], chosen: Set[str]) -> DraftingOptions | None:
    """Take the options of a benchmark of drafts out of `given`; None if another one is wanted.

    `chosen` are the names of those that the user gave. Raises OptionError for options that do nothing together.
    """
    draft, most, rule = (given.pop(name) for name in _NAMES)
    if draft is None:
        for name in sorted(chosen & set(_NAMES)):
            raise OptionError(f"option {name} does nothing without --draft: give it")
        return None
    if draft == "off":
        raise OptionError(f"option draft off leaves nothing to compare: give a model, auto or {_LOOKUP}")
    for name in sorted(chosen - {*_NAMES, *_DEFAULTS, *LOAD_NAMES, "threads", "as_json"}):
        raise OptionError(f"option {name} does nothing with --draft: leave it out")
    rules = ("same", "rejection") if rule == _BOTH else (rule or "same",)
    amounts = {name: given[name] if name in chosen else default for name, default in _DEFAULTS.items()}
    return DraftingOptions(None if draft == _LOOKUP else draft, most, rules, **amounts)


def run_drafting(model: str, options: DraftingOptions, load: dict[str, Any], as_json: bool) -> int:
    """Run a benchmark of drafts, and show its figures; returns the exit code."""
    from edgellm.bench.drafting import open_drafting  # imports numpy

    interrupted = False
    with show_warnings(), ProgressLine() as progress:
        drafts = {"draft": options.draft, "draft_max": options.draft_max}
        progress.working("opening the models")
        with open_drafting(model, options.tokens, options.rules, progress.compiling, drafts | load) as bench:
            try:
                for _ in range(options.rounds):
                    bench.round(progress.working)
            except KeyboardInterrupt:
                interrupted = True
            found = bench.report()
    if found["replies"]:
        _show(found, as_json)
    if interrupted:
        click.echo("edgellm: note: interrupted; the figures are those of the replies that ended", err=True)
    return 130 if interrupted else 0


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    from edgellm.cli.bench_drafting_report import drafting_report

    write_styled("\n".join([*drafting_report(found), ""]))
