"""Vector types, and what operations on them are made with."""

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
    return pick(b, one, one, [0] * lanes)


def opaque(b: ir.IRBuilder, v: Any) -> Any:
    """The same value, of which LLVM knows no more than that it is in a register; no instruction.

    It may change memory, for all that LLVM knows: told that it does not, decode is 1 to 3 % slower.
    """
    return _through_assembly(b, v, is_ordered=False)


def computed_here(b: ir.IRBuilder, v: Any) -> Any:
    """The same value, computed at this point of the program: after what was loaded before, and not again later."""
    return _through_assembly(b, v, is_ordered=True)


def _through_assembly(b: ir.IRBuilder, v: Any, is_ordered: bool) -> Any:
    register = "v" if isinstance(v.type, ir.VectorType) else "r"  # only x86 has a "v", and callers ask for its features
    return b.asm(ir.FunctionType(v.type, [v.type]), "", f"={register},0", [v], is_ordered)


_INTERLEAVED = [[first + i // 2 + 16 * (i % 2) for i in range(16)] for first in (0, 8)]


def split(b: ir.IRBuilder, v: Any, count: int) -> list[Any]:
    """A vector in so many equal parts."""
    n = v.type.count // count
    return [pick(b, v, v, range(i, i + n)) for i in range(0, v.type.count, n)]


def joined(b: ir.IRBuilder, parts: list[Any]) -> Any:
    """What `split` took apart; a power of two of them."""
    while len(parts) > 1:
        lanes = range(2 * parts[0].type.count)
        parts = [pick(b, parts[i], parts[i + 1], lanes) for i in range(0, len(parts), 2)]
    return parts[0]


def transposed(b: ir.IRBuilder, rows: list[Any]) -> list[Any]:
    """16 vectors of 16 lanes with rows and columns changed: vector i has lane i of each."""
    for _ in range(4):  # interleaving the first half with the second, log2(16) times, is a transpose
        rows = [pick(b, x, y, lanes) for x, y in zip(rows[:8], rows[8:], strict=True) for lanes in _INTERLEAVED]
    return rows


def pick(b: ir.IRBuilder, x: Any, y: Any, lanes: Iterable[int]) -> Any:
    """A vector of these lanes of two, those of the second behind those of the first."""
    return b.shuffle_vector(x, y, _mask(tuple(lanes)))


@cache
def _mask(lanes: tuple[int, ...]) -> ir.Constant:
    """Lanes as a constant; kept, as to write one down takes time, and kernels have thousands of a few."""
    return ir.Constant(ir.VectorType(_INT, len(lanes)), list(lanes))


def fold(b: ir.IRBuilder, v: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine all lanes in one fixed tree: lane i with lane i + n/2, and so on down."""
    n = v.type.count
    while n > 1:
        n //= 2
        v = combine(pick(b, v, v, range(n)), pick(b, v, v, range(n, 2 * n)))
    return b.extract_element(v, _INT(0))


def of_each(
    b: ir.IRBuilder,
    vectors: list[Any],
    combine: Callable[[Any, Any], Any],
    distances: tuple[int, ...] = (1, 2, 4, 8),
) -> Any:
    """All lanes of vector i of 16 combined, in lane i: neighbours first, then pairs of these, and so on.

    Of eight vectors, lanes 8k … 8k + 7 of vector i in lane 8k + i; of four, lanes 4k … 4k + 3 in lane 4k + i. Of four,
    at distances of 4 and 8, lanes k, 4 + k, 8 + k and 12 + k of vector i in lane 4i + k. Of eight, at distances of 1, 4
    and 8, of vector 2k + i in lane 4k + i its lanes whose number has bit 1 clear, in lane 4k + 2 + i the others.
    """
    for distance in distances[: len(vectors).bit_length() - 1]:
        # Of two vectors, lanes of the first stay where this bit of their number is 0, those of the second where it
        # is 1, and they meet those that are so far from them: a blend and one permutation on x86, where even and odd
        # lanes would be two permutations. (Arm, which was not measured, has one instruction for a sum of neighbours.)
        second = [bool(lane & distance) for lane in range(16)]
        stay = [lane + 16 * is_second for lane, is_second in enumerate(second)]
        come = [(lane ^ distance) + 16 * is_second for lane, is_second in enumerate(second)]
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [combine(pick(b, x, y, stay), pick(b, x, y, come)) for x, y in pairs]
    return vectors[0]


def lanes_below(b: ir.IRBuilder, count: Any, lanes: int = 16) -> Any:
    """Whether each lane is one of the first `count`, an int64."""
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
