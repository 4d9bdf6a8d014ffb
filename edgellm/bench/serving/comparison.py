"""Two targets compared, round by round."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgellm.bench.report import ratio

COMPARED: Mapping[str, tuple[Callable[[dict[str, Any]], float], bool]] = {
    "generated_tps": (lambda run: run["generated_tps"], False),
    "goodput": (lambda run: run["goodput"], False),
    "ttft_p95": (lambda run: run["ttft_ms"]["p95"], True),
    "itl_p95": (lambda run: run["itl_ms"]["p95"], True),
}
"""What is compared: a figure of a run, and whether it is a time, of which less is better."""


def compare(runs: Sequence[dict[str, Any]], ours: str, theirs: str) -> list[dict[str, Any]]:
    """For each load, the ratios of the first target to the second, above 1 where the first is better.

    Of loads that both ran to the end in the same rounds.
    """
    loads = dict.fromkeys((run["clients"], run["rate"]) for run in runs)
    return [row for clients, rate in loads if (row := _row(runs, clients, rate, ours, theirs))]


def _row(runs: Sequence[dict[str, Any]], clients: Any, rate: Any, ours: str, theirs: str) -> dict[str, Any]:
    of_load = [run for run in runs if (run["clients"], run["rate"], run["complete"]) == (clients, rate, True)]
    first, second = ({run["round"]: run for run in of_load if run["target"] == name} for name in (ours, theirs))
    rounds = sorted(first.keys() & second.keys())
    compared = {}
    for name, (read, is_time) in COMPARED.items():
        of_sides = {ours: first, theirs: second}
        sides = {side: [_value(read, of_rounds[each]) for each in rounds] for side, of_rounds in of_sides.items()}
        if rounds and None not in (*sides[ours], *sides[theirs]):
            compared[name] = {"values": sides, **_ratio(is_time, *sides.values())}
    return {"clients": clients, "rate": rate, "rounds": len(rounds), **compared} if compared else {}


def _ratio(is_time: bool, ours: list[float], theirs: list[float]) -> Mapping[str, float | None]:
    """The ratio and its spread; None where a value is 0."""
    if all((*ours, *theirs)):
        return ratio(is_time, ours, theirs)
    return dict.fromkeys(("median", "min", "max"))


def _value(read: Callable[[dict[str, Any]], float], run: dict[str, Any]) -> Any:
    """A figure of a run; None if there is none, as no request was completed."""
    try:
        return read(run)
    except TypeError:
        return None
