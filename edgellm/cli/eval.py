"""`edgellm eval`: how often a model's replies are right, with standard errors, and compared with a reference."""

from typing import Any

import click

from edgellm.cli.eval_options import LONG, Limits, eval_options
from edgellm.cli.eval_run import EvalRun
from edgellm.cli.options import load_options
from edgellm.cli.prompt_input import template_of
from edgellm.cli.shell_completion import model_names
from edgellm.options import GenerationOptions, LoadOptions


@click.command("eval")
@click.argument("model", shell_complete=model_names)
@eval_options
@load_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with the replies to all cases.")
@click.pass_context
def command(
    context: click.Context,
    /,
    model: str,
    suite: str,
    against: str | None,
    fail_below: Limits,
    lengths: list[int] | None,
    limit: int | None,
    seed: int,
    template: str | None,
    template_arg: dict[str, Any],
    as_json: bool,
    **given: Any,
) -> None:
    """Ask MODEL the cases of a suite, and show how often its replies are right.

    Scores are means over cases, from 0 to 1. Figures after ± are standard errors, that of a difference by pairs of the
    same case. Replies are greedy unless --temp is given. Ctrl-C shows the scores so far, and exits with 130.
    """
    if lengths and suite not in LONG:
        raise click.UsageError("--lengths belongs to --suite needle or copy.")
    load = {name: given.pop(name) for name in LoadOptions.names()}
    LoadOptions.from_kwargs(**load)
    chosen = {name: value for name, value in given.items() if value is not None}
    GenerationOptions.from_kwargs(seed=seed, **chosen)
    from edgellm.evaluation import EvalSettings  # imports numpy; wrong options are reported before

    source = None if template is None else template_of(template)
    settings = EvalSettings(seed=seed, template=source, template_args=template_arg, **chosen)
    run = EvalRun(model, suite, against, settings, load, lengths, limit, fail_below)
    context.exit(run.code(as_json))
