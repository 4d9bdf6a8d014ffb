"""The records of pulled files, in edgellm's own folder of models, and of unfinished pulls.

    models/ORG/NAME/FILE                        complete and checked
    models/ORG/NAME/.pulled.json                the record of pulled files: {"files": {FILE: {"bytes": n, "hash": h}}}
    models/.incoming/ORG/NAME/KEY/FILE          complete; other files of the same pull are missing
    models/.incoming/ORG/NAME/KEY/FILE.part     the bytes that have arrived
    models/.incoming/ORG/NAME/KEY/.pulled.json  the record of all files of this pull

A file was pulled only if a record names it. The files of one pull share a KEY, made of their hashes.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from edgellm.models.quant import quant_in_name
from edgellm.models.split_names import split_name
from edgellm.system.folders import models_folder

_RECORD = ".pulled.json"
_MAX_RECORD = 1 << 24
_FORBIDDEN = frozenset('\\:*?"<>|')
"""Characters that are special in paths of some system."""


@dataclass(frozen=True)
class FileRecord:
    """A pulled file: its size, and its hash from the hub, `sha256:...` or `git:...`."""

    bytes: int
    hash: str


@dataclass(frozen=True)
class PulledRepository:
    """Pulled files of a repository, by their paths below `folder`; `present_bytes` of them are there."""

    repository: str
    folder: Path
    files: Mapping[str, FileRecord]
    present_bytes: int

    @property
    def total(self) -> int:
        """The size of all files in bytes when they are complete."""
        return sum(entry.bytes for entry in self.files.values())

    @property
    def weights(self) -> list[str]:
        """The GGUF files among them; a checkpoint has none."""
        return sorted(name for name in self.files if name.lower().endswith(".gguf"))

    @property
    def reference(self) -> str:
        """The reference that pulls these files: ORG/NAME:QUANT, or ORG/NAME for a checkpoint."""
        if not self.weights:
            return self.repository
        stem = split_name(self.weights[0].rpartition(".")[0])[0]
        return f"{self.repository}:{quant_in_name(stem) or stem.rpartition('/')[2]}"

    @property
    def command(self) -> str:
        """The command that pulls these files."""
        return f"edgellm {'pull' if self.weights else 'convert'} {self.reference}"


def is_safe_path(name: str) -> bool:
    """Whether an untrusted path, with `/` between folders, stays below the folder it is put in, and is not hidden."""
    parts = name.split("/")
    return len(name) < 500 and name.isprintable() and not _FORBIDDEN & set(name) and all(map(_is_plain_part, parts))


def _is_plain_part(part: str) -> bool:
    return bool(part) and not part.startswith(".") and not part.endswith((".", " ", ".part"))


def is_record(path: Path) -> bool:
    """Whether a path is that of a record."""
    return path.name.startswith(_RECORD)


def read_record(folder: Path) -> dict[str, FileRecord]:
    """The files in `folder` that were pulled; none if the record is missing or damaged."""
    try:
        with (folder / _RECORD).open("rb") as record:
            files = json.loads(record.read(_MAX_RECORD))["files"]
        return {name: FileRecord(int(e["bytes"]), str(e["hash"])) for name, e in files.items() if is_safe_path(name)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        return {}


def write_record(folder: Path, files: Mapping[str, FileRecord]) -> None:
    """Replace the record of `folder` in one step; without files, remove it."""
    record = folder / _RECORD
    if not files:
        record.unlink(missing_ok=True)
        return
    new = folder / f"{_RECORD}.new"
    new.write_text(json.dumps({"files": {name: asdict(entry) for name, entry in files.items()}}, indent=1))
    os.replace(new, record)  # noqa: PTH105 (it replaces on every system)


def incoming_folder(repository: str, files: Mapping[str, FileRecord]) -> Path:
    """The staging folder of a pull of these files."""
    content = "\n".join(f"{name} {files[name].hash}" for name in sorted(files))
    return incoming_root() / repository / hashlib.sha256(content.encode()).hexdigest()[:16]


def incoming_root() -> Path:
    """The folder of all unfinished pulls."""
    return models_folder() / ".incoming"


def pulled_repositories() -> Iterator[PulledRepository]:
    """The repositories of which files were pulled."""
    root = models_folder()
    for folder in _folders(root, 2):
        if record := read_record(folder):
            present_bytes = sum(_size(folder / name) for name in record)
            yield PulledRepository(folder.relative_to(root).as_posix(), folder, record, present_bytes)


def unfinished_pulls() -> Iterator[PulledRepository]:
    """The unfinished pulls."""
    root = incoming_root()
    for folder in _folders(root, 3):
        record = read_record(folder)
        present_bytes = sum(_size(folder / name) or _size(folder / f"{name}.part") for name in record)
        if record:
            yield PulledRepository(folder.relative_to(root).parent.as_posix(), folder, record, present_bytes)


def _folders(root: Path, depth: int) -> Iterator[Path]:
    if not depth:
        yield root
        return
    try:
        below = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        return
    for folder in below:
        yield from _folders(folder, depth - 1)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
