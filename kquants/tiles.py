"""Operations on tiles: 16 rows of W by one block of 32 weights, and what meets them.

A block of a tile is eight vectors of two rows each; lane i of every sum belongs to row i of the tile:

    vector p of the eight    rows ROWS[p]: 32 bytes of the first, then 32 bytes of the second

`TOKENS` rows of x go through a tile together, as a tuple of vectors that stay in registers.
"""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.dot4 import dot4
from kquants.jit import cpu_features
from kquants.layout import MOST_TOKENS
from kquants.simd import F32, I8_64, I32, call, define, fold, pointer, splat

ROWS = ((0, 4), (1, 5), (2, 6), (3, 7), (8, 12), (9, 13), (10, 14), (11, 15))
"""The two rows of each vector: so chosen that summing by neighbours ends in natural order."""

_WIDE = "+avx512f" in cpu_features()
TOKENS = MOST_TOKENS if _WIDE else 2
"""Rows of x that share a pass over a tile: as many as the registers hold sums for."""

_BYTE, _INT, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_V32, _VF = I32.vector, F32.vector

Tile = Any
"""A block of a tile, as seen by a reader of annotations: eight vectors of unsigned bytes."""

_TILE = types.UniTuple(I8_64, 8)
Parts = types.UniTuple(I32, 8)
Halves = types.UniTuple(I32, 2)
IntSums = types.UniTuple(I32, TOKENS)
FloatSums = types.UniTuple(F32, TOKENS)


def _pack(b: ir.IRBuilder, values: list[Any]) -> Any:
    array: Any = ir.Constant(ir.ArrayType(values[0].type, len(values)), ir.Undefined)
    for i, value in enumerate(values):
        array = b.insert_value(array, value, i)
    return array


def _unpack(b: ir.IRBuilder, array: Any) -> list[Any]:
    return [b.extract_value(array, i) for i in range(array.type.count)]


def _shuffle(b: ir.IRBuilder, x: Any, y: Any, lanes: list[int]) -> Any:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(_INT, len(lanes)), lanes))


def _in_each_quarter(low: list[int], n: int = 16) -> list[int]:
    """A two-source mask that does the same in each 128 bits: entries 0-3 of the first, 4-7 of the second."""
    return [q + (i if i < 4 else n + i - 4) for q in range(0, n, 4) for i in low]


# --- loading rows --------------------------------------------------------------------------------------


@define(_TILE, types.int64, types.int64)
def load_rows(b: ir.IRBuilder, address: Any, stride: Any) -> Any:
    """32 bytes of each of the 16 rows `stride` bytes apart."""
    half = ir.VectorType(_BYTE, 32)

    def row(r: int) -> Any:
        return b.load(pointer(b, b.add(address, b.mul(stride, _LONG(r))), half), align=1)

    return _pack(b, [_shuffle(b, row(one), row(two), list(range(64))) for one, two in ROWS])


@define(I8_64, types.int64)
def load_twice(b: ir.IRBuilder, address: Any) -> Any:
    """32 bytes, once for each of the two rows."""
    v = b.load(pointer(b, address, ir.VectorType(_BYTE, 32)), align=1)
    return _shuffle(b, v, v, [*range(32), *range(32)])


def _gather(b: ir.IRBuilder, address: Any, stride: Any, element: Any) -> Any:
    v: Any = ir.Constant(ir.VectorType(element, 16), ir.Undefined)
    for r in range(16):
        x = b.load(pointer(b, b.add(address, b.mul(stride, _LONG(r))), element), align=1)
        v = b.insert_element(v, x, _INT(r))
    return v


@define(F32, types.int64, types.int64)
def gather_f16(b: ir.IRBuilder, address: Any, stride: Any) -> Any:
    """A float16 of each row."""
    return b.fpext(_gather(b, address, stride, ir.HalfType()), _VF)


@define(I32, types.int64, types.int64)
def gather_i32(b: ir.IRBuilder, address: Any, stride: Any) -> Any:
    """Four bytes of each row."""
    return _gather(b, address, stride, _INT)


# --- bytes of a block ----------------------------------------------------------------------------------


def _each(operation: Any) -> Any:
    return lambda b, block, *values: _pack(b, [operation(b, v, *values) for v in _unpack(b, block)])


def _mask(b: ir.IRBuilder, v: Any, bits: int) -> Any:
    return b.and_(v, ir.Constant(v.type, [bits] * v.type.count))


def _shift_right(b: ir.IRBuilder, v: Any, n: Any) -> Any:
    # By 32-bit lanes, for want of a byte shift on x86; the bits that stray from byte to byte get masked.
    return b.bitcast(b.lshr(b.bitcast(v, _V32), splat(b, n)), v.type)


def _shift_left(b: ir.IRBuilder, v: Any, n: Any) -> Any:
    return b.bitcast(b.shl(b.bitcast(v, _V32), splat(b, n)), v.type)


