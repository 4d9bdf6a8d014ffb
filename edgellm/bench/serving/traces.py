"""Traces of requests: files of CSV with a header, or of JSON lines.

The names of the columns tell the format:

    Azure 2023, 2024   TIMESTAMP (a date), ContextTokens, GeneratedTokens        github.com/Azure/AzurePublicDataset
    BurstGPT           Timestamp (seconds), Request tokens, Response tokens      github.com/HPMLL/BurstGPT
    Mooncake           timestamp (milliseconds), input_length, output_length, hash_ids   github.com/kvcache-ai/Mooncake
    edgellm            arrival_s (seconds), prompt_tokens, tokens

All rows have a time, or none. `hash_ids` are blocks of a prompt: equal ids are equal tokens.
"""

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TextIO

from edgellm.bench.serving.prompts import BLOCK_TOKENS
from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, shown_path

_MOST_TOKENS = 1 << 24
_MOST_LINE = 1 << 20


@dataclass(frozen=True)
class TraceRow:
    """A request of a trace; `time_s` is None if the trace has no times."""

    time_s: float | None
    prompt_tokens: int
    tokens: int
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Format:
    time: str
    prompt: str
    reply: str
    seconds: Callable[[Any], float]


def _date(value: Any) -> float:
    return datetime.fromisoformat(value).timestamp()


_FORMATS = (
    _Format("TIMESTAMP", "ContextTokens", "GeneratedTokens", _date),
    _Format("Timestamp", "Request tokens", "Response tokens", float),
    _Format("timestamp", "input_length", "output_length", lambda value: float(value) / 1000),
    _Format("arrival_s", "prompt_tokens", "tokens", float),
)


class TraceReader:
    """Reads one file. Every error is an EdgeLLMError that names the file and the line."""

    def __init__(self, path: Path) -> None:
        self._path, self._line = path, 0

    def rows(self) -> Iterator[TraceRow]:
        """The requests, in the order of the file. Raises EdgeLLMError."""
        try:
            with self._path.open(encoding="utf-8-sig", newline="") as file:
                yield from self._rows(self._lines(file))
        except OSError as error:
            raise EdgeLLMError(f"{self._name}: {error.strerror}: give a file of CSV or JSON lines") from None
        except UnicodeDecodeError:
            self._fail("it is not UTF-8")
        except csv.Error as error:
            self._fail(str(error))

    def _rows(self, lines: Iterator[str]) -> Iterator[TraceRow]:
        first = next(lines, "")
        whole = chain([first], lines)
        records = self._objects(whole) if first.lstrip().startswith("{") else csv.DictReader(whole)
        form, timed, before = None, None, -math.inf
        for record in records:
            form = form or self._format_of(record)
            row = self._row(form, record)
            timed = row.time_s is not None if timed is None else timed
            if timed != (row.time_s is not None):
                self._fail(f"{form.time} is in some lines only")
            if row.time_s is not None and row.time_s < before:
                self._fail(f"{form.time} is before that of the line before")
            before = row.time_s or 0.0
            yield row

    def _lines(self, file: TextIO) -> Iterator[str]:
        while line := file.readline(_MOST_LINE):
            self._line += 1
            if len(line) == _MOST_LINE:
                self._fail(f"the line has more than {_MOST_LINE:,} characters")
            if line.strip():
                yield line

    def _objects(self, lines: Iterator[str]) -> Iterator[Mapping[str, Any]]:
        for line in lines:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                self._fail("it is no JSON object")
            yield record

    def _format_of(self, record: Mapping[str, Any]) -> _Format:
        for form in _FORMATS:
            if form.prompt in record and form.reply in record:
                return form
        names = " or ".join(f"{form.prompt} and {form.reply}" for form in _FORMATS)
        return self._fail(f"it needs {names}")

    def _row(self, form: _Format, record: Mapping[str, Any]) -> TraceRow:
        prompt, reply = (self._tokens(name, record.get(name)) for name in (form.prompt, form.reply))
        time = None
        if (given := record.get(form.time)) is not None:
            with suppress(TypeError, ValueError, OverflowError):
                time = form.seconds(given)
            if time is None or not math.isfinite(time):
                self._fail(f"{form.time} is no time: {printable(str(given))!r}")
        return TraceRow(time, prompt, reply, self._blocks(record.get("hash_ids"), prompt))

    def _tokens(self, name: str, value: Any) -> int:
        number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
        if type(number) is not int or not 0 <= number <= _MOST_TOKENS:
            self._fail(f"{name} must be a number of tokens, up to {_MOST_TOKENS:,}")
        return number

    def _blocks(self, value: Any, tokens: int) -> tuple[int, ...]:
        if value is None:
            return ()
        if not isinstance(value, list) or not all(type(each) is int and each >= 0 for each in value):
            self._fail("hash_ids must be a list of whole numbers")
        return tuple(value[: -(-tokens // BLOCK_TOKENS)])

    @property
    def _name(self) -> str:
        return shown_path(self._path)

    def _fail(self, problem: str) -> NoReturn:
        raise EdgeLLMError(f"{self._name}, line {self._line}: {problem}: see the formats in docs/performance.md")
