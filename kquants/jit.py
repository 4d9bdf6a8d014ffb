"""Compiled kernels: compiled once per machine in child processes, cached as object code, loaded in milliseconds.

A kernel is a Python function over addresses and integers that Numba compiles to one C function. Its object code lies in
a cache folder, under a name with a hash of all that it depends on (`kquants.compiler.fingerprint`). Loading it takes
LLVM's linker only, so a process that finds its kernels in the cache never imports Numba.

`kquants.compiler.compile_workers` compiles the kernels that the cache lacks.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from kquants.compiler.cache import KernelCache, open_cache
from kquants.compiler.errors import CHANGED_MESSAGE
from kquants.compiler.errors import KernelError as KernelError
from kquants.compiler.errors import SourcesChangedError as SourcesChangedError
from kquants.compiler.fingerprint import fingerprint as fingerprint
from kquants.compiler.fingerprint import kernel_fingerprint
from kquants.compiler.host import target_machine as target_machine
from kquants.compiler.kernel_names import MODULE_BY_KERNEL

Progress = Callable[[int, int], None]
"""Called with (kernels compiled, kernels to compile) every 0.2 s or sooner while this process compiles or waits for
another process that does. An error that it raises ends that."""


def load(names: Iterable[str], folder: Path, progress: Progress | None = None) -> dict[str, int]:
    """Addresses of the named kernels of `kquants.compiler.kernels`; those that the cache lacks are compiled first.

    The cache `folder` is created with mode 0700 if it is missing. One process at a time compiles for it; others wait
    and load the result. Where nothing can be written to the folder, compiled kernels serve this process only, with a
    warning. If other users may write to the folder, or one other than the superuser owns it, nothing is read from it.
    Raises KernelError, also for a name that no kernel has, and if our sources have changed since this process began.
    """
    names = list(names)
    if unknown := set(names) - MODULE_BY_KERNEL.keys() - _ADDRESSES.keys():
        raise KernelError(f"there is no kernel {min(unknown)}")
    try:
        _load(names, folder, progress or (lambda done, total: None))
    except SourcesChangedError:
        raise KernelError(CHANGED_MESSAGE) from None
    return {name: _ADDRESSES[name] for name in names}


def _load(names: Sequence[str], path: Path, progress: Progress) -> None:
    needed = sorted(set(names) - _ADDRESSES.keys())
    if not needed:
        return
    with open_cache(path) as cache:
        missing = _load_cached(cache, needed)
        if missing and not _compile(missing, cache, progress):
            warnings.warn(
                f"compiled kernels cannot be kept in {path}, so every start compiles them anew; "
                "make room or check its permissions, or choose another folder with EDGELLM_CACHE",
                RuntimeWarning,
                stacklevel=4,
            )


_ADDRESSES: dict[str, int] = {}


def _load_cached(cache: KernelCache | None, names: Sequence[str]) -> list[str]:
    """Load the kernels that the cache has; returns the names of the others."""
    missing = []
    for name in names:
        # `read` checks the code: linking damaged code would end the process.
        if cache and (code := cache.read(file_name(name, cache))) is not None:
            _ADDRESSES[name] = _link(code, name)
        else:
            missing.append(name)
    return missing


def _compile(names: Sequence[str], cache: KernelCache | None, progress: Progress) -> bool:
    """Compile and load kernels; False if they could not be written to the cache."""
    # Imported here: threads and subprocesses take longer to import than cached kernels to load.
    from kquants.compiler.compile_lock import compile_lock
    from kquants.compiler.compile_workers import compile_missing

    compilation = _Compilation(names, cache if cache and cache.is_writable() else None, progress)
    with compile_lock(compilation.cache, compilation.load_new):
        if compilation.load_new():
            compile_missing(compilation.missing, compilation.store, compilation.report)
            if compilation.cache:
                compilation.cache.evict_unused()
    return compilation.cache is not None


class _Compilation:
    """Kernels that this process or another one compiles. `cache` is None once a kernel could not be written to it."""

    def __init__(self, names: Sequence[str], cache: KernelCache | None, progress: Progress) -> None:
        self.missing, self.cache, self._progress, self._total = list(names), cache, progress, len(names)

    def load_new(self) -> list[str]:
        """Load the kernels that another process has compiled meanwhile; returns the names of those still missing."""
        self.missing = _load_cached(self.cache, self.missing)
        self.report(0)
        return self.missing

    def store(self, name: str, code: bytes) -> None:
        """Load a compiled kernel, and write it to the cache."""
        _ADDRESSES[name] = _link(code, name)
        if self.cache:
            try:
                self.cache.write(file_name(name, self.cache), code)
            except OSError:
                self.cache = None

    def report(self, compiled: int) -> None:
        """Report progress, with `compiled` of the missing kernels compiled."""
        self._progress(self._total - len(self.missing) + compiled, self._total)


def file_name(name: str, cache: KernelCache | None) -> str:
    """The name of the file that holds a kernel's object code."""
    return f"{name}-{kernel_fingerprint(name, cache)}.o"


_LINKERS: list[Any] = []


def _link(code: bytes, symbol: str) -> int:
    # Each kernel has a linker of its own: one that gets objects after it was used loses the constants of the later
    # objects (LLVM's MCJIT). All linkers are kept: they own the code, and one that is freed frees the code generator.
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
