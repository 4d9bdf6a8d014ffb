"""Asks the system to read the weights of the chosen experts from the disk, before they are multiplied."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kquants.compiler.decorators import inline, kernel
from kquants.records import MatmulGroup, ReadAheadOp
from kquants.threadpool.interpreter import arguments_of, record_at

_given, _group_of = arguments_of(ReadAheadOp), record_at(MatmulGroup)

_PAGE = 4096
"""Addresses are rounded down to multiples of it. Where pages are larger, the system refuses addresses within one, and
reads those weights when they are used."""

_WILL_NEED = 3
"""MADV_WILLNEED of Linux and macOS: start to read, and do not wait."""


@intrinsic  # type: ignore[untyped-decorator]
def _call_madvise(context: Any, function: Any, address: Any, nbytes: Any, advice: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        integer, word = ir.IntType(32), ir.IntType(64)
        kind = ir.FunctionType(integer, [word, word, integer])
        arguments = [values[1], values[2], builder.trunc(values[3], integer)]
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), arguments)
        return context.get_dummy_value()

    return types.none(*[types.int64] * 4), generate


@inline
def _matrix_address(op: int, group: int) -> int:
    """Where the matrix of a group begins."""
    given = _given(op)
    return given.w + _group_of(given.groups + 8 + 16 * group).matrix * given.matrix_bytes


@kernel("read_ahead")
def read_ahead(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: ReadAheadOp; a unit is a group."""
    given = _given(op)
    for group in range(first, last):
        address = _matrix_address(op, group)
        start = address & -_PAGE
        _call_madvise(given.madvise, start, address + given.matrix_bytes - start, _WILL_NEED)
