"""What marks the parts of kernels, and the list of kernels."""

from collections.abc import Callable
from typing import Any

from numba import types

from kquants.compiler.target import Function

KERNELS: dict[str, tuple[Any, Any]] = {}
"""Name to (Numba function, its signature), for every kernel that `kquants.jit` can load."""

Vector = Any
"""A value of one of the types of `kquants.simd`, as seen by a reader of annotations."""

Decorated = Callable[[Callable[..., Any]], Any]


def inline(function: Callable[..., Any]) -> Any:
    """A part of kernels: compiled into each kernel that calls it."""
    return Function(function)


def kernel(name: str, arguments: int = 5) -> Decorated:
    """Register a kernel over `arguments` int64 values under `name`.

    With the default five it is an op of a program, called as `kernel(op, batch, first, last, scratch)`: the
    address of its record, the address of the batch, the range of its units to work on, and this thread's own
    scratch memory. What the records hold is in `kquants.records`, what scratch holds in
    `kquants.threadpool.interpreter`.
    """

    def register(function: Callable[..., Any]) -> Any:
        compiled = Function(function)
        KERNELS[name] = compiled, types.void(*[types.int64] * arguments)
        return compiled

    return register
