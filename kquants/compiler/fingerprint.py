"""Fingerprints: hashes in the file names of cached kernels, so that a kernel that is out of date is not found.

The fingerprint of a kernel covers

    the CPU        its name and its features
    the compilers  the versions of llvmlite, Python and Numba
    the code       of all modules in the import closure of the module that registers the kernel

`kquants.compiler.kernel_names` says which module registers a kernel, `kquants.compiler.closure` what a closure is and
what counts as a module's code. A changed comment or docstring changes no fingerprint; a changed module changes those of
the kernels that are made of it.

Finding the closures means parsing all sources, which takes 0.15 to 0.4 s. The cache therefore holds an index of them: a
digest for each module that registers kernels. The index's file name has a hash of every byte of the sources. At a
start, a process hashes the sources and reads the index; it parses nothing. An index that is missing or damaged is made
again. Where the index cannot be written, every process makes its own.

Sizes and modification times of the sources would be quicker to read than their content, but they are not enough:
package builders give all files of a wheel one fixed time, so an upgrade that changes a digit changes neither.
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
from kquants.compiler.cache import KernelCache
from kquants.compiler.errors import SourcesChangedError
from kquants.compiler.kernel_names import COMPILER, KERNELS_BY_MODULE, MODULE_BY_KERNEL

_PACKAGE = Path(__file__).parents[1]


@cache
def fingerprint() -> str:
    """Hash of every byte of the sources of `kquants`, of the compilers' versions and of the CPU."""
    return _of_sources(_sources())


def kernel_fingerprint(name: str, cache: KernelCache | None) -> str:
    """Hash of all that a kernel's object code depends on. The index is read from and written to `cache`, if given.

    Raises KeyError for a name that no kernel has, and SourcesChangedError.
    """
    closure = _closures(cache)[MODULE_BY_KERNEL[name]]
    return hashlib.sha256(f"{_environment()}\0{closure}".encode()).hexdigest()[:20]


_CLOSURES: dict[str, str] = {}
"""Digest of the closure of each module that registers kernels; empty until the first use."""


def _closures(cache: KernelCache | None) -> dict[str, str]:
    if not _CLOSURES:
        _CLOSURES.update(_read_index(cache) or _build_index(cache))
    return _CLOSURES


def _index_name() -> str:
    return f"closures-{fingerprint()}.index"


def _read_index(cache: KernelCache | None) -> dict[str, str]:
    """The digests in the index; none if it is missing or damaged."""
    lines = ((cache and cache.read(_index_name())) or b"").decode().splitlines()
    return dict(line.split(" ") for line in lines)


def _build_index(cache: KernelCache | None) -> dict[str, str]:
    """Find the closures, and write the index."""
    from kquants.compiler.closure import closures  # imports `ast`, which most starts do not need

    sources = dict(_sources())
    if _of_sources(sources.items()) != fingerprint():
        raise SourcesChangedError
    found = {
        module: hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in closure.items()).encode()).hexdigest()
        for module, closure in closures(sources, [COMPILER, *KERNELS_BY_MODULE]).items()
    }
    if cache:
        with suppress(OSError):
            cache.write(_index_name(), "".join(f"{module} {digest}\n" for module, digest in found.items()).encode())
    return found


def _sources() -> Iterator[tuple[str, bytes]]:
    """Path from the package on, and content, of each source file, in one order on all systems."""
    # Path.rglob and Path.read_bytes would take twice as long, at every start.
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
    """Hash of the CPU and the versions of the compilers, found once for this process."""
    parts = [host.cpu_name(), host.cpu_features(), llvmlite.__version__, sys.version, _numba_version()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _numba_version() -> str:
    # Numba is looked for beside llvmlite, which is imported already: a search of sys.path may find another `numba` in
    # the current folder. importlib.metadata takes 0.02 s of a start, so it is asked only if Numba is not there.
    version_file = Path(llvmlite.__file__).parents[1] / "numba" / "_version.py"
    if version_file.is_file():
        return version_file.read_text(encoding="utf-8")
    from importlib.metadata import version

    return version("numba")
