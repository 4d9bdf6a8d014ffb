"""Asks the system to read the weights of the chosen experts from the disk, before matmuls need them."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kquants.compiler.decorators import kernel
from kquants.records import ReadAheadOp
from kquants.threadpool.interpreter import arguments_of, group_of

_read_ahead_of = arguments_of(ReadAheadOp)

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


@kernel("read_ahead")
def read_ahead(op: int, batch: int, first: int, last: int, scratch: int) -> None:
    """Arguments: ReadAheadOp; a group a unit. Ranges begin at a page, as madvise requires."""
    given = _read_ahead_of(op)
    for group in range(first, last):
        matrix, _, _ = group_of(given.groups, group)
        address = given.w + matrix * given.matrix_bytes
        start = address & -given.page_bytes
        _call_madvise(given.madvise, start, address + given.matrix_bytes - start, _WILL_NEED)
