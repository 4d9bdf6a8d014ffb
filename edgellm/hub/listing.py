"""What is in a repository of a hub."""

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgellm.errors import EdgeLLMError
from edgellm.gguf.printable import printable
from edgellm.hub.reference import is_repository
from edgellm.models.pulled import Entry, is_plain

if TYPE_CHECKING:
    from hashlib import _Hash

    from huggingface_hub.hf_api import ModelInfo, RepoSibling

_COMMIT = re.compile(r"[0-9a-f]{40}")
_HASH = re.compile(r"sha256:[0-9a-f]{64}|git:[0-9a-f]{40}")


@dataclass(frozen=True)
class RemoteFile:
    """A file in a repository. `hash` is `sha256:` and that of large files, or `git:` and git's own of small ones."""

    name: str
    bytes: int
    hash: str

    @property
    def entry(self) -> Entry:
        """What a record says of it."""
        return Entry(self.bytes, self.hash)

    def digest(self) -> "_Hash":
        """A digest to feed the file's bytes to; git's hash begins with the kind and the size."""
        if self.hash.startswith("sha256:"):
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.bytes, usedforsecurity=False)

    def is_made_by(self, digest: "_Hash") -> bool:
        """Whether the bytes that `digest` was fed are the file's."""
        return digest.hexdigest() == self.hash.partition(":")[2]


@dataclass(frozen=True)
class Repository:
    """A repository at one commit; `architecture` is what its GGUF files hold, if the hub knows."""

    name: str
    commit: str
    files: tuple[RemoteFile, ...]
    architecture: str | None = None


def read_listing(info: "ModelInfo", asked: str) -> Repository:
    """The answer of a hub, with nothing in it trusted; files whose names are no plain ones are left out.

    Raises EdgeLLMError where it is no answer to what was asked.
    """
    name, commit = info.id, info.sha
    if not isinstance(name, str) or not is_repository(name) or not _COMMIT.fullmatch(str(commit)):
        raise EdgeLLMError(f"the hub's answer about {printable(asked)} names no repository and commit; try again")
    found = (_read_file(sibling) for sibling in info.siblings or ())
    architecture = info.gguf.get("architecture") if isinstance(info.gguf, dict) else None
    known = architecture if isinstance(architecture, str) else None
    return Repository(name, str(commit), tuple(file for file in found if file), known)


def _read_file(sibling: "RepoSibling") -> RemoteFile | None:
    name, size = sibling.rfilename, sibling.size
    found = f"sha256:{sibling.lfs.sha256}" if sibling.lfs else f"git:{sibling.blob_id}"
    if sibling.lfs:
        size = sibling.lfs.size
    if not isinstance(name, str) or not is_plain(name) or type(size) is not int or size < 0:
        return None
    return RemoteFile(name, size, found) if _HASH.fullmatch(found) else None