nibbles = define(_TILE, _TILE, types.int32)(_each(lambda b, v, n: _mask(b, _shift_right(b, v, n), 15)))
"""Bits n … n + 3 of each byte."""

high_pairs = define(_TILE, _TILE, types.int32)(
    _each(lambda b, v, n: _shift_left(b, _mask(b, _shift_right(b, v, n), 3), _INT(4)))
)
"""Bits n and n + 1 of each byte, as bits 4 and 5."""

flip_signs = define(_TILE, _TILE)(_each(lambda b, v: b.xor(v, ir.Constant(v.type, [128] * 64))))
"""Signed bytes plus 128, as unsigned ones."""


@define(_TILE, _TILE, _TILE)
def merge(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    """The bits of both."""
    return _pack(b, [b.or_(p, q) for p, q in zip(_unpack(b, x), _unpack(b, y), strict=True)])


# --- int32 lanes ---------------------------------------------------------------------------------------


@define(I32, I32, types.int64)
def and_i32(b: ir.IRBuilder, x: Any, bits: Any) -> Any:
    """Lanes and the same bits."""
    return b.and_(x, splat(b, b.trunc(bits, _INT)))


or_i32 = define(I32, I32, I32)(lambda b, x, y: b.or_(x, y))
shift_left_i32 = define(I32, I32, types.int32)(lambda b, x, n: b.shl(x, splat(b, n)))
shift_right_i32 = define(I32, I32, types.int32)(lambda b, x, n: b.lshr(x, splat(b, n)))
shift_signed_i32 = define(I32, I32, types.int32)(lambda b, x, n: b.ashr(x, splat(b, n)))
add_splat_i32 = define(I32, I32, types.int32)(lambda b, x, n: b.add(x, splat(b, n)))
to_f32 = define(F32, I32)(lambda b, x: b.sitofp(x, _VF))


# --- decode: sums across the lanes of a row ------------------------------------------------------------


@define(Parts, _TILE, I8_64)
def dot_rows(b: ir.IRBuilder, block: Any, x: Any) -> Any:
    """Products of 16 rows of unsigned weights with the 32 signed values that `load_twice` gave, in 8 lanes a row."""
    return _pack(b, [dot4(b, ir.Constant(_V32, None), w, x) for w in _unpack(b, block)])


def _quarters(b: ir.IRBuilder, parts: Any) -> tuple[Any, Any]:
    """Sums of 16 weights each: per vector (first half, second half of row a, the same of row b) × 4 rows."""

    def neighbours(x: Any, y: Any) -> Any:
        even = _shuffle(b, x, y, _in_each_quarter([0, 2, 4, 6]))
        return b.add(even, _shuffle(b, x, y, _in_each_quarter([1, 3, 5, 7])))

    v = _unpack(b, parts)
    pairs = [neighbours(v[i], v[i + 1]) for i in range(0, 8, 2)]
    return neighbours(pairs[0], pairs[1]), neighbours(pairs[2], pairs[3])


_FIRST = [*range(4), *range(8, 12), *range(16, 20), *range(24, 28)]
_SECOND = [i + 4 for i in _FIRST]


@define(I32, Parts)
def sum_rows(b: ir.IRBuilder, parts: Any) -> Any:
    """The sum of each row: lane i belongs to row i."""
    x, y = _quarters(b, parts)
    return b.add(_shuffle(b, x, y, _FIRST), _shuffle(b, x, y, _SECOND))


@define(Halves, Parts)
def sum_halves(b: ir.IRBuilder, parts: Any) -> Any:
    """The sums of each row over its first 16 weights, and over its second 16."""
    x, y = _quarters(b, parts)
    return _pack(b, [_shuffle(b, x, y, _FIRST), _shuffle(b, x, y, _SECOND)])


# --- prefill: rows across lanes ------------------------------------------------------------------------


@define(types.none, _TILE, types.int64)
def store_interleaved(b: ir.IRBuilder, block: Any, address: Any) -> None:
    """Eight vectors of 64 bytes: vector k holds weights 4k … 4k + 3 of row i in lane i."""
    v = [b.bitcast(x, _V32) for x in _unpack(b, block)]

    def columns(group: list[Any]) -> list[Any]:
        low = [_shuffle(b, x, y, _in_each_quarter([0, 4, 1, 5])) for x, y in (group[:2], group[2:])]
        high = [_shuffle(b, x, y, _in_each_quarter([2, 6, 3, 7])) for x, y in (group[:2], group[2:])]
        take = (_in_each_quarter([0, 1, 4, 5]), _in_each_quarter([2, 3, 6, 7]))
        return [_shuffle(b, x, y, mask) for x, y in (low, high) for mask in take]

    first, second = columns(v[:4]), columns(v[4:])
    for j in range(4):
        for k, lanes in ((j, _FIRST), (4 + j, _SECOND)):
            at = pointer(b, b.add(address, _LONG(64 * k)), _V32)
            b.store(_shuffle(b, first[j], second[j], lanes), at, align=1)


@define(I8_64, types.int64)
def load_i8x64(b: ir.IRBuilder, address: Any) -> Any:
    """Load 64 bytes."""
    return b.load(pointer(b, address, I8_64.vector), align=1)


def _tokens(b: ir.IRBuilder, address: Any, stride: Any, element: Any) -> list[Any]:
    """The element at an address, and `stride` bytes on, for each of TOKENS rows, in all lanes."""
    at = [b.add(address, b.mul(stride, _LONG(t))) for t in range(TOKENS)]
    return [splat(b, b.load(pointer(b, a, element), align=1)) for a in at]


zero_sums = define(FloatSums)(lambda b: ir.Constant(ir.ArrayType(_VF, TOKENS), None))


@define(IntSums, types.int64, types.int64, types.int32)
def start_sums(b: ir.IRBuilder, address: Any, stride: Any, shift: Any) -> Any:
    """The int32 at an address for each token, shifted left, in all lanes."""
    return _pack(b, [b.shl(x, splat(b, shift)) for x in _tokens(b, address, stride, _INT)])


@define(IntSums)
def no_sums(b: ir.IRBuilder) -> Any:
    """Zero for each token."""
    return ir.Constant(ir.ArrayType(_V32, TOKENS), None)


@define(IntSums, IntSums, I8_64, types.int64, types.int64)
def dot_tokens(b: ir.IRBuilder, sums: Any, w: Any, x: Any, stride: Any) -> Any:
    """Add the products of four weights of each row with the four signed bytes of each token at `x`."""
    values = zip(_unpack(b, sums), _tokens(b, x, stride, _INT), strict=True)
    return _pack(b, [dot4(b, s, w, b.bitcast(v, I8_64.vector)) for s, v in values])


@define(FloatSums, FloatSums, IntSums, F32, types.int64, types.int64)
def add_scaled(b: ir.IRBuilder, y: Any, sums: Any, d: Any, scale: Any, stride: Any) -> Any:
    """y + float(sums) · (d · the float32 of each token at `scale`), the last product and the sum fused."""
    values = zip(_unpack(b, y), _unpack(b, sums), _tokens(b, scale, stride, ir.FloatType()), strict=True)
    return _pack(b, [_fma(b, b.sitofp(s, _VF), b.fmul(d, v), old) for old, s, v in values])


@define(FloatSums, FloatSums, F32, types.int64, types.int64)
def add_product(b: ir.IRBuilder, y: Any, m: Any, scale: Any, stride: Any) -> Any:
    """y + m · the float32 of each token at `scale`, fused."""
    values = zip(_unpack(b, y), _tokens(b, scale, stride, ir.FloatType()), strict=True)
    return _pack(b, [_fma(b, m, v, old) for old, v in values])


@define(FloatSums, FloatSums, F32, types.int64, types.int64)
def fma_tokens(b: ir.IRBuilder, y: Any, w: Any, x: Any, stride: Any) -> Any:
    """y + w · the 16 float32 of each token at `x`, fused."""
    at = [pointer(b, b.add(x, b.mul(stride, _LONG(t))), _VF) for t in range(TOKENS)]
    return _pack(b, [_fma(b, w, b.load(p, align=1), old) for p, old in zip(at, _unpack(b, y), strict=True)])


def _fma(b: ir.IRBuilder, x: Any, y: Any, z: Any) -> Any:
    return call(b, "llvm.fma.v16f32", _VF, x, y, z)


@define(types.none, types.int64, FloatSums, types.int64)
def store_sums(b: ir.IRBuilder, address: Any, y: Any, stride: Any) -> None:
    """16 float32 of each token, `stride` bytes apart."""
    for t, v in enumerate(_unpack(b, y)):
        b.store(v, pointer(b, b.add(address, b.mul(stride, _LONG(t))), _VF), align=1)


@define(types.none, types.int64, FloatSums)
def store_totals(b: ir.IRBuilder, address: Any, y: Any) -> None:
    """The sum over the lanes of each token, as `sum_f32` has it: TOKENS float32."""
    for t, v in enumerate(_unpack(b, y)):
        b.store(fold(b, v, b.fadd), pointer(b, b.add(address, _LONG(4 * t)), ir.FloatType()), align=1)


@define(types.none, types.int64)
def prefetch(b: ir.IRBuilder, address: Any) -> None:
    """Ask for a cache line that will be read soon; any address is allowed."""
    call(b, "llvm.prefetch.p0", ir.VoidType(), pointer(b, address, _BYTE), _INT(0), _INT(2), _INT(1))


@define(types.none, types.int64, types.int64, types.int64)
def copy(b: ir.IRBuilder, to: Any, address: Any, n: Any) -> None:
    """Copy n bytes."""
    pointers = [pointer(b, a, _BYTE) for a in (to, address)]
    call(b, "llvm.memcpy.p0.p0.i64", ir.VoidType(), *pointers, n, ir.Constant(ir.IntType(1), 0))
