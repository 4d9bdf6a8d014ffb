"""The options of `edgellm bench` with --serve or --clients."""

from collections.abc import Callable, Mapping, Set
from typing import Any, TypeVar

import click

from edgellm.bench.serving.options import CLOSED_REQUESTS, COMPARED_ROUNDS, MOST_RATE, MOST_REQUESTS, ServingOptions
from edgellm.cli.options import in_order, number, utf8
from edgellm.cli.shell_completion import files
from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.options import validate
from edgellm.options.checks import number as number_between

_DEFAULT = ServingOptions()
_SEARCH, _REPLAY = "auto", "trace"
F = TypeVar("F", bound=Callable[..., Any])


def _arrivals(context: click.Context, option: click.Parameter, given: str | None) -> dict[str, Any] | None:
    """Fields of ServingOptions, from texts such as `0.5`, `1,2,4`, `auto` and `trace`."""
    if given is None:
        return None
    if given in (_SEARCH, _REPLAY):
        return {"search": given == _SEARCH, "replay": given == _REPLAY}
    try:
        rates = tuple(dict.fromkeys(float(part) for part in given.split(",")))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate <= MOST_RATE for rate in rates):
        raise OptionError(
            f"option serve cannot be {printable(given)!r}: give requests per second, several as 1,2,4, auto, or trace"
        )
    return {"rates": rates}


def _positive(name: str, metavar: str, help: str, least: float | None = None) -> Callable[[F], F]:
    """A click option for a number above 0, or from `least`."""
    check = number_between(0, above=True) if least is None else number_between(least)

    def callback(context: click.Context, option: click.Parameter, given: float | None) -> float | None:
        return None if given is None else validate(option.name or "", check, given)

    return click.option(f"--{name}", type=float, callback=callback, metavar=metavar, help=help)


def _whole(name: str, least: int, most: int, help: str) -> Callable[[F], F]:
    return click.option(f"--{name}", type=int, callback=number(least, most), metavar="N", help=help)


def _text(name: str, metavar: str, help: str, **more: Any) -> Callable[[F], F]:
    return click.option(f"--{name}", metavar=metavar, callback=utf8, help=help, **more)


serving_options = in_order(
    click.option(
        "--serve",
        metavar="RATE[,RATE]",
        callback=_arrivals,
        help=f"Requests that arrive per second; {_SEARCH} finds where goodput bends, {_REPLAY} takes times of --trace.",
    ),
    _whole("clients", 1, 512, "Clients, each with one request at a time."),
    _whole("requests", 1, MOST_REQUESTS, f"Requests of a run [with --clients {CLOSED_REQUESTS}]."),
    _positive("duration", "SECONDS", f"Time in which requests of --serve arrive [{_DEFAULT.duration:g}]."),
    _whole("shared-prefix", 0, 1 << 24, f"Tokens with which all prompts begin [{_DEFAULT.shared_prefix}]."),
    _text("trace", "FILE", "Lengths and times of requests, as CSV or JSON lines.", shell_complete=files),
    _positive("temp", "X", f"Sampling temperature [{_DEFAULT.temp:g}].", least=0),
    _positive("slo-ttft", "SECONDS", f"Longest time to first token of a good reply [{_DEFAULT.slo_ttft:g}]."),
    _positive("slo-itl", "SECONDS", f"Longest mean time of a later token of a good reply [{_DEFAULT.slo_itl:g}]."),
    _whole("seed", 0, 2**63 - 1, "Seed of prompts, lengths and arrivals; by default a new one."),
    _text("server", "URL", "Measure this OpenAI-compatible server, with tokens of MODEL."),
    _text("against-server", "URL", "Measure this server as well, by the same requests in each round."),
    _text("server-model", "NAME", "Name of the model in requests to servers."),
    _positive("watts", "W", "Power of the machine, where Linux's counters (RAPL) cannot be read."),
    _positive("price-hour", "X", "Price of the machine per hour, in any currency.", least=0),
    _positive("price-kwh", "X", "Price of a kWh.", least=0),
)
"""Adds the options of a benchmark of serving; without defaults, so that those that are given are known."""

_NAMES = (
    "serve",
    "clients",
    "requests",
    "duration",
    "shared_prefix",
    "trace",
    "temp",
    "slo_ttft",
    "slo_itl",
    "seed",
    "server",
    "against_server",
    "server_model",
    "watts",
    "price_hour",
    "price_kwh",
)
_UNUSED_WITH: Mapping[str, Set[str]] = {
    "clients": {"duration", "parallel"},
    "server": {"parallel"},
    "trace": {"prompt_tokens", "tokens", "shared_prefix"},
}
"""Options that do nothing with an option."""


def read_serving(given: dict[str, Any], chosen: Set[str]) -> ServingOptions | None:
    """Take the options of a benchmark of serving out of `given`; None if another benchmark is wanted.

    `chosen` are the names of those that the user gave. Raises OptionError for options that do nothing together.
    """
    serving = {name: value for name in _NAMES if (value := given.pop(name)) is not None}
    chosen = chosen & given.keys() | serving.keys()
    if not chosen & {"serve", "clients"}:
        for name in serving:
            raise OptionError(f"option {name} does nothing without --serve or --clients: give one of them")
        return None
    serving |= serving.pop("serve", {})
    _check(serving, chosen)
    taken = ("prompt_tokens", "tokens", *chosen & {"parallel"})
    rounds = given["rounds"] if "rounds" in chosen else COMPARED_ROUNDS if "against_server" in chosen else 1
    return ServingOptions(**serving, **{name: given[name] for name in taken}, rounds=rounds)


def _check(serving: Mapping[str, Any], chosen: Set[str]) -> None:
    """Raises OptionError for options that contradict each other."""
    if chosen >= {"serve", "clients"}:
        raise OptionError("--serve and --clients exclude each other: give one")
    if serving.get("replay") and "trace" not in chosen:
        raise OptionError("--serve trace needs the times of a trace: give --trace FILE")
    if serving.get("search") and chosen & {"against_server", "rounds"}:
        raise OptionError("--serve auto measures one target once: leave out --against-server and --rounds")
    if "rounds" in chosen and "against_server" not in chosen:
        raise OptionError("option rounds does nothing without --against-server: leave it out")
    if "server" in chosen and serving["server"] == serving.get("against_server"):
        raise OptionError("--server and --against-server are the same: give two servers")
    if "server_model" in chosen and not chosen & {"server", "against_server"}:
        raise OptionError("option server_model does nothing without --server: leave it out")
    longest = MOST_REQUESTS / max(serving.get("rates") or (1.0,))
    if "requests" not in chosen and serving.get("duration", 0) > longest:
        raise OptionError(f"option duration cannot be {serving['duration']:g}: give at most {longest:g} with this rate")
    for name in ("depth", "against"):
        if name in chosen:
            raise OptionError(f"option {name} does nothing with --serve and --clients: leave it out")
    for name, unused in _UNUSED_WITH.items():
        if name in chosen and (both := unused & chosen):
            raise OptionError(f"option {min(both)} does nothing with --{name}: leave it out")
