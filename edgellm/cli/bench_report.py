"""The report of `edgellm bench`: a table of speeds, and bars from 0 to the limit of the machine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from edgellm.fmt import counted, printable, size

_WIDTH = 78
_NAME, _SHARE = 13, 19
_ROWS = {"prefill": "prefill t/s", "decode": "decode t/s", "cold_start_s": "first token s"}
_OURS = "edgellm"


@dataclass(frozen=True)
class Glyphs:
    """The characters of bars: up to the slowest round, each round, the median, between rounds, the peak."""

    bar: str = "━"
    round: str = "•"
    median: str = "●"
    between: str = "─"
    peak: str = "▏"
    dash: str = "–"
    dot: str = "·"

    @classmethod
    def for_encoding(cls, encoding: str | None) -> "Glyphs":
        """These, or ASCII ones if the encoding does not have all of them."""
        try:
            "".join(vars(cls()).values()).encode(encoding or "ascii")
        except (LookupError, UnicodeEncodeError):
            return PLAIN
        return cls()


PLAIN = Glyphs("=", "o", "O", "-", "|", "-", ",")
"""The characters for a stdout that is limited to ASCII."""


def report(found: dict[str, Any], glyphs: Glyphs) -> Iterator[str]:
    """The lines of a report of figures from `edgellm.bench.report`."""
    parts = [
        printable(Path(found["model"]).name, 60),
        f"prompt {found['prompt_tokens']:,}" if found["prompt_tokens"] else "",
        f"decode {found['tokens']:,}" if found["tokens"] else "",
        f"{found['parallel']} at once" if found["parallel"] > 1 else "",
        f"depth {found['depth']:,}" if found["depth"] else "",
        f"{found['kv_type']} KV" if found["kv_bytes_per_token"] else "no KV cache",
    ]
    yield f" {glyphs.dot} ".join(part for part in parts if part)
    for run in found["runs"]:
        yield ""
        yield from _run(run, glyphs)


def _run(run: dict[str, Any], glyphs: Glyphs) -> Iterator[str]:
    baseline = run.get("against")
    rounds = len(run["rounds"]["bandwidth"])
    yield click.style(f"{counted(run['threads'], 'thread')}, {counted(rounds, 'round')}", bold=True)
    yield from _table(run, glyphs)
    memory, peak = (_giga(run, name, glyphs) for name in ("bandwidth", "int8_peak"))
    yield f"this machine: memory {memory} GB/s, int8 {peak} GMAC/s"
    if disturbed := run["rounds"]["undisturbed"].count(False):
        yield f"another program took the CPU in {disturbed} of {counted(rounds, 'round')}; measure again without it"
    sides = {_OURS: run} | ({baseline["engine"]: baseline} if baseline else {})
    for phase in ("prefill", "decode"):
        if phase in run:
            yield ""
            yield from _bars(phase, sides, glyphs)
    if devices := run.get("devices"):
        yield ""
        yield from _devices(devices)
    if baseline and not baseline["repacked"]:
        yield ""
        yield f"llama.cpp ({baseline['version']}) computes without repacked weights: with them it crashes here"


def _table(run: dict[str, Any], glyphs: Glyphs) -> Iterator[str]:
    """A row for each figure: the median of the rounds and their spread, for each program and for the ratio."""
    baseline = run.get("against")
    span = f"min{glyphs.dash}max" if len(run["rounds"]["bandwidth"]) > 1 else ""
    rows = [["", _OURS, span, *([baseline["engine"], span, "ratio", span] if baseline else [])]]
    for name in (name for name in _ROWS if name in run["rounds"]):
        row = [_ROWS[name], *cells(run["rounds"][name], glyphs)]
        if baseline:
            ratio = run["ratio"][name]
            row += [*cells(baseline["rounds"][name], glyphs), f"{ratio['median']:.2f}"]
            row.append(f"{ratio['min']:.2f}{glyphs.dash}{ratio['max']:.2f}" if row[2] else "")
        rows.append(row)
    yield from paired_columns(rows)


def paired_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table: a label, then pairs of columns, a figure and its spread, all but the label to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        label, *cells = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        pairs = [f"{figure} {spread}" for figure, spread in zip(cells[::2], cells[1::2], strict=True)]
        yield "  ".join([f"{label.strip():{widths[0]}}", *pairs]).rstrip()


def _devices(phases: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """The time, bandwidth and work of each device per token, in the last round."""
    for phase, devices in phases.items():
        for device in devices:
            name = printable(device["name"], 22)
            speed = f", {size(device['bandwidth'])}/s" if device["bandwidth"] else ""
            yield f"{phase}: {name}, {device['blocks']} blocks, {_number(device['ms'])} ms a token{speed}"
            if "dispatches" in device:
                yield f"  {_number(device['dispatches'])} dispatches in {_number(device['submissions'])} submissions"
                there, back = (size(device[name]) for name in ("sent", "received"))
                yield f"  {there} there, {back} back, {_number(device['transfer_ms'])} ms of copying"


def cells(values: Sequence[float], glyphs: Glyphs) -> list[str]:
    """The median of values, and their spread."""
    return [_number(median(values)), _span(values, glyphs)]


def _giga(run: dict[str, Any], name: str, glyphs: Glyphs) -> str:
    """The median of the rounds in units of 1e9, and their spread."""
    span = _span([value / 1e9 for value in run["rounds"][name]], glyphs)
    return _number(run[name] / 1e9) + (f" ({span})" if span else "")


def _span(values: Sequence[float], glyphs: Glyphs) -> str:
    return f"{_number(min(values))}{glyphs.dash}{_number(max(values))}" if len(values) > 1 else ""


def _bars(phase: str, sides: dict[str, dict[str, Any]], glyphs: Glyphs) -> Iterator[str]:
    """A bar for each program, on a scale that ends at the machine's peak or the fastest round."""
    peak = sides[_OURS][phase]["peak_tps"]
    what = {"prefill": "the int8 peak", "decode": "the memory's bandwidth"}[phase]
    several = len(sides[_OURS]["rounds"][phase]) > 1
    legend = [f"{glyphs.round} each round, {glyphs.median} their median" if several else f"{glyphs.median} the round"]
    legend += [f"{glyphs.peak} {what}: {_number(peak)} t/s"] if peak else []
    yield f"{phase}: {', '.join(legend)}"
    end = max([peak or 0, *(side[phase]["max"] for side in sides.values())])
    for name, side in sides.items():
        line = bar(side["rounds"][phase], end, peak, _WIDTH - _NAME - _SHARE, glyphs)
        colour = "cyan" if name == _OURS else "yellow"
        yield f"  {name:{_NAME - 2}}{click.style(line, fg=colour)}{_share(phase, side[phase])}".rstrip()


def bar(values: Sequence[float], end: float, peak: float | None, width: int, glyphs: Glyphs) -> str:
    """`width` characters for 0 to `end`: a bar to the smallest value, a dot for each value, a mark at `peak`."""

    def place(value: float) -> int:
        return round(value / end * (width - 1))

    low, high = place(min(values)), place(max(values))
    line = [glyphs.bar] * low + [glyphs.between] * (high - low) + [" "] * (width - high)
    if peak:
        line[place(peak)] = glyphs.peak
    for value in values:
        line[place(value)] = glyphs.round
    line[place(median(values))] = glyphs.median
    return "".join(line)


def _share(phase: str, figures: dict[str, Any]) -> str:
    if phase == "decode":
        return f"  MBU {figures['mbu']:.2f}" if figures["mbu"] is not None else ""
    if not figures["int8_share"]:
        return ""
    return f"  {figures['int8_share']:4.0%}  {figures['int8_per_s'] / 1e9:,.0f} GMAC/s"


def _number(value: float) -> str:
    """A number with three or four significant digits, in at most six characters."""
    if value >= 1e5:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.{0 if value >= 1000 else 1 if value >= 100 else 2}f}"
