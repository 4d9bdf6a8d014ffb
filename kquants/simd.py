"""Vectors as Numba values: the types and the operations that the kernels are written in.

`@intrinsic` functions emit plain LLVM vector instructions, which LLVM lowers to whatever the CPU has (two
AVX2 registers, four NEON ones, ...). No kernel above this module names an instruction.

| type    | lanes | holds                               |
|---------|-------|-------------------------------------|
| `F32`   | 16    | float32 weights, activations, sums  |
| `I32`   | 16    | exact integer sums                  |
| `I8`    | 32    | one block of quantized values       |
| `I8_64` | 64    | one block of two rows               |

Addresses are plain integers in bytes; nothing here checks a bound. Float operations happen as written: never
fused, never reordered, and `sum_f32` adds its lanes in one fixed order, so that a result depends on its inputs
alone.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from kquants import cpu, old_x86

_BOOL, _BYTE, _SHORT = ir.IntType(1), ir.IntType(8), ir.IntType(16)
_INT, _LONG, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_FMA = not cpu.is_x86() or cpu.has("fma")
_F16C = not cpu.is_x86() or cpu.has("f16c")


class VectorType(types.Type):
    """A Numba type whose values are LLVM vectors of `lanes` elements."""

    def __init__(self, name: str, element: ir.Type, lanes: int) -> None:
        self.vector = ir.VectorType(element, lanes)
        super().__init__(name=name)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector_type: VectorType) -> None:
        super().__init__(manager, vector_type, vector_type.vector)


F32 = VectorType("f32x16", _FLOAT, 16)
I32 = VectorType("i32x16", _INT, 16)
I8 = VectorType("i8x32", _BYTE, 32)
I8_64 = VectorType("i8x64", _BYTE, 64)

Emit = Callable[..., Any]


def define(result: types.Type, *arguments: types.Type) -> Callable[[Emit], Any]:
    """Turn `emit(builder, *values) -> value` into an intrinsic of the given Numba types."""

    def decorate(emit: Emit) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> Any:
            value = emit(builder, *values)
            return context.get_dummy_value() if value is None else value

        def typer(typing_context: Any, *given: Any) -> Any:
            return result(*arguments), generate

        return _with_arity(typer, len(arguments), emit.__name__)

    return decorate


def _with_arity(typer: Callable[..., Any], n: int, name: str) -> Any:
    """Numba binds an intrinsic's arguments by their names: give `typer` the `n` parameters it expects."""
    wrappers: tuple[Callable[..., Any], ...] = (
        lambda ctx: typer(ctx),
        lambda ctx, a: typer(ctx, a),
        lambda ctx, a, b: typer(ctx, a, b),
        lambda ctx, a, b, c: typer(ctx, a, b, c),
        lambda ctx, a, b, c, d: typer(ctx, a, b, c, d),
        lambda ctx, a, b, c, d, e: typer(ctx, a, b, c, d, e),
        lambda ctx, a, b, c, d, e, f: typer(ctx, a, b, c, d, e, f),
        lambda ctx, a, b, c, d, e, f, g: typer(ctx, a, b, c, d, e, f, g),
        lambda ctx, a, b, c, d, e, f, g, h: typer(ctx, a, b, c, d, e, f, g, h),
    )
    wrapper = wrappers[n]
    wrapper.__name__ = wrapper.__qualname__ = name
    return intrinsic(wrapper)


def pointer(b: ir.IRBuilder, address: Any, to: ir.Type) -> Any:
    """An address as LLVM's pointer. All addresses must go through here."""
    # LLVM may turn base + t · stride into an offset from the pointer t · stride. Where t is 0 that is null, and it
    # would drop the access as impossible, unless told that null is an address like any other: llvmlite's list of
    # attributes lacks this one.
    set.add(b.function.attributes, "null_pointer_is_valid")
    return b.inttoptr(address, to.as_pointer())


def call(b: ir.IRBuilder, name: str, result: ir.Type, *values: Any) -> Any:
    """The result of an LLVM intrinsic."""
    function = ir.FunctionType(result, [v.type for v in values])
    return b.call(cgutils.get_or_insert_function(b.module, function, name), values)


