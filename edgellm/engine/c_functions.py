"""Functions of the system, by address, for kernels that wait; and kernels as functions for Python."""

import ctypes
import platform
import sys
import time
from collections.abc import Callable
from functools import partial

_Integer = ctypes.c_int64
_FUTEX = {"x86_64": 202, "aarch64": 98}


def yield_and_futex() -> tuple[int, int, int]:
    """The addresses of `sched_yield` and, on Linux, of `syscall`, and the number of futex; else 0 and 0."""
    if sys.platform == "win32":
        return _address(ctypes.WinDLL("kernel32").SwitchToThread), 0, 0
    libc = ctypes.CDLL(None)
    number = _FUTEX.get(platform.machine(), 0) if sys.platform == "linux" else 0
    return _address(libc.sched_yield), _address(libc.syscall) if number else 0, number


def clock_function() -> tuple[int, int]:
    """The address of `clock_gettime` and the id of its clock; on Windows of a function of milliseconds, and -1."""
    if sys.platform == "win32":
        return _address(ctypes.WinDLL("kernel32").GetTickCount64), -1
    return _address(ctypes.CDLL(None).clock_gettime), time.CLOCK_MONOTONIC


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def kernel_function(address: int, arguments: int) -> Callable[..., int]:
    """A kernel as a function of `arguments` integers."""
    # Numba's own calling convention: pointers to the result and to an error come first. All threads may share the
    # result, as nothing reads it.
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[_Integer] * arguments)(address)
    result = _Integer()
    return partial(function, ctypes.byref(result), None)
