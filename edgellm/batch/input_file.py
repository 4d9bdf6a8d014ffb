"""The input of a batch, line by line: a file, or stdin, which is kept in a temporary file."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import BinaryIO, Self

from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path
from edgellm.server.settings import MAX_BODY_BYTES

STDIN = "-"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class InputLine:
    """Where a line is: its number from 1 on, the offset of its first byte, its bytes, and their SHA-256."""

    number: int
    offset: int
    nbytes: int
    digest: bytes


class InputFile:
    """An open input. Use it as a context manager; any thread may read from it."""

    def __init__(self, given: str) -> None:
        """Open the file of a name, or read stdin. Raises EdgeLLMError."""
        self.name = "stdin" if given == STDIN else shown_path(given)
        self._file, self._lock = _stdin() if given == STDIN else self._opened(given), Lock()

    def _opened(self, given: str) -> BinaryIO:
        try:
            if not (path := Path(given)).is_file() and path.exists():
                raise EdgeLLMError(f"{self.name}: is no regular file; give a file with a request on each line, or -")
            return path.open("rb")
        except FileNotFoundError:
            raise EdgeLLMError(f"{self.name}: there is no such file; check the path") from None
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or error
            raise EdgeLLMError(f"{self.name}: {problem}; give a file that can be read") from None

    def where(self, line: InputLine) -> str:
        """A line's name in messages."""
        return f"{self.name}, line {line.number:,}"

    def lines(self) -> Iterator[tuple[InputLine, bytes]]:
        """All lines that are not blank, with their contents. Raises EdgeLLMError for one that is too long."""
        offset, number = 0, 0
        self._file.seek(0)
        while read := self._file.readline(MAX_BODY_BYTES + 1):
            number += 1
            if len(read) > MAX_BODY_BYTES:
                most = MAX_BODY_BYTES >> 20
                raise EdgeLLMError(f"{self.name}, line {number:,}: is longer than {most} MiB; a request must fit there")
            content = read.removeprefix(_BOM) if number == 1 else read
            if content.strip():
                yield InputLine(number, offset, len(read), sha256(content.strip()).digest()), content.strip()
            offset += len(read)

    def read(self, line: InputLine) -> bytes:
        """The content of a line. Raises EdgeLLMError if the file has changed."""
        with self._lock:
            self._file.seek(line.offset)
            content = self._file.read(line.nbytes)
        content = (content.removeprefix(_BOM) if line.number == 1 else content).strip()
        if sha256(content).digest() != line.digest:
            raise EdgeLLMError(f"{self.where(line)}: has changed since the start; begin again with --restart")
        return content

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._file.close()


def _stdin() -> BinaryIO:
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (InputFile closes it)
    if sys.stdin:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    return spool
