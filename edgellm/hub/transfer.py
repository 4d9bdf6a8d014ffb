"""One file, from a hub to the disk: goes on where an earlier run ended, however it did, and compares the hash."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, size
from edgellm.hub.client import Hub, RangeNotSatisfiableError, TransientError
from edgellm.hub.listing import RemoteFile, Repository
from edgellm.hub.retry import RetryPolicy

_SLAB = 1 << 20
_MOST_SMALL = 1 << 26


class PartialFile:
    """As much of a file as has come, in `path`; `have` bytes that the digest has seen."""

    def __init__(self, file: RemoteFile, path: Path) -> None:
        self._file, self._digest, self.received = file, file.digest(), 0
        self._out = path.open("r+b" if path.exists() else "w+b", buffering=0)

    def resume(self, reading: Callable[[], None]) -> None:
        """Begin after what is there, calling `reading` before each slab. More than the file has is none of it."""
        while slab := self._out.read(_SLAB):
            reading()
            self._digest.update(slab)
            self.received += len(slab)
        if self.received > self._file.bytes:
            self.restart()

    def write(self, chunk: bytes) -> None:
        """Add bytes."""
        data = memoryview(chunk)
        while data:  # a raw file may take less than all
            data = data[self._out.write(data) :]
        self._digest.update(chunk)
        self.received += len(chunk)

    def restart(self) -> None:
        """Forget all that came."""
        self._out.seek(0)
        self._out.truncate()
        self._digest, self.received = self._file.digest(), 0

    def is_verified(self) -> bool:
        """Whether all bytes are there, and are those of the file."""
        return self.received == self._file.bytes and self._file.matches(self._digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._out.close()


def download_file(
    hub: Hub, repository: Repository, file: RemoteFile, path: Path, moved: Callable[[int, int], None]
) -> None:
    """Bring `file` to `path`, going on with what is there; `moved(bytes there, bytes that came now)` follows it.

    What has come stays at `path` when it ends early. What was kept from before may be damaged, as after a power cut:
    then all comes anew, once. Raises EdgeLLMError.
    """
    with PartialFile(file, path) as part:
        part.resume(lambda: hub.observer.verifying(file.name))
        went_on = part.received > 0
        _complete(hub, repository, part, file, moved)
        if not part.is_verified() and went_on:
            part.restart()
            _complete(hub, repository, part, file, moved)
        right = part.is_verified()
    if not right:
        path.unlink()
        problem = f"{size(file.bytes)} came, but they are not the file's: their hash is another"
        raise EdgeLLMError(f"{printable(file.name)}: {problem}; they were removed, try again later")


def read_small_file(hub: Hub, repository: Repository, file: RemoteFile) -> bytes:
    """A small file, which is not kept. Raises EdgeLLMError."""
    if file.bytes > _MOST_SMALL:
        raise EdgeLLMError(f"{printable(file.name)}: has {size(file.bytes)}, too many for such a file")
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "part"
            download_file(hub, repository, file, path, lambda have, new: None)
            return path.read_bytes()
    except OSError as error:
        problem = f"cannot be written among the temporary files ({error.strerror or error})"
        advice = "make room there, or set TMPDIR to another folder"
        raise EdgeLLMError(f"{printable(file.name)}: {problem}; {advice}") from error


def _complete(
    hub: Hub, repository: Repository, part: PartialFile, file: RemoteFile, moved: Callable[[int, int], None]
) -> None:
    retries = RetryPolicy(hub.observer, reached=part.received)
    moved(part.received, 0)
    while part.received < file.bytes:
        try:
            with hub.body(repository, file, part.received) as body:
                if body.start != part.received:
                    part.restart()
                for chunk in body.chunks:
                    part.write(_checked(chunk, part, file))
                    retries.progressed(part.received)
                    moved(part.received, len(chunk))
            if part.received < file.bytes:
                final = EdgeLLMError(f"{printable(file.name)}: ends at {size(part.received)}; try again later")
                raise TransientError("the file breaks off", final)
        except RangeNotSatisfiableError as error:
            part.restart()
            retries.wait(error.reason, error.error, error.retry_after)
        except TransientError as error:
            retries.wait(error.reason, error.error, error.retry_after)


def _checked(chunk: bytes, part: PartialFile, file: RemoteFile) -> bytes:
    if part.received + len(chunk) > file.bytes:
        part.restart()
        problem = f"has {size(file.bytes)} by the listing, but more come"
        raise EdgeLLMError(f"{printable(file.name)}: {problem}; they were removed, try again later")
    return chunk
