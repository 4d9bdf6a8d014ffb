"""Click options made from the fields of `edgellm.options`, which give help, default, choices and type."""

import json
import math
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, TypeVar, get_args

import click

from edgellm.cli.shell_completion import draft_models, files, one_of, pre_tokenizers, templates
from edgellm.options import ChatOptions, GenerationOptions, LoadOptions, Options, TemplateOptions, validate
from edgellm.options.base import default_shown
from edgellm.options.checks import integer, nonempty_text
from edgellm.system.text_input import decode_input

F = TypeVar("F", bound=Callable[..., Any])

TOO_LONG = "give a text that fits the context"
"""Advice in the error about a text that is longer than any context."""

_METAVARS = {int: "N", float: "X", str: "NAME"}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "draft": {"metavar": "MODEL|auto|off", "shell_complete": draft_models},
    "draft_rule": {"metavar": "RULE"},
    "gpu_layers": {"metavar": "N", "shell_complete": one_of("all", "auto")},
    "gpu_memory": {"metavar": "GB"},
    "grammar": {"metavar": "FILE", "shell_complete": files},
    "json_schema": {"metavar": "FILE|TEXT", "shell_complete": files},
    "kv_memory": {"metavar": "GB"},
    "kv_type": {"metavar": "TYPE"},
    "overflow": {"metavar": "POLICY"},
    "regex": {"metavar": "REGEX"},
    "template": {"metavar": "NAME|FILE", "shell_complete": templates},
    "tokenizer_pre": {"shell_complete": pre_tokenizers},
}
"""Arguments of `click.option` for the options of these names, beside those that the field gives."""


class AdvisedChoice(click.Choice[str]):
    """One of some words; the error for any other is `advice`."""

    def __init__(self, choices: Sequence[str], advice: str) -> None:
        super().__init__(choices)
        self._advice = advice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word. Raises click.UsageError."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            raise click.UsageError(self._advice, ctx) from None


class _Float(click.types.FloatParamType):
    """A number; any other text gets the message of the option's own check."""

    def __init__(self, options: type[Options], name: str) -> None:
        self._options, self._name = options, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Raises OptionError."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            return validate(self._name, self._options.field(self._name).metadata["check"], value)


def option_of(options: type[Options], name: str, *short: str, more: str = "", **arguments: Any) -> Callable[[F], F]:
    """A click option for a field of an option set; its value is None if it is not given.

    `more` continues the help text. `arguments` are further arguments of `click.option`.
    """
    given: dict[str, Any] = {"help": f"{options.help(name)}{more}{default_shown(options, name)}."}
    kind = _kind(options.field(name).type)
    if kind is bool:
        given |= {"is_flag": True, "default": None}
    else:
        given |= {"type": _Float(options, name) if kind is float else kind, "metavar": _METAVARS[kind]}
    if words := options.words(name):
        given["shell_complete"] = one_of(*words)
    return click.option(*short, f"--{name.replace('_', '-')}", **given | _ARGUMENTS.get(name, {}) | arguments)


def _kind(annotation: Any) -> type:
    """The type of an option on the command line: text where a field takes values of several types, or lists."""
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 and kinds[0] in (bool, int, float) else str


def in_order(*options: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator that adds several options; the help lists them in this order."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """A callback for `K=V` options: a dict. A value that is JSON is parsed, any other is text."""
    found = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{pair!r} is not K=V.")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def utf8(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    """A callback for options of text. Raises EdgeLLMError for bytes that are not UTF-8."""
    # Python passes such bytes as lone surrogates, which `decode_input` refuses as well.
    return None if given is None else decode_input(given.encode(errors="surrogatepass"), option.opts[0], TOO_LONG)


def number(least: int, most: float = math.inf, why: str = "") -> Callable[..., int | None]:
    """A callback for options of `type=int`: raises OptionError for a number that is not from `least` to `most`.

    `why` ends the message.
    """

    def check(value: object) -> int:
        try:
            return integer(least, most)(value)
        except ValueError as error:
            raise ValueError(f"{error}{why}") from None

    def callback(context: click.Context, parameter: click.Parameter, given: int | None) -> int | None:
        return None if given is None else validate(parameter.name or "", check, given)

    return callback


def unless(none: int) -> Callable[..., int | None]:
    """A callback for options of `type=int`: `none`, with which llama.cpp means its default, counts as not given."""

    def callback(context: click.Context, parameter: click.Parameter, given: int | None) -> int | None:
        return None if given == none else given

    return callback


def _biases(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[int, float] | None:
    try:
        return {int(token): float(bias) for token, _, bias in (pair.partition("=") for pair in given)} or None
    except ValueError:
        raise click.BadParameter("give ID=BIAS, a token id and a number.") from None


def _stops(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...] | None:
    for stop in given:
        validate(parameter.name or "", nonempty_text, stop)
    return given or None


context_option = option_of(LoadOptions, "ctx", callback=unless(0))
"""Adds --ctx."""

moe_options = in_order(option_of(LoadOptions, "cpu_moe"), option_of(LoadOptions, "n_cpu_moe"))
"""Adds the options of where experts are computed."""

gpu_options = in_order(
    option_of(LoadOptions, "gpu_layers"),
    option_of(LoadOptions, "gpu"),
    option_of(LoadOptions, "gpu_memory"),
    option_of(LoadOptions, "cpu_ffn"),
    moe_options,
    option_of(LoadOptions, "gpu_strict"),
)
"""Adds the options of what runs on a GPU."""

load_options = in_order(
    option_of(LoadOptions, "threads"),
    context_option,
    option_of(LoadOptions, "kv_type"),
    option_of(LoadOptions, "kv_memory"),
    gpu_options,
    option_of(LoadOptions, "engine"),
    option_of(LoadOptions, "tokenizer_pre"),
    option_of(LoadOptions, "draft"),
    option_of(LoadOptions, "draft_max"),
    option_of(LoadOptions, "draft_rule"),
)
"""Adds an option for each field of `LoadOptions`."""

_REPEATABLE: dict[str, Any] = {"multiple": True, "more": "; repeatable"}
generation_options = in_order(
    option_of(GenerationOptions, "max_tokens", "-n", callback=unless(-1)),
    option_of(GenerationOptions, "temp"),
    option_of(GenerationOptions, "top_k"),
    option_of(GenerationOptions, "top_p"),
    option_of(GenerationOptions, "min_p"),
    option_of(GenerationOptions, "repeat_penalty"),
    option_of(GenerationOptions, "presence_penalty"),
    option_of(GenerationOptions, "frequency_penalty"),
    option_of(GenerationOptions, "penalty_last_n"),
    option_of(GenerationOptions, "logit_bias", callback=_biases, metavar="ID=BIAS", **_REPEATABLE),
    option_of(GenerationOptions, "seed", callback=unless(-1)),
    option_of(GenerationOptions, "stop", callback=_stops, metavar="TEXT", **_REPEATABLE),
    option_of(GenerationOptions, "special"),
)
"""Adds the options of sampling and of the end of the text."""

beams_option = option_of(GenerationOptions, "beams")
"""Adds --beams, for replies that are not streamed."""

overflow_option = option_of(ChatOptions, "overflow")
template_option = option_of(TemplateOptions, "template", more="; by default the model's")
template_arg_option = click.option(
    "--template-arg", metavar="K=V", multiple=True, callback=pairs, help="A variable for the template; repeatable."
)
system_option = click.option("--system", metavar="TEXT", callback=utf8, help="The system prompt.")
