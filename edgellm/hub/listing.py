"""What is in a repository of a hub."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.hub.reference import NO_REPOSITORY, is_repository
from edgellm.models.pull_records import FileRecord, is_safe_path

if TYPE_CHECKING:
    from hashlib import _Hash

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SAFE = re.compile(r"[^\W_][\w.+=@,-]*")
_HASH = re.compile(r"sha256:[0-9a-f]{64}|git:[0-9a-f]{40}")


@dataclass(frozen=True)
class RemoteFile:
    """A file in a repository. `hash` is `sha256:` and that of large files, or `git:` and git's own of small ones."""

    name: str
    bytes: int
    hash: str

    @property
    def record(self) -> FileRecord:
        """What a record says of it."""
        return FileRecord(self.bytes, self.hash)

    def digest(self) -> "_Hash":
        """A digest to feed the file's bytes to; git's hash begins with the kind and the size."""
        if self.hash.startswith("sha256:"):
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.bytes, usedforsecurity=False)

    def matches(self, digest: "_Hash") -> bool:
        """Whether the bytes that `digest` was fed are the file's."""
        return digest.hexdigest() == self.hash.partition(":")[2]


@dataclass(frozen=True)
class Repository:
    """A repository at one commit; `architecture` is what its GGUF files hold, if the hub knows.

    `odd` are names of files that are left out, as they are not safe.
    """

    name: str
    commit: str
    files: tuple[RemoteFile, ...]
    architecture: str | None = None
    odd: tuple[str, ...] = ()


def parse_listing(body: bytes, asked: str) -> Repository:
    """The answer of a hub about a repository, JSON, with nothing in it trusted.

    Files are left out whose entries are damaged, and those whose names do no good on a command line: `odd` has the
    names. Raises EdgeLLMError where it is no answer to what was asked.
    """
    try:
        about = json.loads(body)
    except (ValueError, RecursionError):
        about = None
    name, commit = _get(about, "id"), _get(about, "sha")
    if not isinstance(name, str) or not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise EdgeLLMError(f"the hub's answer about {printable(asked)} names no repository and commit; try again")
    if not is_repository(name):
        raise EdgeLLMError(f"{printable(asked)} is {printable(name)} on the hub, {NO_REPOSITORY}; choose another")
    siblings = _get(about, "siblings")
    read = map(_read_file, siblings if isinstance(siblings, list) else ())
    files = {file.name: file for file in read if file}
    safe = {name: is_safe(name) for name in files}
    architecture = _get(_get(about, "gguf"), "architecture")
    known = architecture if isinstance(architecture, str) else None
    odd = tuple(name for name in files if not safe[name])
    return Repository(name, commit, tuple(file for file in files.values() if safe[file.name]), known, odd)


def is_safe(name: str) -> bool:
    """Whether a file's name, with `/` between folders, is harmless as an argument of any command of any shell."""
    return is_safe_path(name) and all(map(_SAFE.fullmatch, name.split("/")))


def unsafe_names_problem(names: Iterable[str]) -> str:
    """What is wrong with files that are left out, if there are any."""
    shown = [printable(name) for name in names]
    others = f" (and {len(shown) - 1} more)" if len(shown) > 1 else ""
    rule = "names here begin with a letter or digit and have no spaces or characters of shells"
    advice = "download it by hand, under another name"
    return f"the file {shown[0]}{others} is not fetched: {rule}; {advice}" if shown else ""


def _read_file(sibling: object) -> RemoteFile | None:
    name, size, large = _get(sibling, "rfilename"), _get(sibling, "size"), _get(sibling, "lfs")
    found = f"sha256:{_get(large, 'sha256')}" if large else f"git:{_get(sibling, 'blobId')}"
    if large:
        size = _get(large, "size")
    if not isinstance(name, str) or type(size) is not int or size < 0:
        return None
    return RemoteFile(name, size, found) if _HASH.fullmatch(found) else None


def _get(value: object, key: str) -> object:
    """An entry of a JSON object; None where it has none, or is no object."""
    return value.get(key) if isinstance(value, dict) else None
