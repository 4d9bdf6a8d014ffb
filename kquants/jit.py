"""Compiled kernels: made once per machine in child processes, kept as object code, loaded in milliseconds.

A kernel is a Python function over addresses and integers that Numba compiles to one C function. Its object
code is kept in a cache folder, under a name that holds a hash of everything it came from (`kquants.fingerprint`);
loading it needs LLVM's linker alone, so a process that finds its kernels there never imports numba.

`kquants.compiler.compilers` compiles those that are missing.
"""

import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from kquants import kept
from kquants.compiler.host import target_machine as target_machine
from kquants.fingerprint import SourcesChangedError as SourcesChangedError
from kquants.fingerprint import fingerprint as fingerprint
from kquants.fingerprint import kernel_fingerprint
from kquants.names import MODULES

Progress = Callable[[int, int], None]
"""Called with (kernels compiled, kernels to compile) now and then while a first use compiles; may raise to end it."""


class KernelError(RuntimeError):
    """A kernel could not be compiled or loaded; the message holds the compiler's last line."""


class NotKeptError(KernelError):
    """A compiled kernel could not be written to its folder."""


NOT_KEPT, CHANGED = 3, 4
"""Exit codes of the compiler's process: for NotKeptError, and where its sources are not those of this process."""

CHANGED_MESSAGE = "the files of kquants have changed since this process began, as an upgrade does: start it again"

_SUPERUSER = 0
"""Who can write everywhere, and may have made the folder for all, as in the image of a container."""


def load(names: Iterable[str], folder: Path, progress: Progress | None = None) -> dict[str, int]:
    """Addresses of the named kernels of `kquants.kernels`, compiled first where the cache lacks them.

    `folder` is created with mode 0700 if it is missing. Where what is compiled cannot be kept there, a temporary one
    serves this process, with a warning; where others may write to it or it is theirs (but for the superuser's), nothing
    is loaded from it, either. Raises KernelError, also for a name that no kernel has, and where our sources have
    changed since this process began.
    """
    names = list(names)
    if unknown := set(names) - MODULES.keys() - _ADDRESSES.keys():
        raise KernelError(f"there is no kernel {min(unknown)}")
    try:
        return _load(names, folder, progress)
    except SourcesChangedError:
        raise KernelError(CHANGED_MESSAGE) from None


def _load(names: Sequence[str], folder: Path, progress: Progress | None) -> dict[str, int]:
    wanted = sorted(set(names) - _ADDRESSES.keys())
    trusted = bool(wanted) and _is_trusted(folder)
    missing = _load_kept(folder, wanted) if trusted else wanted
    if missing and not (trusted and _compile_and_keep(folder, missing, progress)):
        warnings.warn(
            f"compiled kernels cannot be kept in {folder}, so every start compiles them anew; "
            "make room or check its permissions, or choose another folder with EDGELLM_CACHE",
            RuntimeWarning,
            stacklevel=3,
        )
        with tempfile.TemporaryDirectory(prefix="edgellm-") as temporary:
            _compile(Path(temporary), missing, progress)
    return {name: _ADDRESSES[name] for name in names}


_ADDRESSES: dict[str, int] = {}


def _load_kept(folder: Path, names: Iterable[str]) -> list[str]:
    """Load those that the folder has; which it has not."""
    missing = []
    for name in names:
        if (code := kept.read(_path(folder, name))) is None:  # damaged code, linked, would end the process
            missing.append(name)
        else:
            _ADDRESSES[name] = _link(code, name)
    return missing


def _compile_and_keep(folder: Path, names: Sequence[str], progress: Progress | None) -> bool:
    """Compile into the folder and load; False if nothing can be kept there."""
    if not os.access(folder, os.W_OK):  # nobody should have to wait for a compiler to know that
        return False
    try:
        _compile(folder, names, progress)
    except NotKeptError:
        return False
    kept.remove_unused(folder)
    return True


def _compile(folder: Path, names: Sequence[str], progress: Progress | None) -> None:
    # Here, as it brings threads and processes, which take longer than to load what is kept.
    from kquants.compiler import compilers

    compilers.compile_missing(names, folder, progress or (lambda done, total: None))
    for name in _load_kept(folder, names):
        raise KernelError(f"{_path(folder, name)} is not what was just compiled (another version?): try again")


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}-{kernel_fingerprint(name, folder)}.o"


def store(folder: Path, name: str, code: bytes) -> None:
    """Keep a kernel's object code. Raises OSError."""
    kept.write(_path(folder, name), code)


def _is_trusted(folder: Path) -> bool:
    """Whether the folder is there, or can be made, and nobody else writes into it: what lies in it gets executed."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.name == "posix":
            status = folder.stat()
            return status.st_uid in (os.getuid(), _SUPERUSER) and not status.st_mode & 0o022
    except OSError:
        return False
    return True


_LINKERS: list[Any] = []


def _link(code: bytes, symbol: str) -> int:
    # A linker of its own for each kernel: one that gets objects after it was used loses the constants of the
    # later ones (LLVM's MCJIT). All are kept, whatever comes: they own the code, and one that goes takes the code
    # generator with it.
    module = llvm.parse_assembly("")
    module.triple = llvm.get_process_triple()
    linker = llvm.create_mcjit_compiler(module, target_machine())
    _LINKERS.append(linker)
    linker.add_object_file(llvm.ObjectFileRef.from_data(code))
    linker.finalize_object()
    address = int(linker.get_function_address(symbol))
    if not address:
        raise KernelError(f"the object code holds no function {symbol}")
    return address
