"""Tiles of Intel's AMX: the dot products of 16 rows of x and 16 rows of W in one instruction, for prefill.

A tile register has 16 rows of 64 bytes. The operands are rows of x, at most 64 columns of each, and rows of W in the
order of `BLOCK_WEIGHTS`; dot products are int32, a row of x in each row, a row of W in each column. So

    dots[t][i] += Σ x[t][k] · w[i][k]        over the columns k

`kquants.matmul.amx_blocks` scales these block by block, `kquants.matmul.amx_super_blocks` super-block by
super-block: the same expressions as everywhere, and the same bits.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
"""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.formats.packed_bytes import Value
from kquants.simd import call, define, pointer

X, W, DOTS = 0, 1, (2, 3, 4)
"""Tile registers: rows of x, rows of W, dot products.

A CPU renames them, so that the next load need not wait for a product. While the other thread of its core is busy, it
has few registers for that, and a program that names more of them is slower. (Measured on Emerald Rapids: with two of x,
two of W and four of dot products, block by block, Q4_K at 0.8 of the speed, Q8_0 at 0.75; as fast while the other
thread rests.)
"""

X_ROWS = 16
"""Rows of x that are multiplied together."""

DOT_BYTES = X_ROWS * 64
"""Bytes of a register's dot products."""

_BYTE, _LONG = ir.IntType(8), ir.IntType(64)

_PALETTE, _ROW_BYTES, _ROW_COUNTS = 0, 16, 48
"""Where things lie in the 64 bytes of a tile configuration: a palette number, 16 × uint16, 16 × uint8."""


def configure(columns: int) -> Any:
    """An operation: set up this thread's tile registers for `columns` bytes of a row of x, by 64 bytes of scratch."""
    shapes = {X: (columns, X_ROWS), W: (64, columns // 4)} | dict.fromkeys(DOTS, (64, X_ROWS))
    configuration = bytearray(64)
    configuration[_PALETTE] = 1
    for register, (row_bytes, count) in shapes.items():
        configuration[_ROW_BYTES + 2 * register] = row_bytes
        configuration[_ROW_COUNTS + register] = count

    @define(types.none, types.int64)
    def set_up(b: ir.IRBuilder, address: Value) -> None:
        values = ir.Constant(ir.VectorType(_BYTE, 64), list(configuration))
        b.store(values, pointer(b, address, values.type), align=1)
        _tile(b, "ldtilecfg", pointer(b, address, _BYTE))

    return set_up


@define(types.none)
def release(b: ir.IRBuilder) -> None:
    """Let go of the tile registers: the system then has less to save of this thread."""
    _tile(b, "tilerelease")


def load_rows(b: ir.IRBuilder, register: int, address: Value, stride: int = 64) -> None:
    """Load rows that lie `stride` bytes apart."""
    _tile(b, "tileloadd64", _BYTE(register), pointer(b, address, _BYTE), _LONG(stride))


def clear_dots(b: ir.IRBuilder, register: int) -> None:
    """Dot products begin at 0."""
    _tile(b, "tilezero", _BYTE(register))


def add_dots(b: ir.IRBuilder, register: int, *, x_signed: bool, w_signed: bool) -> None:
    """Add the dot products of X and W."""
    signs = "".join("s" if signed else "u" for signed in (x_signed, w_signed))
    _tile(b, f"tdpb{signs}d", _BYTE(register), _BYTE(X), _BYTE(W))


def store_dots(b: ir.IRBuilder, register: int, address: Value) -> None:
    """Store dot products: DOT_BYTES, aligned."""
    _tile(b, "tilestored64", _BYTE(register), pointer(b, address, _BYTE), _LONG(64))


def _tile(b: ir.IRBuilder, name: str, *values: Value) -> None:
    call(b, f"llvm.x86.{name}", ir.VoidType(), *values)
