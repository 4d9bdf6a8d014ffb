"""`edgellm serve`: models over HTTP."""

import os
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import click

from edgellm import __version__
from edgellm.cli.options import load_options, number, utf8
from edgellm.cli.progress import show_warnings
from edgellm.cli.shell_completion import model_names
from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.options import LoadOptions, validate
from edgellm.options.checks import nonempty_text
from edgellm.options.checks import number as number_above

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
    if given is not None and not (given.isascii() and given.isprintable() and given.strip() == given != ""):
        raise OptionError("option api_key cannot be this: give printable ASCII without spaces around it")
    return given


def _seconds(context: click.Context, option: click.Parameter, given: float | None) -> float | None:
    return None if given is None else validate(str(option.name), number_above(0, 3600, above=True), given)


def _socket(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    return None if given is None else validate("unix", nonempty_text, given)


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
    help="Let scripts of this web page use the server, such as https://example.org, or * for all; repeatable.",
)
@click.option(
    "--parallel", type=int, default=4, show_default=True, callback=number(1, 256), metavar="N", help="Requests at once."
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
    """Serve models to clients of OpenAI's API and of ollama, on this machine.

    Without MODEL all models in `edgellm list` are served, each opened when a request names it. The first MODEL is
    opened at once, and is the one of requests that name none. A line for each request goes to stderr, without its
    texts. Ctrl-C lets running requests end; a second Ctrl-C stops at once.
    """
    options = {name: value for name, value in load.items() if value is not None}
    LoadOptions.from_kwargs(**options)
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
