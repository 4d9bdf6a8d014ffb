"""The answers of a batch so far, on disk: a run that was killed at any moment goes on from there.

    HEADER          a line of JSON: what the answers belong to
    CHECKSUM INDEX STATUS ANSWER     for each answer, in the order in which they came

CHECKSUM is the CRC-32 of the rest of the line, as 8 hexadecimal digits. A line that is torn, and all behind it, is
dropped: its request is computed again, to the same bytes.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zlib import crc32

from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path

_FORMAT = 1
_MOST_HEADER = 1 << 16
_LINE = re.compile(rb"([0-9a-f]{8}) (([0-9]{1,15}) ([0-9]{3}) (.*))\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer in the journal: its status, and where its bytes are."""

    status: int
    offset: int
    nbytes: int


class Journal:
    """An open journal. Use it as a context manager; one thread may use it at a time."""

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        """Open or begin the journal of a job, of which `facts` are what its answers depend on.

        Raises EdgeLLMError for one of another job, and if it cannot be written.
        """
        self._path, self._header = path, json.dumps({"edgellm batch": _FORMAT, **facts}).encode() + b"\n"
        self.entries: dict[int, Entry] = {}
        with self._written():
            self._file = path.open("r+b" if path.exists() else "x+b", buffering=0)
        try:
            self._end = self._read(facts)
        except BaseException:
            self._file.close()
            raise

    def _read(self, facts: Mapping[str, Any]) -> int:
        """Read all answers; drops a torn end. Returns the length of the rest."""
        with self._written(), self._path.open("rb") as file:
            header = file.readline(_MOST_HEADER)
            if header != self._header and self._header.startswith(header):  # it was killed before the first answer
                self._file.truncate(0)
                self._file.write(self._header)
                return len(self._header)
            self._check(header, facts)
            end = len(header)
            for line in file:
                if (found := _entry(line, end)) is None:
                    break
                self.entries.setdefault(*found)
                end += len(line)
        with self._written():
            self._file.truncate(end)
            return self._file.seek(end)

    def _check(self, header: bytes, facts: Mapping[str, Any]) -> None:
        name = shown_path(self._path)
        try:
            found = json.loads(header)
            other = [fact for fact in facts if found.get(fact) != facts[fact]]
            is_journal = found.get("edgellm batch") == _FORMAT
        except (ValueError, AttributeError, RecursionError):
            is_journal = False
        if not is_journal:
            raise EdgeLLMError(f"{name}: is not of this version of `edgellm batch`; remove it, or give another -o")
        if other:
            differs = " and ".join(f"another {fact}" for fact in other)
            raise EdgeLLMError(
                f"{name}: has answers for {differs}; give what it was begun with, or begin again with --restart"
            )

    def append(self, index: int, status: int, answer: bytes) -> None:
        """Add an answer, which a kill from now on does not lose. Raises EdgeLLMError if it cannot be written."""
        text = b"%d %d %s" % (index, status, answer)
        line = b"%08x %s\n" % (crc32(text), text)
        with self._written():
            left = memoryview(line)
            while left:
                left = left[self._file.write(left) :]
        self.entries[index] = Entry(status, self._end + len(line) - 1 - len(answer), len(answer))
        self._end += len(line)

    def answers(self) -> Iterator[bytes]:
        """All answers, in the order of their requests."""
        with self._written(), self._path.open("rb") as file:
            for index in sorted(self.entries):
                file.seek(self.entries[index].offset)
                yield file.read(self.entries[index].nbytes)

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            name, problem = shown_path(self._path), error.strerror or error
            raise EdgeLLMError(f"{name}: {problem}; when that is solved, the same command goes on") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._file.close()
        if not self.entries:  # there is nothing to keep
            self._path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Close the journal and remove it."""
        self._file.close()
        self._path.unlink(missing_ok=True)


def _entry(line: bytes, offset: int) -> tuple[int, Entry] | None:
    """The request that a line answers, and the answer; None for a torn line."""
    found = _LINE.fullmatch(line)
    if not found or int(found[1], 16) != crc32(found[2]):
        return None
    return int(found[3]), Entry(int(found[4]), offset + found.start(5), len(found[5]))
