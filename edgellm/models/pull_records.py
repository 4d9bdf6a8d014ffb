"""What was pulled from a hub, in edgellm's own folder of models, and what is on its way there.

    models/ORG/NAME/FILE                      whole and checked
    models/ORG/NAME/.pulled.json              which files there were pulled: {"files": {FILE: {"bytes": n, "hash": h}}}
    models/.incoming/ORG/NAME/KEY/FILE        whole, but not yet all of what belongs together
    models/.incoming/ORG/NAME/KEY/FILE.part   as much of it as has come
    models/.incoming/ORG/NAME/KEY/.pulled.json  what it all will be

Only what a record names was pulled. Files that belong together share a KEY, made of their hashes.
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
_PLAIN = frozenset('\\:*?"<>|')


@dataclass(frozen=True)
class FileRecord:
    """A pulled file: its size, and its hash as the hub gives it, `sha256:...` or `git:...`."""

    bytes: int
    hash: str


@dataclass(frozen=True)
class PulledRepository:
    """Files of a repository, in `folder`, by their names below it; `come` bytes of them are there."""

    repository: str
    folder: Path
    files: Mapping[str, FileRecord]
    come: int

    @property
    def total(self) -> int:
        """The bytes of all files when they are whole."""
        return sum(entry.bytes for entry in self.files.values())

    @property
    def weights(self) -> list[str]:
        """The GGUF files among them; a checkpoint has none."""
        return sorted(name for name in self.files if name.lower().endswith(".gguf"))

    @property
    def reference(self) -> str:
        """What to ask a hub for to get these files: ORG/NAME:QUANT, ORG/NAME of a checkpoint."""
        if not self.weights:
            return self.repository
        stem = split_name(self.weights[0].rpartition(".")[0])[0]
        return f"{self.repository}:{quant_in_name(stem) or stem.rpartition('/')[2]}"

    @property
    def command(self) -> str:
        """What to type to get these files."""
        return f"edgellm {'pull' if self.weights else 'convert'} {self.reference}"


def is_safe_path(name: str) -> bool:
    """Whether a file's name from outside, with `/` between folders, stays below the folder it is put in, unhidden."""
    parts = name.split("/")
    return len(name) < 500 and name.isprintable() and not _PLAIN & set(name) and all(map(_is_plain_part, parts))


def _is_plain_part(part: str) -> bool:
    return bool(part) and not part.startswith(".") and not part.endswith((".", " ", ".part"))


def is_record(path: Path) -> bool:
    """Whether a path is that of a record."""
    return path.name.startswith(_RECORD)


def read_record(folder: Path) -> dict[str, FileRecord]:
    """The files in `folder` that were pulled; none where the record is missing or damaged."""
    try:
        with (folder / _RECORD).open("rb") as record:
            files = json.loads(record.read(_MAX_RECORD))["files"]
        return {name: FileRecord(int(e["bytes"]), str(e["hash"])) for name, e in files.items() if is_safe_path(name)}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
        return {}


def write_record(folder: Path, files: Mapping[str, FileRecord]) -> None:
    """Record which files in `folder` were pulled, all at once; with none, the record goes."""
    record = folder / _RECORD
    if not files:
        record.unlink(missing_ok=True)
        return
    new = folder / f"{_RECORD}.new"
    new.write_text(json.dumps({"files": {name: asdict(entry) for name, entry in files.items()}}, indent=1))
    os.replace(new, record)  # noqa: PTH105 (it replaces on every system)


def incoming_folder(repository: str, files: Mapping[str, FileRecord]) -> Path:
    """Where files that belong together wait for each other."""
    content = "\n".join(f"{name} {files[name].hash}" for name in sorted(files))
    return incoming_root() / repository / hashlib.sha256(content.encode()).hexdigest()[:16]


def incoming_root() -> Path:
    """The folder of all that is on its way."""
    return models_folder() / ".incoming"


def pulled_repositories() -> Iterator[PulledRepository]:
    """What was pulled, a repository at a time."""
    root = models_folder()
    for folder in _folders(root, 2):
        if record := read_record(folder):
            come = sum(_size(folder / name) for name in record)
            yield PulledRepository(folder.relative_to(root).as_posix(), folder, record, come)


def unfinished_pulls() -> Iterator[PulledRepository]:
    """What is on its way."""
    root = incoming_root()
    for folder in _folders(root, 3):
        record = read_record(folder)
        come = sum(_size(folder / name) or _size(folder / f"{name}.part") for name in record)
        if record:
            yield PulledRepository(folder.relative_to(root).parent.as_posix(), folder, record, come)


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
