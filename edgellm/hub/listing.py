"""The listing of a repository on a hub."""

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
    """A file in a repository. `hash` is `sha256:HEX` for a large file, `git:HEX` (git's blob hash) for a small one."""

    name: str
    bytes: int
    hash: str

    @property
    def record(self) -> FileRecord:
        """Its entry in the record of pulled files."""
        return FileRecord(self.bytes, self.hash)

    def digest(self) -> "_Hash":
        """A new digest for the bytes of the file; git's hash begins with the object type and the size."""
        if self.hash.startswith("sha256:"):
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.bytes, usedforsecurity=False)

    def matches(self, digest: "_Hash") -> bool:
        """Whether the bytes that were added to `digest` are those of the file."""
        return digest.hexdigest() == self.hash.partition(":")[2]


@dataclass(frozen=True)
class Repository:
    """A repository at one commit. `architecture` is that of its GGUF files, if the hub knows it.

    `unsafe` are the names of files that are left out of `files` because `is_safe` refuses them.
    """

    name: str
    commit: str
    files: tuple[RemoteFile, ...]
    architecture: str | None = None
    unsafe: tuple[str, ...] = ()


def parse_listing(body: bytes, requested: str) -> Repository:
    """Parse the JSON that a hub returns for the repository `requested`, without trusting it.

    Files with damaged entries are left out, and files whose names are not safe (`Repository.unsafe`). Raises
    EdgeLLMError if the JSON does not describe a repository.
    """
    try:
        about = json.loads(body)
    except (ValueError, RecursionError):
        about = None
    name, commit = _get(about, "id"), _get(about, "sha")
    if not isinstance(name, str) or not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise EdgeLLMError(f"the hub's answer about {printable(requested)} names no repository and commit; try again")
    if not is_repository(name):
        raise EdgeLLMError(f"{printable(requested)} is {printable(name)} on the hub, {NO_REPOSITORY}; choose another")
    siblings = _get(about, "siblings")
    read = map(_read_file, siblings if isinstance(siblings, list) else ())
    files = {file.name: file for file in read if file}
    safe = {name: is_safe(name) for name in files}
    architecture = _get(_get(about, "gguf"), "architecture")
    known = architecture if isinstance(architecture, str) else None
    unsafe = tuple(name for name in files if not safe[name])
    return Repository(name, commit, tuple(file for file in files.values() if safe[file.name]), known, unsafe)


def is_safe(name: str) -> bool:
    """Whether the path of a file, with `/` between folders, is safe as an argument of any command in any shell."""
    return is_safe_path(name) and all(map(_SAFE.fullmatch, name.split("/")))


def unsafe_names_problem(names: Iterable[str]) -> str:
    """Why files with these unsafe names are left out; empty if there are none."""
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
    """The value of a key of a JSON object; None if it has no such key, or is no object."""
    return value.get(key) if isinstance(value, dict) else None
