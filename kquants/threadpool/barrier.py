"""How threads wait for each other: they spin, then yield to other programs, then block; and the clock.

A thread that waits for a word of the control block (see `kquants.threadpool.jobs`) to change yields after some 5 µs, as
another program may need the core, and blocks after some 30 µs more, which is longer than the threads of an undisturbed
op differ: then the missing thread needs this core more than we do. Where there is no futex it begins anew.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kquants.compiler.decorators import inline
from kquants.layout import (
    ARRIVALS,
    CLOCK,
    CLOCK_ID,
    FUTEX,
    FUTEX_NUMBER,
    GENERATION,
    GIVE_WAY,
    JOB,
    JOB_NUMBER,
    NOW,
    NOW_NS,
    STOP,
    STOPPED,
    WAITERS,
)
from kquants.simd import atomic_add, atomic_load, atomic_store, load_i64

_SPINS = 400
"""Pauses before a waiting thread yields."""
_YIELDS = 60
"""Yields before it blocks."""

_WAIT, _WAKE = 128, 129
"""FUTEX_WAIT_PRIVATE and FUTEX_WAKE_PRIVATE."""

_LONG = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def _call_system(context: Any, address: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Call a C function that takes up to five integers: libc's variadic `syscall`, or a plain one."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = ir.FunctionType(_LONG, [_LONG], var_arg=True)
        builder.call(builder.inttoptr(values[0], function.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.none(*[types.int64] * 6), generate


@intrinsic  # type: ignore[untyped-decorator]
def _call_clock(context: Any, address: Any, which: Any, place: Any) -> Any:
    """Call clock_gettime, or a function that needs no arguments; what it returns. (Apple's Arm passes variadic
    arguments elsewhere, so that this cannot be `_call_system`.)"""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = ir.FunctionType(_LONG, [_LONG, _LONG])
        return builder.call(builder.inttoptr(values[0], function.as_pointer()), values[1:])

    return types.int64(*[types.int64] * 3), generate


@intrinsic  # type: ignore[untyped-decorator]
def _pause(context: Any) -> Any:
    """Tell the CPU that this is a spin loop; where there is no such instruction, do nothing."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        triple = builder.module.triple
        assembly = "pause" if "86" in triple else "yield" if "aarch64" in triple or "arm64" in triple else ""
        builder.asm(ir.FunctionType(ir.VoidType(), []), assembly, "", [], side_effect=True)
        return context.get_dummy_value()

    return types.none(), generate


@inline
def changes(control: int, word: int, value: int, yields: int) -> bool:
    """Spin, then yield, while a word of the control block has this value; whether that ended before the yields did."""
    tries = 0
    while atomic_load(control + word) == value:
        tries += 1
        if tries < _SPINS:
            _pause()
        elif tries < _SPINS + yields:
            _call_system(load_i64(control + GIVE_WAY), 0, 0, 0, 0, 0)
        else:
            return False
    return True


@inline
def meet(control: int) -> bool:
    """Wait until all threads of the job are here; the last one decides for all whether to stop."""
    generation, job = atomic_load(control + GENERATION), load_i64(control + JOB)
    team = job % JOB_NUMBER
    if atomic_add(control + ARRIVALS, 1) == team - 1:
        atomic_store(control + ARRIVALS, 0)
        atomic_store(control + STOPPED, atomic_load(control + STOP))
        atomic_add(control + GENERATION, 1)
        if atomic_load(control + WAITERS) != 0:
            _futex(control, _WAKE, team)
    else:
        while not changes(control, GENERATION, generation, _YIELDS):
            if load_i64(control + FUTEX) != 0:
                atomic_add(control + WAITERS, 1)
                _futex(control, _WAIT, generation & 0xFFFFFFFF)  # sleeps only if the (low) word still holds that
                atomic_add(control + WAITERS, -1)
    # Where the job was stopped, those who come late to know it may find what another job without them wrote since.
    return atomic_load(control + STOPPED) != 0 or atomic_load(control + JOB) != job


@inline
def _futex(control: int, operation: int, value: int) -> None:
    address, number = load_i64(control + FUTEX), load_i64(control + FUTEX_NUMBER)
    _call_system(address, number, control + GENERATION, operation, value, 0)


@inline
def milliseconds(control: int) -> int:
    """What the clock of the control block shows; only thread 0 may look."""
    shown = _call_clock(load_i64(control + CLOCK), load_i64(control + CLOCK_ID), control + NOW)
    if load_i64(control + CLOCK_ID) < 0:  # one that returns them
        return shown
    return load_i64(control + NOW) * 1000 + load_i64(control + NOW_NS) // 1_000_000


@inline
def is_past(control: int, until: int) -> bool:
    """Whether the clock shows this many milliseconds, or more; never if they are 0."""
    return until != 0 and milliseconds(control) >= until
