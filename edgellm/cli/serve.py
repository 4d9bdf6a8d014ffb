"""`edgellm serve`: models over HTTP."""

import os
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import click
from click.core import ParameterSource

from edgellm import __version__
from edgellm.cli.options import load_options, number, utf8
from edgellm.cli.progress import show_warnings
from edgellm.cli.shell_completion import model_names
from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.options import LoadOptions, validate
from edgellm.options.checks import nonempty_text
from edgellm.options.checks import number as number_above
from edgellm.server.origins import is_origin

_DEFAULT = ParameterSource.DEFAULT
_DURATIONS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _keep_alive(context: click.Context, option: click.Parameter, given: str) -> float:
    """Seconds of a duration such as 90, 5m or 1h; negative for ever."""
    text, unit = (given[:-1], given[-1]) if given[-1:] in _DURATIONS else (given, "s")
    try:
        seconds = float(text) * _DURATIONS[unit]
    except ValueError:
        seconds = float("nan")
    if not abs(seconds) < 1e9:
        raise OptionError(f"option keep_alive cannot be {printable(given)!r}: give seconds, or 5m, 1h; -1 for ever")
    return seconds


def _key(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    if given == "":
        raise OptionError("option api_key is empty: give a key, or leave it out")
    if given is not None and not (given.isascii() and given.isprintable() and given.strip() == given != ""):
        raise OptionError("option api_key cannot be this: give printable ASCII without spaces around it")
    return given


def _seconds(context: click.Context, option: click.Parameter, given: float | None) -> float | None:
    return None if given is None else validate(str(option.name), number_above(0, 3600, above=True), given)


def _socket(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    return None if given is None else validate("unix", nonempty_text, given)


def _origins(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    if wrong := next((each for each in given if each != "*" and not is_origin(each)), None):
        advice = "give the page as browsers name it, such as https://example.org, without a path; or * for all"
        raise OptionError(f"option allow_origin cannot be {printable(wrong)!r}: {advice}")
    return given


def _check_one_address(context: click.Context) -> None:
    """Raises click.UsageError for a socket and a port, as only one of them is listened at."""
    given = {name for name in ("host", "port", "unix") if context.get_parameter_source(name) is not _DEFAULT}
    if "unix" in given and (other := sorted(given - {"unix"})):
        raise click.UsageError(f"--unix takes the place of --{other[0]}: give one of them.")


@click.command("serve")
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=model_names)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, callback=utf8, help="Address.")
@click.option(
    "--port", type=int, default=8080, show_default=True, callback=number(0, 65535), metavar="N", help="Port; 0 is any."
)
@click.option("--unix", metavar="PATH", callback=_socket, help="Listen on a Unix socket instead, for this user alone.")
@click.option(
    "--api-key",
    metavar="KEY",
    envvar="EDGELLM_API_KEY",
    callback=_key,
    help="Key that clients must give; needed where other machines are let in. Also in EDGELLM_API_KEY.",
)
@click.option(
    "--allow-origin",
    metavar="ORIGIN",
    multiple=True,
    callback=_origins,
    help="Let scripts of this web page use the server, such as https://example.org, or * for all; repeatable.",
)
@click.option(
    "--parallel", type=int, default=8, show_default=True, callback=number(1, 256), metavar="N", help="Requests at once."
)
@click.option(
    "--max-queue",
    type=int,
    default=64,
    show_default=True,
    callback=number(0, 100_000),
    metavar="N",
    help="Requests that may wait for others; further ones get an error.",
)
@click.option(
    "--keep-alive",
    default="5m",
    show_default=True,
    metavar="TIME",
    callback=_keep_alive,
    help="Unload a model this long after its last request: seconds, 5m, 1h; -1 never.",
)
@click.option(
    "--schedule",
    type=click.Choice(["srpt", "fcfs"]),
    default="srpt",
    show_default=True,
    help="Order of prompts: srpt, the shortest first unless another has waited, or fcfs, as they came.",
)
@click.option(
    "--slo-ttft",
    type=float,
    metavar="SECONDS",
    callback=_seconds,
    help="Refuse requests whose first token would take longer; by default none.",
)
@click.option(
    "--slo-itl",
    type=float,
    metavar="SECONDS",
    callback=_seconds,
    help="Longest time between two tokens of a reply while a prompt is computed; by default 0.1.",
)
@click.option("-q", "--quiet", is_flag=True, help="Write no line for each request.")
@load_options
@click.pass_context
def command(
    context: click.Context,
    /,
    models: tuple[str, ...],
    host: str,
    port: int,
    unix: str | None,
    api_key: str | None,
    allow_origin: tuple[str, ...],
    parallel: int,
    max_queue: int,
    keep_alive: float,
    schedule: Literal["srpt", "fcfs"],
    slo_ttft: float | None,
    slo_itl: float | None,
    quiet: bool,
    **load: Any,
) -> None:
    """Serve models to clients of OpenAI's, Anthropic's and ollama's APIs, on this machine.

    Without MODEL all models in `edgellm list` are served, each opened when a request names it. The first MODEL is
    opened at once, and is the one of requests that name none. A line for each request goes to stderr, without its
    texts. Ctrl-C lets running requests end; a second Ctrl-C stops at once.
    """
    _check_one_address(context)
    options = {name: value for name, value in load.items() if value is not None}
    if LoadOptions.from_kwargs(**options).names_draft_model and len(models) != 1:
        raise click.UsageError("--draft MODEL drafts for one model: name that one, or take --draft auto for all.")
    from edgellm.server.settings import ServeSettings

    settings = ServeSettings(
        models,
        options,
        host,
        port,
        unix,
        api_key,
        allow_origin,
        parallel,
        max_queue,
        keep_alive,
        schedule,
        slo_ttft,
        slo_itl,
        __version__,
    )
    with show_warnings():
        context.exit(_serve(settings, quiet))


def _serve(settings: Any, quiet: bool) -> int:
    from edgellm.server.listen import check_settings, listening  # these import little
    from edgellm.server.log_writer import LogWriter
    from edgellm.text.rendering.renderer import renderer

    check_settings(settings)
    log = LogWriter(_say)
    try:
        with listening(settings) as (bound, address):
            renderer.warm()  # its process starts while a model loads
            from edgellm.server.run import serve  # imports uvicorn, starlette and numpy

            ready = partial(log, f"edgellm: serving at {address}")
            code = serve(settings, bound, lambda server: ready(), _nothing if quiet else log)
    finally:
        is_written = log.close()
    if not is_written:  # a thread that writes to stderr would end Python with a fatal error
        os._exit(code)
    return code


def _say(line: str) -> None:
    """Write a line to stderr; a server whose stderr is closed goes on."""
    with suppress(OSError):
        click.echo(line, err=True)


def _nothing(line: str) -> None:
    """Write nothing."""
