"""One file, from a hub to the disk: goes on where an earlier run ended, however it did, and compares the hash."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, size
from edgellm.hub.client import Hub, NoRangeError, PassingError
from edgellm.hub.listing import RemoteFile, Repository
from edgellm.hub.retry import Patience

_SLAB = 1 << 20
_MOST_SMALL = 1 << 26


class Part:
    """As much of a file as has come, in `path`; `have` bytes that the digest has seen."""

    def __init__(self, file: RemoteFile, path: Path) -> None:
        self._file, self._digest, self.have = file, file.digest(), 0
        self._out = path.open("r+b" if path.exists() else "w+b", buffering=0)

    def read_kept(self, reading: Callable[[], None]) -> None:
        """Begin after what is there, calling `reading` before each slab. More than the file has is none of it."""
        while slab := self._out.read(_SLAB):
            reading()
            self._digest.update(slab)
            self.have += len(slab)
        if self.have > self._file.bytes:
            self.restart()

    def write(self, chunk: bytes) -> None:
        """Add bytes."""
        data = memoryview(chunk)
        while data:  # a raw file may take less than all
            data = data[self._out.write(data) :]
        self._digest.update(chunk)
        self.have += len(chunk)

    def restart(self) -> None:
        """Forget all that came."""
        self._out.seek(0)
        self._out.truncate()
        self._digest, self.have = self._file.digest(), 0

    def is_right(self) -> bool:
        """Whether all bytes are there, and are those of the file."""
        return self.have == self._file.bytes and self._file.is_made_by(self._digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._out.close()


def fetch(hub: Hub, repository: Repository, file: RemoteFile, path: Path, moved: Callable[[int, int], None]) -> None:
    """Bring `file` to `path`, going on with what is there; `moved(bytes there, bytes that came now)` follows it.

    What has come stays at `path` when it ends early. What was kept from before may be damaged, as after a power cut:
    then all comes anew, once. Raises EdgeLLMError.
    """
    with Part(file, path) as part:
        part.read_kept(lambda: hub.watcher.checking(file.name))
        went_on = part.have > 0
        _complete(hub, repository, part, file, moved)
        if not part.is_right() and went_on:
            part.restart()
            _complete(hub, repository, part, file, moved)
        right = part.is_right()
    if not right:
        path.unlink()
        problem = f"{size(file.bytes)} came, but they are not the file's: their hash is another"
        raise EdgeLLMError(f"{printable(file.name)}: {problem}; they were removed, try again later")


def read_small(hub: Hub, repository: Repository, file: RemoteFile) -> bytes:
    """A small file, which is not kept. Raises EdgeLLMError."""
    if file.bytes > _MOST_SMALL:
        raise EdgeLLMError(f"{printable(file.name)}: has {size(file.bytes)}, too many for such a file")
    try:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "part"
            fetch(hub, repository, file, path, lambda have, new: None)
            return path.read_bytes()
    except OSError as error:
        problem = f"cannot be written among the temporary files ({error.strerror or error})"
        advice = "make room there, or set TMPDIR to another folder"
        raise EdgeLLMError(f"{printable(file.name)}: {problem}; {advice}") from error


def _complete(
    hub: Hub, repository: Repository, part: Part, file: RemoteFile, moved: Callable[[int, int], None]
) -> None:
    patience = Patience(hub.watcher, reached=part.have)
    moved(part.have, 0)
    while part.have < file.bytes:
        try:
            with hub.body(repository, file, part.have) as body:
                if body.start != part.have:
                    part.restart()
                for chunk in body.chunks:
                    part.write(_checked(chunk, part, file))
                    patience.reach(part.have)
                    moved(part.have, len(chunk))
            if part.have < file.bytes:
                final = EdgeLLMError(f"{printable(file.name)}: ends at {size(part.have)}; try again later")
                raise PassingError("the file breaks off", final)
        except NoRangeError as error:
            part.restart()
            patience.wait(error.why, error.final, error.told)
        except PassingError as error:
            patience.wait(error.why, error.final, error.told)


def _checked(chunk: bytes, part: Part, file: RemoteFile) -> bytes:
    if part.have + len(chunk) > file.bytes:
        part.restart()
        problem = f"has {size(file.bytes)} by the listing, but more come"
        raise EdgeLLMError(f"{printable(file.name)}: {problem}; they were removed, try again later")
    return chunk
