"""Winograd's inner product: half as many multiplications, for additions that a CPU makes beside them.

Of a row of weights take two words, k and l, of four u = 0 … 15 each, and the same words of a row of x. Byte by byte,
and then added up,

    u_k · x_k + u_l · x_l = (u_l + 120 + x_k) · (u_k - 8 + x_l) - U - X

    U = (u_l + 120) · (u_k - 8)
    X = (x_k + 128) · x_l - 8 · (x_k + x_l)

(S. Winograd: A New Algorithm for Inner Product, IEEE Transactions on Computers C-17, 1968). U is computed when weights
are unpacked, X when x is quantized (`kquants.activations.super_quantized`), each once for many products. What is left
is one product of four unsigned bytes with four signed ones in place of two, and two additions of bytes: they do not
overflow, as the magnitudes of x are at most 120 (`kquants.tuning.Tuning.activation_int8_max`). What a block adds up to
is an int16, so that of U and X no more than the lower 16 bits count.

A Zen 4 multiplies in two of its four vector units and adds in all of them. So two words take 1.5 cycles in this way, 2
as they are. They take least if only six of the eight words of a block go so, with the two others between them: then all
units are busy. For up to eight rows of x the unpacking costs more than that saves: they go another way
(`kquants.matmul.decode`). Other CPUs were not measured. With 5-bit weights too few bits of the byte sum would be left
for x.
"""

from llvmlite import ir

from kquants.formats.packed_bytes import Value
from kquants.formats.unpacking import Format, has_integer_scales
from kquants.simd import I8_64, I32, shuffle
from kquants.simd.dot4 import start_dot4

STEPS: tuple[tuple[int, ...], ...] = ((0, 1), (4,), (2, 3), (7,), (5, 6))
"""The words of a block in the order in which they are multiplied: some two by two, some alone."""

_UPPER, _LOWER = 120, -8
"""What is added to u_l, so that with any x it is an unsigned byte, and to u_k, so that it is a signed one."""

_TWO_BY_TWO = {step[0]: step[1] for step in STEPS if len(step) == 2}
_HALF = 4  # words

assert _UPPER - _LOWER == 128, "X is computed by a change of x's sign bits"
assert all(k < other and k // _HALF == other // _HALF for k, other in _TWO_BY_TWO.items()), "weights come half by half"

_ZERO = ir.Constant(I32.vector, None)


def has_room_for_winograd(fmt: Format) -> bool:
    """Whether weights leave x enough of a byte: those of four bits, with minima and sub-blocks of 32."""
    return has_integer_scales(fmt) and fmt.BITS == 4 and not fmt.OFFSET and fmt.SUB_BLOCKS == 1


def both_sides(b: ir.IRBuilder, u: list[Value], x: list[Value]) -> tuple[Value, Value]:
    """The operands for the words of a step: unsigned bytes and signed ones; u are as `with_offsets` gives them."""
    if len(u) == 1:
        return u[0], x[0]
    (u_k, u_l), (x_k, x_l) = u, x
    return b.add(u_l, x_k), b.add(u_k, x_l)


class UnpackedBlock:
    """A block whose weights are unpacked half by half."""

    def __init__(self, b: ir.IRBuilder) -> None:
        self._b, self._u = b, start_dot4(b, _ZERO)

    def with_offsets(self, half: int, words: list[Value]) -> list[Value]:
        """The words of a half, those of them that are multiplied two by two with their offsets."""
        words, first = list(words), _HALF * half
        for k, other in _TWO_BY_TWO.items():
            if k // _HALF == half:
                lower, upper = self._plus(words[k - first], _LOWER), self._plus(words[other - first], _UPPER)
                self._u.add(upper, lower)
                words[k - first], words[other - first] = lower, upper
        return words

    def u(self) -> Value:
        """U of the whole block, of each row."""
        return self._u.total()

    def _plus(self, word: Value, n: int) -> Value:
        return self._b.add(word, ir.Constant(word.type, [n] * word.type.count))


def minus_x(b: ir.IRBuilder, x: Value) -> Value:
    """-X of 64 bytes of x: what lanes 0 … 7 add up to is that of the first block, lanes 8 … 15 of the second."""
    first, second = _TWO_BY_TWO.keys(), _TWO_BY_TWO.values()
    factors = [-_LOWER if word % 8 in first | set(second) else 0 for word in range(16)]
    lanes = [word // 8 * 8 + _TWO_BY_TWO[word % 8] if word % 8 in first else 16 for word in range(16)]
    x_l = b.bitcast(shuffle(b, b.bitcast(x, I32.vector), _ZERO, lanes), I8_64.vector)
    dot = start_dot4(b, _ZERO)
    dot.add(ir.Constant(I8_64.vector, [factor for factor in factors for _ in range(4)]), x)
    dot.add(b.xor(x, ir.Constant(I8_64.vector, [-128] * 64)), b.neg(x_l))  # x_k + 128, unsigned
    return dot.total()
