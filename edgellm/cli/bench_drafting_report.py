"""The report of `edgellm bench --draft`: a line for each reply."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgellm.fmt import printable

_HEAD = f"{'reply':6} {'temp':>4}  {'rule':9}  {'t/s':>7}  {'drafts':>7}  {'ratio':>18}  {'expected':>13}  accepted"


def drafting_report(found: dict[str, Any]) -> Iterator[str]:
    """The lines of a report of figures from `edgellm.bench.drafting`."""
    yield f"{_name(found['model'])}, {_source(found['draft'], found['model'])}, {found['tokens']:,} tokens"
    if found["step_ms"]:
        steps = ", ".join(f"{ms:.3g}" for ms in found["step_ms"].values())
        yield f"a step of {', '.join(map(str, found['step_ms']))} rows takes {steps} ms"
    if found["draft_cost"] is not None:
        yield f"a draft takes {found['draft_cost']:.2f} of a step"
    yield ""
    yield _HEAD
    yield from map(_line, found["replies"])


def _name(path: str) -> str:
    return printable(Path(path).name, 40)


def _source(draft: str | None, model: str) -> str:
    """What drafts: a file, the head in that of the model, or neither."""
    if draft is None:
        return "drafts without a model"
    if draft.endswith(f" of {model}"):
        return draft.removesuffix(f" of {model}")
    return f"draft {_name(draft)}"


def _line(figures: dict[str, Any]) -> str:
    ratio, expected = figures["ratio"], figures["expected"]
    spread = f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})"
    form = f"{expected:.2f} ({figures['difference']:+.0%})" if expected else "–"
    return (
        f"{figures['reply']:6} {figures['temp']:4g}  {figures['rule']:9}  {figures['plain_tps']['median']:7.1f}  "
        f"{figures['tps']['median']:7.1f}  {spread:>18}  {form:>13}  {_accepted(figures)}"
    )


def _accepted(figures: dict[str, Any]) -> str:
    shares = [
        f"{source} {each['accepted'] / each['drafted']:.0%} of {each['drafted']:,}"
        for source, each in figures["drafts"].items()
        if each["drafted"]
    ]
    steps = [f"{figures['tokens_per_step']:.2f} a step"] if figures["tokens_per_step"] else []
    return ", ".join([*shares, *steps])
