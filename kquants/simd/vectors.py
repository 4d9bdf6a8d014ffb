"""Vector types, and the functions that operations on them are made of."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

_BYTE, _INT, _LONG = (ir.IntType(n) for n in (8, 32, 64))


class VectorType(types.Type):
    """A Numba type whose values are LLVM vectors of `lanes` elements."""

    def __init__(self, name: str, element: ir.Type, lanes: int) -> None:
        self.vector = ir.VectorType(element, lanes)
        super().__init__(name=name)


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector_type: VectorType) -> None:
        super().__init__(manager, vector_type, vector_type.vector)


F32 = VectorType("f32x16", ir.FloatType(), 16)
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


def call(b: ir.IRBuilder, name: str, result: ir.Type, *values: Any) -> Any:
    """The result of an LLVM intrinsic."""
    function = ir.FunctionType(result, [v.type for v in values])
    return b.call(cgutils.get_or_insert_function(b.module, function, name), values)


def splat(b: ir.IRBuilder, value: Any, lanes: int = 16) -> Any:
    """A value in all lanes."""
    one = b.insert_element(ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined), value, _INT(0))
    return shuffle(b, one, one, [0] * lanes)


def opaque(b: ir.IRBuilder, v: Any) -> Any:
    """The same value, made opaque to LLVM's optimizer; no instruction.

    LLVM must assume that this changes memory. (If it is told otherwise, decode is 1 to 3 % slower.)
    """
    return _through_assembly(b, v, is_ordered=False)


def computed_here(b: ir.IRBuilder, v: Any) -> Any:
    """The same value, which LLVM must compute at this point: after the loads before it, and not again later."""
    return _through_assembly(b, v, is_ordered=True)


def _through_assembly(b: ir.IRBuilder, v: Any, is_ordered: bool) -> Any:
    register = "v" if isinstance(v.type, ir.VectorType) else "r"  # only x86 has a "v"; callers check its features
    return b.asm(ir.FunctionType(v.type, [v.type]), "", f"={register},0", [v], is_ordered)


_INTERLEAVED = [[first + i // 2 + 16 * (i % 2) for i in range(16)] for first in (0, 8)]


def split(b: ir.IRBuilder, v: Any, count: int) -> list[Any]:
    """A vector in `count` equal parts."""
    n = v.type.count // count
    return [shuffle(b, v, v, range(i, i + n)) for i in range(0, v.type.count, n)]


def joined(b: ir.IRBuilder, parts: list[Any]) -> Any:
    """The concatenation of vectors, whose number is a power of two: the inverse of `split`."""
    while len(parts) > 1:
        lanes = range(2 * parts[0].type.count)
        parts = [shuffle(b, parts[i], parts[i + 1], lanes) for i in range(0, len(parts), 2)]
    return parts[0]


def transposed(b: ir.IRBuilder, rows: list[Any]) -> list[Any]:
    """The transpose of 16 vectors of 16 lanes: vector i has lane i of each."""
    for _ in range(4):  # interleaving the first half with the second, log2(16) times, is a transpose
        rows = [shuffle(b, x, y, lanes) for x, y in zip(rows[:8], rows[8:], strict=True) for lanes in _INTERLEAVED]
    return rows


def shuffle(b: ir.IRBuilder, x: Any, y: Any, lanes: Iterable[int]) -> Any:
    """A vector of the given lanes of x and y, where the lanes of y are numbered after those of x."""
    return b.shuffle_vector(x, y, _mask(tuple(lanes)))


@cache
def _mask(lanes: tuple[int, ...]) -> ir.Constant:
    """Lanes as a constant. Cached: kernels use the same few thousands of times, and building one takes time."""
    return ir.Constant(ir.VectorType(_INT, len(lanes)), list(lanes))


def reduce_lanes(b: ir.IRBuilder, v: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Reduce all lanes in one fixed tree: lane i with lane i + n/2, then the halves of the result, and so on."""
    n = v.type.count
    while n > 1:
        n //= 2
        v = combine(shuffle(b, v, v, range(n)), shuffle(b, v, v, range(n, 2 * n)))
    return b.extract_element(v, _INT(0))


def reduce_each(b: ir.IRBuilder, vectors: list[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Reduce several vectors at once. Of 16 vectors, lane i of the result combines all lanes of vector i: adjacent
    lanes first, then pairs of these, and so on.

    Of eight vectors, lane 8k + i combines lanes 8k … 8k + 7 of vector i. Of four, lane 4k + i combines lanes 4k … 4k +
    3 of vector i.
    """
    for distance in (1, 2, 4, 8)[: len(vectors).bit_length() - 1]:
        # Of each two vectors, the lanes of the first stay where this bit of their number is 0, those of the second
        # where it is 1; they are combined with the lanes at `distance`. On x86 that is a blend and one permutation,
        # where separating even and odd lanes would take two permutations. (Not measured on Arm, which has an
        # instruction for the sum of adjacent lanes.)
        second = [bool(lane & distance) for lane in range(16)]
        stay = [lane + 16 * is_second for lane, is_second in enumerate(second)]
        come = [(lane ^ distance) + 16 * is_second for lane, is_second in enumerate(second)]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [combine(shuffle(b, x, y, stay), shuffle(b, x, y, come)) for x, y in pairs]
    return vectors[0]


def lanes_below(b: ir.IRBuilder, count: Any, lanes: int = 16) -> Any:
    """A mask of the first `count` lanes, where `count` is an int64."""
    few = b.trunc(call(b, "llvm.smin.i64", _LONG, count, _LONG(lanes)), _INT)
    return b.icmp_signed("<", ir.Constant(ir.VectorType(_INT, lanes), list(range(lanes))), splat(b, few, lanes))


def as_tuple(b: ir.IRBuilder, values: list[Any]) -> Any:
    """Vectors as the tuple of them."""
    array: Any = ir.Constant(ir.ArrayType(values[0].type, len(values)), ir.Undefined)
    for i, value in enumerate(values):
        array = b.insert_value(array, value, i)
    return array


def of_tuple(b: ir.IRBuilder, array: Any) -> list[Any]:
    """The vectors of a tuple."""
    return [b.extract_value(array, i) for i in range(array.type.count)]
