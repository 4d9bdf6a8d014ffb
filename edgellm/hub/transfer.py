"""Downloads one file: resumes what an earlier run left, and compares the hash."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, size
from edgellm.hub.client import Hub, RangeNotSatisfiableError
from edgellm.hub.listing import RemoteFile, Repository
from edgellm.hub.retry import RetryPolicy, TransientError

_CHUNK_BYTES = 1 << 20
_MAX_SMALL_BYTES = 1 << 26

Progressed = Callable[[int, int], None]
"""`progressed(received, new)`: bytes of the file that are there, and bytes that have just arrived."""


class PartialFile:
    """The bytes of `file` that have arrived, in the file at `path`; `received` is their number."""

    def __init__(self, file: RemoteFile, path: Path) -> None:
        self._file, self._digest, self.received = file, file.digest(), 0
        self._out = path.open("r+b" if path.exists() else "w+b", buffering=0)

    def resume(self, on_chunk: Callable[[], None]) -> None:
        """Hash the bytes that an earlier run left, in chunks, and drop them if they are too many."""
        while chunk := self._out.read(_CHUNK_BYTES):
            on_chunk()
            self._digest.update(chunk)
            self.received += len(chunk)
        if self.received > self._file.bytes:
            self.restart()

    def write(self, chunk: bytes) -> None:
        """Append bytes."""
        data = memoryview(chunk)
        while data:  # an unbuffered file may write less
            data = data[self._out.write(data) :]
        self._digest.update(chunk)
        self.received += len(chunk)

    def restart(self) -> None:
        """Drop all bytes."""
        self._out.seek(0)
        self._out.truncate()
        self._digest, self.received = self._file.digest(), 0

    def is_verified(self) -> bool:
        """Whether all bytes are there, and have the hash of the file."""
        return self.received == self._file.bytes and self._file.matches(self._digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._out.close()


def download_file(hub: Hub, repository: Repository, file: RemoteFile, path: Path, progressed: Progressed) -> None:
    """Download `file` to `path`, resuming what is there.

    If it fails, the bytes that arrived stay at `path`. Bytes of an earlier run may be damaged, as after a power cut: if
    the hash differs after resuming, the file is downloaded once more from the start. Raises EdgeLLMError.
    """
    with PartialFile(file, path) as part:
        part.resume(lambda: hub.observer.verifying(file.name))
        resumed = part.received > 0
        _receive(hub, repository, part, file, progressed)
        if not part.is_verified() and resumed:
            part.restart()
            _receive(hub, repository, part, file, progressed)
        verified = part.is_verified()
    if not verified:
        path.unlink()
        problem = f"the {size(file.bytes)} that were downloaded have another hash than the hub lists"
        raise EdgeLLMError(f"{printable(file.name)}: {problem}; they were removed, try again later")


def read_small_file(hub: Hub, repository: Repository, file: RemoteFile) -> bytes:
    """The content of a small file, which is not kept. Raises EdgeLLMError, also for more than 64 MiB."""
    if file.bytes > _MAX_SMALL_BYTES:
        raise EdgeLLMError(f"{printable(file.name)}: has {size(file.bytes)}, too much for this kind of file")
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "part"
            download_file(hub, repository, file, path, lambda received, new: None)
            return path.read_bytes()
    except OSError as error:
        problem = f"cannot be written to the folder of temporary files ({error.strerror or error})"
        advice = "make room there, or set TMPDIR to another folder"
        raise EdgeLLMError(f"{printable(file.name)}: {problem}; {advice}") from error


def _receive(hub: Hub, repository: Repository, part: PartialFile, file: RemoteFile, progressed: Progressed) -> None:
    """Request the missing bytes, again and again if need be, until all are there."""
    retries = RetryPolicy(hub.observer, received=part.received)
    progressed(part.received, 0)
    while part.received < file.bytes:
        try:
            with hub.body(repository, file, part.received) as body:
                if body.start != part.received:
                    part.restart()
                for chunk in body.chunks:
                    part.write(_checked(chunk, part, file))
                    retries.progressed(part.received)
                    progressed(part.received, len(chunk))
            if part.received < file.bytes:
                error = EdgeLLMError(f"{printable(file.name)}: ends at {size(part.received)}; try again later")
                raise TransientError("the file breaks off", error)
        except RangeNotSatisfiableError as failure:
            part.restart()
            retries.wait(failure)
        except TransientError as failure:
            retries.wait(failure)


def _checked(chunk: bytes, part: PartialFile, file: RemoteFile) -> bytes:
    if part.received + len(chunk) > file.bytes:
        part.restart()
        problem = f"has {size(file.bytes)} in the listing, but the server sends more"
        raise EdgeLLMError(f"{printable(file.name)}: {problem}; the downloaded bytes were removed, try again later")
    return chunk
