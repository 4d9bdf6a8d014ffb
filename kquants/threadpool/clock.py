"""The clock of the control block (see `kquants.threadpool.control_block`); only thread 0 reads it."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kquants.compiler.decorators import inline
from kquants.simd import load_i64
from kquants.threadpool.control_block import CLOCK, CLOCK_ID, CLOCK_NS, CLOCK_S

_LONG = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def _call_clock(context: Any, address: Any, clock_id: Any, time: Any) -> Any:
    """The result of `clock_gettime`, or of a function without arguments.

    Not by `_call_variadic` of `barrier`: Apple's Arm ABI passes variadic arguments in other places.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = ir.FunctionType(_LONG, [_LONG, _LONG])
        return builder.call(builder.inttoptr(values[0], function.as_pointer()), values[1:])

    return types.int64(*[types.int64] * 3), generate


@inline
def clock_ms(control: int) -> int:
    """Milliseconds that the clock shows."""
    result = _call_clock(load_i64(control + CLOCK), load_i64(control + CLOCK_ID), control + CLOCK_S)
    if load_i64(control + CLOCK_ID) < 0:  # a function that returns milliseconds
        return result
    return load_i64(control + CLOCK_S) * 1000 + load_i64(control + CLOCK_NS) // 1_000_000


@inline
def is_past(control: int, deadline: int) -> bool:
    """Whether the clock has reached the deadline, in milliseconds; a deadline of 0 never passes."""
    return deadline != 0 and clock_ms(control) >= deadline