def splat(b: ir.IRBuilder, value: Any, lanes: int = 16) -> Any:
    """A value in all lanes."""
    one = b.insert_element(ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined), value, _INT(0))
    return b.shuffle_vector(one, one, ir.Constant(ir.VectorType(_INT, lanes), [0] * lanes))


def pieces(b: ir.IRBuilder, v: Any, count: int) -> list[Any]:
    """A vector in so many equal parts."""
    n = v.type.count // count
    return [_lanes(b, v, v, range(i, i + n)) for i in range(0, v.type.count, n)]


def joined(b: ir.IRBuilder, parts: list[Any]) -> Any:
    """What `pieces` took apart; a power of two of them."""
    while len(parts) > 1:
        lanes = range(2 * parts[0].type.count)
        parts = [_lanes(b, parts[i], parts[i + 1], lanes) for i in range(0, len(parts), 2)]
    return parts[0]


def _lanes(b: ir.IRBuilder, x: Any, y: Any, lanes: range) -> Any:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(_INT, len(lanes)), list(lanes)))


def fold(b: ir.IRBuilder, v: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine all lanes in one fixed tree: lane i with lane i + n/2, and so on down."""
    n = v.type.count
    while n > 1:
        n //= 2
        low = ir.Constant(ir.VectorType(_INT, n), list(range(n)))
        high = ir.Constant(ir.VectorType(_INT, n), list(range(n, 2 * n)))
        v = combine(b.shuffle_vector(v, v, low), b.shuffle_vector(v, v, high))
    return b.extract_element(v, _INT(0))


def _lanes_below(b: ir.IRBuilder, count: Any) -> Any:
    few = call(b, "llvm.smin.i64", _LONG, count, _LONG(16))
    return b.icmp_signed("<", ir.Constant(I32.vector, list(range(16))), splat(b, b.trunc(few, _INT)))


def fma(b: ir.IRBuilder, x: Any, y: Any, z: Any) -> Any:
    """x · y + z of 16 float32, rounded once."""
    return call(b, "llvm.fma.v16f32", F32.vector, x, y, z) if _FMA else old_x86.fma(b, x, y, z)


def half_to_float(b: ir.IRBuilder, half: Any) -> Any:
    """The float32 of float16 bits, a scalar or 16 lanes."""
    if not _F16C:
        return old_x86.half_to_float(b, half)
    many = isinstance(half.type, ir.VectorType)
    halves, floats = (ir.VectorType(ir.HalfType(), 16), F32.vector) if many else (ir.HalfType(), _FLOAT)
    return b.fpext(b.bitcast(half, halves), floats)


def float_to_half(b: ir.IRBuilder, x: Any) -> Any:
    """The float16 bits nearest to float32, ties to even, a scalar or 16 lanes."""
    if not _F16C:
        return old_x86.float_to_half(b, x)
    half, short = ir.HalfType(), _SHORT
    if isinstance(x.type, ir.VectorType):
        half, short = ir.VectorType(half, 16), ir.VectorType(short, 16)
    return b.bitcast(b.fptrunc(x, half), short)


# --- scalars in memory ---------------------------------------------------------------------------------


def _scalar_load(element: ir.Type, result: types.Type, widen: Emit | None = None) -> Any:
    def emit(b: ir.IRBuilder, address: Any) -> Any:
        value = b.load(pointer(b, address, element), align=1)
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
store_f32 = _scalar_store(_FLOAT, types.float32)
store_f16 = _scalar_store(_SHORT, types.float32, float_to_half)


# --- vectors in memory ---------------------------------------------------------------------------------


def _widen_f32(b: ir.IRBuilder, v: Any) -> Any:
    return v


def _widen_bf16(b: ir.IRBuilder, v: Any) -> Any:
    high = b.shl(b.zext(v, I32.vector), ir.Constant(I32.vector, [16] * 16))
    return b.bitcast(high, F32.vector)


def _vector_loads(element: ir.Type, widen: Emit) -> tuple[Any, Any]:
    """(load 16 elements at an address, load the first `count` of them and zero the other lanes)."""
    memory = ir.VectorType(element, 16)

    @define(F32, types.int64)
    def load(b: ir.IRBuilder, address: Any) -> Any:
        return widen(b, b.load(pointer(b, address, memory), align=1))

    @define(F32, types.int64, types.int64)
    def load_part(b: ir.IRBuilder, address: Any, count: Any) -> Any:
        place = pointer(b, address, memory)
        if not _has_masks(element):
            return widen(b, _load_beginning(b, place, count))
        name = f"llvm.masked.load.v16{_SUFFIX[element]}.p0"
        return widen(b, call(b, name, memory, place, _INT(1), _lanes_below(b, count), ir.Constant(memory, None)))

    return load, load_part


_SUFFIX = {_FLOAT: "f32", _SHORT: "i16"}


def _has_masks(element: ir.Type) -> bool:
    """Whether loads and stores can leave out lanes; LLVM would make a branch for each lane."""
    return cpu.has("avx512vl") or (element == _FLOAT and cpu.has("avx"))


def _load_beginning(b: ir.IRBuilder, place: Any, count: Any) -> Any:
    """The first `count` of 16 elements, and zeros."""
    memory = place.type.pointee
    result = cgutils.alloca_once(b, memory)
    with b.if_else(_is_whole(b, count)) as (whole, part):
        with whole:
            b.store(b.load(place, align=1), result)
        with part:
            b.store(ir.Constant(memory, None), result)
            _copy_beginning(b, result, place, count)
    return b.load(result)


def _store_beginning(b: ir.IRBuilder, place: Any, v: Any, count: Any) -> None:
    """Store the first `count` of 16 elements."""
    with b.if_else(_is_whole(b, count)) as (whole, part):
        with whole:
            b.store(v, place, align=1)
        with part:
            source = cgutils.alloca_once(b, v.type)
            b.store(v, source)
            _copy_beginning(b, place, source, count)


def _is_whole(b: ir.IRBuilder, count: Any) -> Any:
    return b.icmp_signed(">=", count, _LONG(16))


def _copy_beginning(b: ir.IRBuilder, to: Any, source: Any, count: Any) -> None:
    memory = to.type.pointee
    size = 4 if memory.element == _FLOAT else 2
    length = b.mul(call(b, "llvm.smax.i64", _LONG, count, _LONG(0)), _LONG(size))
    places = [b.bitcast(p, _BYTE.as_pointer()) for p in (to, source)]
    call(b, "llvm.memcpy.p0.p0.i64", ir.VoidType(), *places, length, _BOOL(0))


load_f32x16, load_f32x16_part = _vector_loads(_FLOAT, _widen_f32)
load_f16x16, load_f16x16_part = _vector_loads(_SHORT, half_to_float)
load_bf16x16, load_bf16x16_part = _vector_loads(_SHORT, _widen_bf16)


@define(types.none, types.int64, F32)
def store_f32x16(b: ir.IRBuilder, address: Any, v: Any) -> None:
    """Store 16 float32."""
    b.store(v, pointer(b, address, v.type), align=1)


@define(types.none, types.int64, F32)
def store_f16x16(b: ir.IRBuilder, address: Any, v: Any) -> None:
    """Store 16 float32 as float16."""
    half = float_to_half(b, v)
    b.store(half, pointer(b, address, half.type), align=1)


def _apart(narrow: Emit) -> Any:
    @define(types.none, types.int64, F32, types.int64)
    def store(b: ir.IRBuilder, address: Any, v: Any, stride: Any) -> None:
        v = narrow(b, v)
        for i in range(16):
            at = b.add(address, b.mul(stride, _LONG(i)))
            b.store(b.extract_element(v, _INT(i)), pointer(b, at, v.type.element), align=1)

    return store


store_f32_apart = _apart(_widen_f32)
"""Store 16 lanes, `stride` bytes from one to the next."""
store_f16_apart = _apart(float_to_half)


@define(types.none, types.int64, F32, types.int64)
def store_f32x16_part(b: ir.IRBuilder, address: Any, v: Any, count: Any) -> None:
    """Store the first `count` lanes."""
    place = pointer(b, address, v.type)
    if _has_masks(_FLOAT):
        call(b, "llvm.masked.store.v16f32.p0", ir.VoidType(), v, place, _INT(1), _lanes_below(b, count))
    else:
        _store_beginning(b, place, v, count)


@define(I8, types.int64)
def load_i8x32(b: ir.IRBuilder, address: Any) -> Any:
    """Load 32 bytes."""
    return b.load(pointer(b, address, I8.vector), align=1)


@define(I8, types.int64)
def load_nibbles_i8x32(b: ir.IRBuilder, address: Any) -> Any:
    """Load 16 bytes: lanes 0-15 are their low nibbles, lanes 16-31 the high ones."""
    half = ir.VectorType(_BYTE, 16)
    packed = b.load(pointer(b, address, half), align=1)
    low, high = b.and_(packed, ir.Constant(half, [15] * 16)), b.lshr(packed, ir.Constant(half, [4] * 16))
    return b.shuffle_vector(low, high, ir.Constant(ir.VectorType(_INT, 32), list(range(32))))


@define(types.float32, types.int32)
def f32_of_bits(b: ir.IRBuilder, bits: Any) -> Any:
    """The float32 that has these bits."""
    return b.bitcast(bits, _FLOAT)


# --- float arithmetic ----------------------------------------------------------------------------------

splat_f32 = define(F32, types.float32)(splat)
add_f32 = define(F32, F32, F32)(lambda b, x, y: b.fadd(x, y))
sub_f32 = define(F32, F32, F32)(lambda b, x, y: b.fsub(x, y))
mul_f32 = define(F32, F32, F32)(lambda b, x, y: b.fmul(x, y))
div_f32 = define(F32, F32, F32)(lambda b, x, y: b.fdiv(x, y))
fma_f32 = define(F32, F32, F32, F32)(fma)
max_f32 = define(F32, F32, F32)(lambda b, x, y: call(b, "llvm.maxnum.v16f32", F32.vector, x, y))
min_f32 = define(F32, F32, F32)(lambda b, x, y: call(b, "llvm.minnum.v16f32", F32.vector, x, y))
abs_f32 = define(F32, F32)(lambda b, x: call(b, "llvm.fabs.v16f32", F32.vector, x))
round_f32 = define(F32, F32)(lambda b, x: call(b, "llvm.rint.v16f32", F32.vector, x))
square_root = define(types.float32, types.float32)(lambda b, x: call(b, "llvm.sqrt.f32", _FLOAT, x))
sum_f32 = define(types.float32, F32)(lambda b, x: fold(b, x, b.fadd))


@define(types.float32, F32)
def first_f32(b: ir.IRBuilder, x: Any) -> Any:
    """Lane 0."""
    return b.extract_element(x, _INT(0))


@define(types.float32, F32)
def largest_f32(b: ir.IRBuilder, x: Any) -> Any:
    """The largest lane."""
    return fold(b, x, lambda p, q: call(b, f"llvm.maxnum.v{p.type.count}f32", p.type, p, q))


@define(F32, F32, types.int64, types.float32)
def keep_f32(b: ir.IRBuilder, x: Any, count: Any, other: Any) -> Any:
    """`x` in the first `count` lanes, `other` in the rest."""
    return b.select(_lanes_below(b, count), x, splat(b, other))


@define(F32, F32, F32)
def larger_f32(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    """The larger of both, and y where one is NaN: one instruction on x86, unlike `max_f32`."""
    return b.select(b.fcmp_ordered(">", x, y), x, y)


@define(F32, F32, F32)
def unless_nan(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    """`x`, but NaN where y is NaN."""
    return b.select(b.fcmp_unordered("uno", y, y), y, x)


@define(F32, F32)
def exp2_of_whole(b: ir.IRBuilder, n: Any) -> Any:
    """2**n for whole n in [-126, 127], made by writing the exponent bits."""
    biased = b.add(b.fptosi(n, I32.vector), ir.Constant(I32.vector, [127] * 16))
    return b.bitcast(b.shl(biased, ir.Constant(I32.vector, [23] * 16)), F32.vector)


@define(F32, F32)
def lowest_bits_as_exponent(b: ir.IRBuilder, x: Any) -> Any:
    """2**(n - 127), where n < 256 is what the lowest 9 bits of a float hold; 0 for n = 0."""
    bits = b.shl(b.bitcast(x, I32.vector), ir.Constant(I32.vector, [23] * 16))
    return b.bitcast(bits, F32.vector)


def saturated_i8(b: ir.IRBuilder, x: Any) -> Any:
    """16 whole floats as int32 that fit into int8; what lies outside saturates and NaN becomes 0."""
    # By steps, as LLVM has no vector instructions for a saturating conversion to bytes before AVX-512.
    low, high, zero = (ir.Constant(x.type, [limit] * 16) for limit in (-128.0, 127.0, 0.0))
    x = b.select(b.fcmp_ordered(">", x, low), x, b.select(b.fcmp_unordered("uno", x, x), zero, low))
    return b.fptosi(b.select(b.fcmp_ordered("<", x, high), x, high), I32.vector)


@define(types.none, types.int64, F32)
def store_f32x16_as_i8(b: ir.IRBuilder, address: Any, x: Any) -> None:
    """Store 16 whole floats as int8; what lies outside saturates and NaN becomes 0."""
    narrow = ir.VectorType(_BYTE, 16)
    b.store(b.trunc(saturated_i8(b, x), narrow), pointer(b, address, narrow), align=1)


# --- integer arithmetic --------------------------------------------------------------------------------

and_i8 = define(I8, I8, types.int32)(lambda b, x, bits: b.and_(x, splat(b, b.trunc(bits, _BYTE), 32)))
or_i8 = define(I8, I8, I8)(lambda b, x, y: b.or_(x, y))
add_i8 = define(I8, I8, types.int32)(lambda b, x, n: b.add(x, splat(b, b.trunc(n, _BYTE), 32)))
shift_left_i8 = define(I8, I8, types.int32)(lambda b, x, n: b.shl(x, splat(b, b.trunc(n, _BYTE), 32)))
shift_right_i8 = define(I8, I8, types.int32)(lambda b, x, n: b.lshr(x, splat(b, b.trunc(n, _BYTE), 32)))


@define(I8, types.int32)
def bits_to_i8(b: ir.IRBuilder, bits: Any) -> Any:
    """Bit i of `bits`, 0 or 1, in lane i."""
    return b.zext(b.bitcast(bits, ir.VectorType(_BOOL, 32)), I8.vector)


def _byte_shuffle(lanes: int) -> tuple[int, str] | None:
    """(How many of so many bytes one instruction looks up in a table of 16, its name), if there is one."""
    if cpu.is_arm():
        return 16, "llvm.aarch64.neon.tbl1.v16i8"
    if cpu.has("avx512bw") and lanes == 64:
        return 64, "llvm.x86.avx512.pshuf.b.512"
    if cpu.has("avx2"):
        return 32, "llvm.x86.avx2.pshuf.b"
    return (16, "llvm.x86.ssse3.pshuf.b.128") if cpu.has("ssse3") else None


def look_up(b: ir.IRBuilder, table: tuple[int, ...], index: Any) -> Any:
    """Each byte of the index, 0 … 15, looked up in a table of 16 int8."""
    shuffle = _byte_shuffle(index.type.count)
    if shuffle is None:
        return _choose(b, table, index)
    size, name = shuffle
    values = ir.Constant(ir.VectorType(_BYTE, size), [v % 256 for v in table] * (size // 16))
    return joined(b, [call(b, name, values.type, values, v) for v in pieces(b, index, index.type.count // size)])


def _choose(b: ir.IRBuilder, table: tuple[int, ...], index: Any) -> Any:
    """A tournament over the bits of the index, as LLVM finds only single look-ups."""
    found = [ir.Constant(index.type, [value % 256] * index.type.count) for value in table]
    for bit in (1, 2, 4, 8):
        masked = b.and_(index, ir.Constant(index.type, [bit] * index.type.count))
        is_set = b.icmp_unsigned("!=", masked, ir.Constant(index.type, [0] * index.type.count))
        found = [b.select(is_set, odd, even) for even, odd in zip(found[::2], found[1::2], strict=True)]
    return found[0]


def spread_bits(b: ir.IRBuilder, words: Any, first: int, to: int) -> Any:
    """Bits first … first + 3 of each 32-bit word, as bit `to` of its four bytes; 64 bytes."""
    kind, zero, wanted = words.type, ir.Constant(words.type, None), ir.Constant(words.type, [1 << to] * 64)
    if cpu.has("avx512vbmi"):
        # Each byte becomes 8 bits of the 64 around it, from any bit on.
        starts = ir.Constant(kind, [(32 * (i // 4) + first + i % 4 - to) % 64 for i in range(64)])
        return b.and_(call(b, "llvm.x86.avx512.pmultishift.qb.512", kind, starts, words), wanted)
    bits = ir.Constant(kind, [1 << (first + i) % 8 for i in range(4)] * 16)
    bytes_of_bits = ir.Constant(ir.VectorType(_INT, 64), [4 * (i // 4) + first // 8 for i in range(64)])
    mine = b.and_(b.shuffle_vector(words, words, bytes_of_bits), bits)
    return b.select(b.icmp_unsigned("!=", mine, zero), wanted, zero)


def lookup_i8(table: tuple[int, ...]) -> Any:
    """An operation that looks up each lane, 0 … 15, in a table of 16 int8."""
    return define(I8, I8)(lambda b, index: look_up(b, table, index))


def _half_to_f32(first: int) -> Any:
    """16 of the 32 int8, from lane `first` on, as float32."""
    lanes = ir.Constant(ir.VectorType(_INT, 16), list(range(first, first + 16)))
    return define(F32, I8)(lambda b, x: b.sitofp(b.shuffle_vector(x, x, lanes), F32.vector))


low_i8_to_f32 = _half_to_f32(0)
high_i8_to_f32 = _half_to_f32(16)


# --- memory --------------------------------------------------------------------------------------------


@define(types.none, types.int64)
def prefetch(b: ir.IRBuilder, address: Any) -> None:
    """Ask for a cache line that will be read soon; any address is allowed."""
    call(b, "llvm.prefetch.p0", ir.VoidType(), pointer(b, address, _BYTE), _INT(0), _INT(2), _INT(1))


@define(types.none, types.int64, types.int64, types.int64)
def copy(b: ir.IRBuilder, to: Any, address: Any, n: Any) -> None:
    """Copy n bytes."""
    pointers = [pointer(b, a, _BYTE) for a in (to, address)]
    call(b, "llvm.memcpy.p0.p0.i64", ir.VoidType(), *pointers, n, ir.Constant(ir.IntType(1), 0))


# --- threads -------------------------------------------------------------------------------------------


@define(types.int64, types.int64, types.int64)
def atomic_add(b: ir.IRBuilder, address: Any, value: Any) -> Any:
    """Add to the int64 at an address; return what was there before. Sequentially consistent."""
    return b.atomic_rmw("add", pointer(b, address, _LONG), value, "seq_cst")


@define(types.int64, types.int64)
def atomic_load(b: ir.IRBuilder, address: Any) -> Any:
    """The int64 at an address; what another thread wrote before it is visible afterwards."""
    return b.load_atomic(pointer(b, address, _LONG), "seq_cst", 8)


@define(types.none, types.int64, types.int64)
def atomic_store(b: ir.IRBuilder, address: Any, value: Any) -> None:
    """Write the int64 at an address, after all that this thread wrote before."""
    b.store_atomic(value, pointer(b, address, _LONG), "seq_cst", 8)
