"""Compiled kernels: made once per machine in child processes, kept as object code, loaded in milliseconds.

A kernel is a Python function over addresses and integers that Numba compiles to one C function. Its object
code is kept in a cache folder, under a name that holds a hash of everything it came from (`kquants.compiler.fingerprint`);
loading it needs LLVM's linker alone, so a process that finds its kernels there never imports numba.

`kquants.compiler.compilers` compiles those that are missing.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from kquants.compiler.cache import Folder, opened
from kquants.compiler.errors import CHANGED_MESSAGE
from kquants.compiler.errors import KernelError as KernelError
from kquants.compiler.errors import SourcesChangedError as SourcesChangedError
from kquants.compiler.fingerprint import fingerprint as fingerprint
from kquants.compiler.fingerprint import kernel_fingerprint
from kquants.compiler.host import target_machine as target_machine
from kquants.compiler.kernel_names import MODULES

Progress = Callable[[int, int], None]
"""Called with (kernels made, kernels to make) now and then while this process, or one that it waits for, compiles.

It may raise, which ends that.
"""


def load(names: Iterable[str], folder: Path, progress: Progress | None = None) -> dict[str, int]:
    """Addresses of the named kernels of `kquants.compiler.kernels`, compiled first where the cache lacks them.

    `folder` is created with mode 0700 if it is missing. One process at a time compiles for it; others wait, and load
    what that one made. Where nothing can be kept there, what is compiled serves this process alone, with a warning;
    where others may write to it or it is theirs (but for the superuser's), nothing is loaded from it, either. Raises
    KernelError, also for a name that no kernel has, and where our sources have changed since this process began.
    """
    names = list(names)
    if unknown := set(names) - MODULES.keys() - _ADDRESSES.keys():
        raise KernelError(f"there is no kernel {min(unknown)}")
    try:
        _load(names, folder, progress or (lambda done, total: None))
    except SourcesChangedError:
        raise KernelError(CHANGED_MESSAGE) from None
    return {name: _ADDRESSES[name] for name in names}


def _load(names: Sequence[str], path: Path, progress: Progress) -> None:
    wanted = sorted(set(names) - _ADDRESSES.keys())
    if not wanted:
        return
    with opened(path) as folder:
        missing = _load_kept(folder, wanted)
        if missing and not _make(missing, folder, progress):
            warnings.warn(
                f"compiled kernels cannot be kept in {path}, so every start compiles them anew; "
                "make room or check its permissions, or choose another folder with EDGELLM_CACHE",
                RuntimeWarning,
                stacklevel=4,
            )


_ADDRESSES: dict[str, int] = {}


def _load_kept(folder: Folder | None, names: Sequence[str]) -> list[str]:
    """Load those that the folder has; which it has not."""
    missing = []
    for name in names:
        # Damaged code, linked, would end the process.
        if folder and (code := folder.read(file_name(name, folder))) is not None:
            _ADDRESSES[name] = _link(code, name)
        else:
            missing.append(name)
    return missing


def _make(names: Sequence[str], folder: Folder | None, progress: Progress) -> bool:
    """Compile and load kernels; False if they could not be kept."""
    # Here, as they bring threads and processes, which take longer than to load what is kept.
    from kquants.compiler.compilers import compile_missing
    from kquants.compiler.turn import turn

    making = _Making(names, folder if folder and folder.is_writable() else None, progress)
    with turn(making.folder, making.look):
        if making.look():
            compile_missing(making.missing, making.keep, making.tell)
            if making.folder:
                making.folder.remove_unused()
    return making.folder is not None


class _Making:
    """Kernels that are being made, by this process or another; `folder` is None once they cannot be kept."""

    def __init__(self, names: Sequence[str], folder: Folder | None, progress: Progress) -> None:
        self.missing, self.folder, self._progress, self._total = list(names), folder, progress, len(names)

    def look(self) -> list[str]:
        """Load what another process has made meanwhile; what is missing still."""
        self.missing = _load_kept(self.folder, self.missing)
        self.tell(0)
        return self.missing

    def keep(self, name: str, code: bytes) -> None:
        """Load a kernel that was compiled, and keep it."""
        _ADDRESSES[name] = _link(code, name)
        if self.folder:
            try:
                self.folder.write(file_name(name, self.folder), code)
            except OSError:
                self.folder = None

    def tell(self, compiled: int) -> None:
        """Tell how many are made, with so many of those that were missing."""
        self._progress(self._total - len(self.missing) + compiled, self._total)


def file_name(name: str, folder: Folder | None) -> str:
    """The name of the file that keeps a kernel's object code."""
    return f"{name}-{kernel_fingerprint(name, folder)}.o"


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
