"""Memory: address arithmetic, loads and stores of scalars, prefetches, atomic operations.

Addresses are plain integers in bytes; nothing here checks a bound.
"""

from typing import Any

from llvmlite import ir
from numba import types

from kquants.compiler.decorators import inline
from kquants.simd.floats import float_to_half, half_to_float
from kquants.simd.vectors import Emit, call, define
from kquants.tuning import PrefetchLevel, tuning

_BYTE, _SHORT, _INT, _LONG = (ir.IntType(n) for n in (8, 16, 32, 64))
_FLOAT = ir.FloatType()


def pointer(b: ir.IRBuilder, address: Any, to: ir.Type) -> Any:
    """An address as LLVM's pointer."""
    return b.inttoptr(address, to.as_pointer())


def at(b: ir.IRBuilder, address: Any, *offsets: Any) -> Any:
    """The address plus offsets in bytes: ints or LLVM values."""
    for offset in offsets:
        address = b.add(address, _LONG(offset) if isinstance(offset, int) else offset)
    return address


def at_strides(b: ir.IRBuilder, address: Any, stride: Any, n: int) -> list[Any]:
    """`n` addresses `stride` bytes apart, the first of them the one given."""
    return [b.add(address, b.mul(stride, _LONG(i))) for i in range(n)]


def times(b: ir.IRBuilder, n: Any, size: int) -> Any:
    """n · size, where n is an int or an LLVM value."""
    return n * size if isinstance(n, int) else b.mul(n, _LONG(size))


def load(b: ir.IRBuilder, address: Any, element: ir.Type) -> Any:
    """Load an element, scalar or vector, from an address."""
    return b.load(pointer(b, address, element), align=1)


def store_vectors(b: ir.IRBuilder, address: Any, vectors: list[Any]) -> None:
    """Store vectors of 64 bytes side by side, at a multiple of 64."""
    for i, v in enumerate(vectors):
        b.store(v, pointer(b, at(b, address, 64 * i), v.type), align=64)


def _scalar_load(element: ir.Type, result: types.Type, widen: Emit | None = None) -> Any:
    def emit(b: ir.IRBuilder, address: Any) -> Any:
        value = load(b, address, element)
        return widen(b, value) if widen else value

    return define(result, types.int64)(emit)


load_u8 = _scalar_load(_BYTE, types.int32, lambda b, v: b.zext(v, _INT))
load_i8 = _scalar_load(_BYTE, types.int32, lambda b, v: b.sext(v, _INT))
load_i32 = _scalar_load(_INT, types.int32)
load_i64 = _scalar_load(_LONG, types.int64)
load_f32 = _scalar_load(_FLOAT, types.float32)
load_f16 = _scalar_load(_SHORT, types.float32, half_to_float)


def _scalar_store(element: ir.Type, given: types.Type, narrow: Emit | None = None) -> Any:
    def emit(b: ir.IRBuilder, address: Any, value: Any) -> None:
        b.store(narrow(b, value) if narrow else value, pointer(b, address, element), align=1)

    return define(types.none, types.int64, given)(emit)


store_i32 = _scalar_store(_INT, types.int32)
store_i64 = _scalar_store(_LONG, types.int64)
store_f32 = _scalar_store(_FLOAT, types.float32)
store_f16 = _scalar_store(_SHORT, types.float32, float_to_half)


def emit_prefetch(b: ir.IRBuilder, address: Any, level: PrefetchLevel, *, to_write: bool = False) -> None:
    """Prefetch the cache line at an address, to be read or written; any address is allowed."""
    call(b, "llvm.prefetch.p0", ir.VoidType(), pointer(b, address, _BYTE), _INT(int(to_write)), _INT(level), _INT(1))


prefetch_to_write = define(types.none, types.int64)(
    lambda b, address: emit_prefetch(b, address, PrefetchLevel.L1, to_write=True)
)
prefetch = define(types.none, types.int64)(lambda b, address: emit_prefetch(b, address, tuning().prefetch_level))
prefetch_once = define(types.none, types.int64)(
    lambda b, address: emit_prefetch(b, address, tuning().decode_prefetch_level)
)


@inline
def prefetch_lines(address: int, count: int, stride: int) -> None:
    """Prefetch `count` cache lines, `stride` bytes apart."""
    for i in range(count):
        prefetch(address + i * stride)


@define(types.none, types.int64, types.int64, types.int64)
def copy(b: ir.IRBuilder, to: Any, address: Any, n: Any) -> None:
    """Copy n bytes."""
    pointers = [pointer(b, a, _BYTE) for a in (to, address)]
    call(b, "llvm.memcpy.p0.p0.i64", ir.VoidType(), *pointers, n, ir.IntType(1)(0))


@define(types.none, types.int64, types.int64)
def clear(b: ir.IRBuilder, to: Any, n: Any) -> None:
    """Fill n bytes with zeros."""
    call(b, "llvm.memset.p0.i64", ir.VoidType(), pointer(b, to, _BYTE), _BYTE(0), n, ir.IntType(1)(0))


# --- atomic operations ---------------------------------------------------------------------------------


@define(types.int64, types.int64, types.int64)
def atomic_add(b: ir.IRBuilder, address: Any, value: Any) -> Any:
    """Add to the int64 at an address; return what was there before. Sequentially consistent."""
    return b.atomic_rmw("add", pointer(b, address, _LONG), value, "seq_cst")


@define(types.int64, types.int64)
def atomic_load(b: ir.IRBuilder, address: Any) -> Any:
    """The int64 at an address; what the thread that stored it wrote before is visible afterwards."""
    return b.load_atomic(pointer(b, address, _LONG), "seq_cst", 8)


@define(types.none, types.int64, types.int64)
def atomic_store(b: ir.IRBuilder, address: Any, value: Any) -> None:
    """Write the int64 at an address; threads that see it also see what this thread wrote before."""
    b.store_atomic(value, pointer(b, address, _LONG), "seq_cst", 8)


@define(types.none)
def fence(b: ir.IRBuilder) -> None:
    """A full memory fence: what this thread wrote before is visible to others before its next read."""
    b.fence("seq_cst")
