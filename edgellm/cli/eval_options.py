"""The options of `edgellm eval`: the suite, its lengths, and the limits below which the command fails."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from edgellm.cli.options import in_order, number, option_of, template_arg_option, template_option, unless
from edgellm.cli.shell_completion import files, model_names
from edgellm.cli.text_file import read_text
from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.options import GenerationOptions

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from edgellm.evaluation import Case, Row
    from edgellm.model import Model

BUILT_IN, LONG = ("tools",), ("needle", "copy")
_MAX_TOKENS = 1024
_OVERALL = "overall"

Limits = Mapping[str, float]
"""The least value of scores, by name."""


def _suites(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    from edgellm.cli.shell_completion import one_of

    return one_of(*BUILT_IN, *LONG)(context, parameter, incomplete) or files(context, parameter, incomplete)


def _lengths(context: click.Context, parameter: click.Parameter, given: str | None) -> list[int] | None:
    if given is None:
        return None
    lengths = [int(part) if part.isascii() and part.isdigit() and len(part) < 10 else 0 for part in given.split(",")]
    if not all(lengths):
        raise click.BadParameter("give a number of tokens, or several: 1000,4000.")
    return list(dict.fromkeys(lengths))


def _limits(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Limits:
    limits = dict[str, float]()
    for each in given:
        name, _, value = each.rpartition("=")
        try:
            limits[name or _OVERALL] = limit = float(value)
        except ValueError:
            limit = -1
        if not 0 <= limit <= 1:
            raise click.BadParameter(f"{printable(each)!r} is not X or NAME=X, with X from 0 to 1.")
    return limits


def read_cases(suite: str) -> "list[Case] | None":
    """The cases of a suite in a file; None for one that is made for a model. Raises EdgeLLMError, OptionError."""
    if suite in LONG:
        return None
    from edgellm.evaluation import TOOLS_SUITE, read_suite

    text = TOOLS_SUITE.read_text(encoding="utf-8") if suite in BUILT_IN else read_text(suite)
    try:
        return read_suite(text, suite)
    except OptionError as error:
        raise OptionError(f"--suite: {error}") from None


def made_cases(suite: str, model: "Model", lengths: Sequence[int] | None, seed: int) -> "list[Case]":
    """The cases of a suite that is made for a model. Raises OptionError."""
    from edgellm.evaluation import copy_cases, needle_cases

    make: Callable[..., list[Case]] = {"needle": needle_cases, "copy": copy_cases}[suite]
    try:
        return make(model.tokenizer, model.ctx, lengths, seed)
    except OptionError as error:
        raise OptionError(f"--lengths: {error}") from None


def check_limits(limits: Limits, cases: "Sequence[Case]") -> None:
    """Raises OptionError for a limit of a score that no case has."""
    known = list(dict.fromkeys(name for case in cases for name in case.score_names))
    for name in limits:
        if name not in known:
            raise OptionError(
                f"--fail-below: {printable(name)} is no score of this suite; take one of: {', '.join(known)}"
            )


def failures(limits: Limits, rows: "Sequence[Row]") -> list[str]:
    """What is below its limit, in words. A score that no reply has is below any limit."""
    scores = {row.name: row.score.value for row in rows}
    return [
        f"{name} is {scores[name]:.3f}, below {limit:g}" if name in scores else f"{name} has no cases"
        for name, limit in limits.items()
        if name not in scores or scores[name] < limit
    ]


eval_options = in_order(
    click.option(
        "--suite",
        required=True,
        metavar="NAME|FILE",
        shell_complete=_suites,
        help="Cases: tools, needle (a fact in a long text), copy (a list), or a file of cases.",
    ),
    click.option(
        "--against",
        metavar="REF",
        shell_complete=model_names,
        help="Compare with this model, or with earlier --json output in a file that ends in .json.",
    ),
    click.option(
        "--fail-below",
        metavar="X|NAME=X",
        multiple=True,
        callback=_limits,
        help="Exit with 1 if the overall score, or the score of this name, is below X; repeatable.",
    ),
    click.option(
        "--lengths",
        metavar="N[,N]",
        callback=_lengths,
        help="Tokens of the texts of needle and copy; by default what fits the context.",
    ),
    click.option("--limit", type=int, callback=number(1), metavar="N", help="Ask N cases, spread over the suite."),
    option_of(
        GenerationOptions,
        "max_tokens",
        "-n",
        callback=unless(-1),
        help=f"Maximum tokens of a reply, besides a text to copy [{_MAX_TOKENS}].",
    ),
    option_of(GenerationOptions, "temp", help="Sampling temperature; 0 always takes the most likely token [0]."),
    option_of(GenerationOptions, "think_max"),
    click.option(
        "--seed",
        type=int,
        callback=number(0, 2**64 - 1),
        default=0,
        metavar="N",
        help="Seed of the texts of needle and copy, and of sampling [0].",
    ),
    template_option,
    template_arg_option,
)
"""Adds the options of what is asked, of the replies, and of the comparison."""
