"""Command line options that several commands share; defaults and checks are those of `edgellm.options`."""

import json
import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import click

from edgellm.cli.shell_completion import one_of, pre_tokenizers
from edgellm.options import GenerationOptions, LoadOptions, validate
from edgellm.options.checks import integer, nonempty_text
from edgellm.system.text_input import decode_input

KV_TYPES = one_of(*LoadOptions.choices("kv_type"))
ENGINES = one_of(*LoadOptions.choices("engine"))
"""What completes options of these names."""

KV_MEMORY_HELP = "Memory that the KV cache may take; else what is free."
F = TypeVar("F", bound=Callable[..., Any])

TOO_LONG = "give a text that fits the context"
"""What to do about a text that is longer than any context."""


def pairs(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """`K=V` options as a dict; a value that is JSON counts as that, anything else as text."""
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
    """The callback of an option for text: raises EdgeLLMError for bytes that are not UTF-8."""
    # Such bytes come as lone surrogates, which `decode_input` refuses as well.
    return None if given is None else decode_input(given.encode(errors="surrogatepass"), option.opts[0], TOO_LONG)


def number(least: int, most: float = math.inf, why: str = "") -> Callable[..., int | None]:
    """A callback for options of `type=int`: refuses what is not from `least` to `most` as `edgellm.options` does.

    `why` ends what is said then.
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
    """A callback for options of `type=int`: this number, by which llama.cpp means its default, is as good as none."""

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


def _sampling(name: str, kind: type[float], help_text: str) -> Callable[[F], F]:
    """An option of the sampler; the default in its help is ours, which the model's file may replace."""
    default = {option.name: option.default for option in fields(GenerationOptions)}[name[2:].replace("-", "_")]
    return click.option(name, type=kind, help=f"{help_text} [{default}].")


def generation_options(function: F) -> F:
    """Add how text is sampled and when it ends: the fields of `GenerationOptions`."""
    for option in (
        click.option("--special", is_flag=True, default=None, help="Parse and show special tokens."),
        click.option("--stop", multiple=True, callback=_stops, metavar="TEXT", help="End before it; repeatable."),
        click.option("--seed", type=int, callback=unless(-1), help="The same seed gives the same text."),
        click.option("--logit-bias", multiple=True, callback=_biases, metavar="ID=BIAS", help="Add to a logit."),
        _sampling("--penalty-last-n", int, "Tokens before it that the penalties look at; -1 for all"),
        _sampling("--frequency-penalty", float, "Lower a logit by this for each time its token came"),
        _sampling("--presence-penalty", float, "Lower the logits of tokens that came by this"),
        _sampling("--repeat-penalty", float, "Divide the logits of tokens that came by this; 1 is off"),
        _sampling("--min-p", float, "Drop tokens below this share of the likeliest; 0 is off"),
        _sampling("--top-p", float, "Keep the likeliest tokens of this total probability; 1 is off"),
        _sampling("--top-k", int, "Keep so many of the likeliest tokens; 0 is off"),
        _sampling("--temp", float, "Temperature; 0 always takes the likeliest token"),
        click.option(
            "-n",
            "--max-tokens",
            type=int,
            callback=unless(-1),
            help="Most tokens to generate; else until the model ends.",
        ),
    ):
        function = option(function)
    return function


def gpu_options(function: F) -> F:
    """Add what of a model goes on which GPU."""
    for option in (
        click.option("--gpu-strict", is_flag=True, default=None, help="Fail where the GPU cannot do what is asked."),
        click.option("--cpu-ffn", is_flag=True, default=None, help="Put only attention of these layers there."),
        click.option("--gpu-memory", type=float, metavar="GB", help="Memory of the GPU that may be used."),
        click.option("--gpu", metavar="NAME", help="Which GPU, by name or number; see `edgellm devices`."),
        click.option(
            "--gpu-layers",
            metavar="N",
            shell_complete=one_of("all", "auto"),
            help="Layers on the GPU: a number, all, or auto (the default).",
        ),
    ):
        function = option(function)
    return function


def context_option(function: F) -> F:
    """Add the length of the context."""
    shown = "Most tokens of prompt and reply; the model's own if not given."
    return click.option("--ctx", type=int, callback=unless(0), help=shown)(function)


def load_options(function: F) -> F:
    """Add how a model is opened: the fields of `LoadOptions`."""
    for option in (
        click.option(
            "--tokenizer-pre",
            metavar="NAME",
            shell_complete=pre_tokenizers,
            help="A pre-tokenizer in place of the file's own.",
        ),
        click.option(
            "--engine",
            metavar="NAME",
            shell_complete=ENGINES,
            help="What computes: edgellm (the default) or llama.cpp.",
        ),
        gpu_options,
        click.option("--kv-memory", type=float, metavar="GB", help=KV_MEMORY_HELP),
        click.option(
            "--kv-type",
            metavar="TYPE",
            shell_complete=KV_TYPES,
            help="KV cache: f16 (the default), f32, or q8_0 (half the memory).",
        ),
        context_option,
        click.option("--threads", type=int, help="Threads; if not given one per performance core, or 1 (tiny models)."),
    ):
        function = option(function)
    return function
