"""Decorators that mark kernels and their parts, and the registry of kernels."""

from collections.abc import Callable
from typing import Any

from numba import types

from kquants.compiler.target import Function

KERNELS: dict[str, tuple[Any, Any]] = {}
"""(Numba function, signature) by the name of each kernel that `kquants.jit` can load."""

Vector = Any
"""A value of one of the vector types of `kquants.simd`, for annotations."""

Decorated = Callable[[Callable[..., Any]], Any]


def inline(function: Callable[..., Any]) -> Any:
    """Mark a part of kernels: it is compiled into each kernel that calls it."""
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
