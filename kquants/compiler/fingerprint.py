"""Fingerprints: hashes in the file names of compiled kernels, by which a kernel that is out of date is not found.

The fingerprint of a kernel covers

    the CPU        its name and its features
    the compilers  the versions of llvmlite, Python and Numba
    the code       of all modules in the import closure of the module that registers the kernel

`kquants.compiler.kernel_names` tells which module registers a kernel; `kquants.compiler.closure` tells what a closure is, and what of a
module counts as its code. A changed comment or docstring leaves all fingerprints as they are. A changed module changes
the fingerprints of the kernels that are made of it.

Finding the closures means to parse all sources, which takes 0.15 to 0.4 s. So the cache folder keeps an index of them:
a digest for each module that registers kernels. The name of the index holds a hash of every byte of the sources. A
start hashes the sources, reads the index, and parses nothing. An index that is missing or damaged is made again. Where
the index cannot be written, every process makes its own.

The size and the modification time of a file would be quicker to read than its content. They are not enough: package
builders give all files of a wheel one fixed time, so an upgrade that changes a digit would change neither.
"""

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import llvmlite

from kquants.compiler import host
from kquants.compiler.cache import Folder
from kquants.compiler.errors import SourcesChangedError
from kquants.compiler.kernel_names import COMPILER, MODULES, REGISTERED

_PACKAGE = Path(__file__).parents[1]


@cache
def fingerprint() -> str:
    """Hash of every byte of our sources, the compilers and the CPU: more than any one kernel depends on."""
    return _of_sources(_sources())


def kernel_fingerprint(name: str, folder: Folder | None) -> str:
    """Hash of what a kernel's object code depends on. `folder`, if there is one, keeps the index.

    Raises KeyError for a name that no kernel has, and SourcesChangedError.
    """
    closure = _closures(folder)[MODULES[name]]
    return hashlib.sha256(f"{_environment()}\0{closure}".encode()).hexdigest()[:20]


_CLOSURES: dict[str, str] = {}
"""Closures that this process knows already: a digest by the name of the module that registers kernels."""


def _closures(folder: Folder | None) -> dict[str, str]:
    if not _CLOSURES:
        _CLOSURES.update(_kept_closures(folder) or _new_closures(folder))
    return _CLOSURES


def _index() -> str:
    return f"closures-{fingerprint()}.index"


def _kept_closures(folder: Folder | None) -> dict[str, str]:
    """The digests in the index; none if it is missing or damaged."""
    lines = ((folder and folder.read(_index())) or b"").decode().splitlines()
    return dict(line.split(" ") for line in lines)


def _new_closures(folder: Folder | None) -> dict[str, str]:
    """Find the closures, and write the index."""
    from kquants.compiler.closure import closures  # brings `ast`, which a start does without

    sources = dict(_sources())
    if _of_sources(sources.items()) != fingerprint():
        raise SourcesChangedError
    found = {
        module: hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in closure.items()).encode()).hexdigest()
        for module, closure in closures(sources, [COMPILER, *REGISTERED]).items()
    }
    if folder:
        with suppress(OSError):
            folder.write(_index(), "".join(f"{module} {digest}\n" for module, digest in found.items()).encode())
    return found


def _sources() -> Iterator[tuple[str, bytes]]:
    """Path from the package on, and content, of each of our sources, in one order everywhere."""
    # Path.rglob and Path.read_bytes take twice as long, in every start.
    for folder, folders, names in os.walk(_PACKAGE):
        folders.sort()
        place = Path(folder).relative_to(_PACKAGE.parent).as_posix()
        for name in sorted(names):
            if name.endswith(".py"):
                with open(f"{folder}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
                    yield f"{place}/{name}", file.read()


def _of_sources(sources: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256(_environment().encode())
    for path, content in sources:
        digest.update(f"\0{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:20]


@cache
def _environment() -> str:
    """Hash of the CPU and the versions of the compilers, as they were when this process first asked."""
    parts = [host.cpu_name(), host.cpu_features(), llvmlite.__version__, sys.version, _numba_version()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _numba_version() -> str:
    # Beside llvmlite, which is imported already: a search may find some `numba` in the current folder. To ask
    # importlib.metadata takes 0.02 s of a start, so it is for what is installed in another way.
    told = Path(llvmlite.__file__).parents[1] / "numba" / "_version.py"
    if told.is_file():
        return told.read_text(encoding="utf-8")
    from importlib.metadata import version

    return version("numba")
