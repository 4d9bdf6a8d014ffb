"""The barrier between ops. Waiting threads spin, then yield to other programs, then sleep.

A waiting thread yields after about 5 µs, as another program may need the core. It sleeps after about 30 µs more: the
threads of an undisturbed op differ by less, so then the missing thread needs this core. Without a futex, threads never
sleep: they spin and yield over and over.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kquants.compiler.decorators import inline
from kquants.simd import atomic_add, atomic_load, atomic_store, load_i64
from kquants.threadpool.control_block import (
    ARRIVED,
    FUTEX_NUMBER,
    GENERATION,
    JOB,
    MAX_JOB_THREADS,
    STOP,
    STOPPED,
    SYSCALL,
    WAITERS,
    YIELD,
)

_SPINS = 400
"""Pauses before a waiting thread yields."""

_YIELDS = 60
"""Yields before it sleeps."""

_WAIT, _WAKE = 128, 129
"""FUTEX_WAIT_PRIVATE and FUTEX_WAKE_PRIVATE."""

_LONG = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def _call_variadic(context: Any, address: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Call a C function of up to five integers: libc's variadic `syscall`, or a plain one."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = ir.FunctionType(_LONG, [_LONG], var_arg=True)
        builder.call(builder.inttoptr(values[0], function.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.none(*[types.int64] * 6), generate


@intrinsic  # type: ignore[untyped-decorator]
def _pause(context: Any) -> Any:
    """The CPU's hint for spin loops, on CPUs that have one."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        triple = builder.module.triple
        assembly = "pause" if "86" in triple else "yield" if "aarch64" in triple or "arm64" in triple else ""
        builder.asm(ir.FunctionType(ir.VoidType(), []), assembly, "", [], side_effect=True)
        return context.get_dummy_value()

    return types.none(), generate


@inline
def wait_for_change(control: int, word: int, value: int, yields: int) -> bool:
    """Spin, then yield up to `yields` times, while a word of the control block holds `value`.

    Returns whether the word has changed.
    """
    tries = 0
    while atomic_load(control + word) == value:
        tries += 1
        if tries < _SPINS:
            _pause()
        elif tries < _SPINS + yields:
            _call_variadic(load_i64(control + YIELD), 0, 0, 0, 0, 0)
        else:
            return False
    return True


@inline
def wait_at_barrier(control: int) -> bool:
    """Wait until all threads of the job have arrived. Returns whether the job was stopped: the last thread to arrive
    decides that for all."""
    generation, job = atomic_load(control + GENERATION), load_i64(control + JOB)
    threads = job % MAX_JOB_THREADS
    if atomic_add(control + ARRIVED, 1) == threads - 1:
        atomic_store(control + ARRIVED, 0)
        atomic_store(control + STOPPED, atomic_load(control + STOP))
        atomic_add(control + GENERATION, 1)
        if atomic_load(control + WAITERS) != 0:
            _futex(control, _WAKE, threads)
    else:
        while not wait_for_change(control, GENERATION, generation, _YIELDS):
            if load_i64(control + SYSCALL) != 0:
                atomic_add(control + WAITERS, 1)
                _futex(control, _WAIT, generation & 0xFFFFFFFF)  # sleeps only if the (low) word still holds that
                atomic_add(control + WAITERS, -1)
    # A thread that leaves the barrier of a stopped job late may find STOPPED rewritten by the next job, which runs
    # without it: hence the look at the job word.
    return atomic_load(control + STOPPED) != 0 or atomic_load(control + JOB) != job


@inline
def _futex(control: int, operation: int, value: int) -> None:
    address, number = load_i64(control + SYSCALL), load_i64(control + FUTEX_NUMBER)
    _call_variadic(address, number, control + GENERATION, operation, value, 0)
