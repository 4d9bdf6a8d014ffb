"""Bytes of five ternary digits (trits): trit n of a byte q, n = 0 … 4, is ⌊3 · (3ⁿ · q mod 256) / 256⌋, 0 … 2.

With permutations of bytes (`kquants.simd.tables`) two tables give all five: trits 0, 2 and 4 in two bits each, and
trits 1 and 3. Other CPUs triple the bytes step by step, and count how many of 86 and 171 each reaches.
"""

from dataclasses import dataclass

from llvmlite import ir

from kquants.formats.packed_bytes import PackedBytes
from kquants.formats.unpacking import HalfBlock, half_of_bits
from kquants.simd import HAS_BYTE_PERMUTATIONS, look_up_long

_BYTES = range(256)


def _trit(q: int, n: int) -> int:
    return 3 * (3**n * q % 256) // 256


_EVEN = [_trit(q, 0) | _trit(q, 2) << 2 | _trit(q, 4) << 4 for q in _BYTES]
_ODD = [_trit(q, 1) | _trit(q, 3) << 2 for q in _BYTES]


@dataclass(frozen=True)
class Trits:
    """The trits of some bytes of each row."""

    pairs: tuple[PackedBytes, PackedBytes] | None
    """Of each byte two bits for each trit, those of even n and those of odd ones; without permutations None."""
    trits: tuple[PackedBytes, ...]
    """Trit n of each byte."""

    @classmethod
    def of(cls, packed: PackedBytes) -> "Trits":
        """Those of bytes."""
        if not HAS_BYTE_PERMUTATIONS:
            return cls(None, tuple(_by_tripling(packed)))
        even, odd = (_look_up(table, packed) for table in (_EVEN, _ODD))
        return cls((even, odd), tuple((even, odd)[n % 2].bits(n // 2 * 2, 2) for n in range(5)))

    def half_block(self, block: int, half: int, n: int) -> HalfBlock:
        """The half block of trit n of each byte."""
        if self.pairs is None:
            return HalfBlock(block, half, self.trits[n])
        return half_of_bits(block, half, self.pairs[n % 2], n // 2 * 2, 2)


def _look_up(table: list[int], packed: PackedBytes) -> PackedBytes:
    b = packed.b
    are_high = [[b.icmp_signed("<", v, ir.Constant(v.type, None))] for v in packed.vectors]
    return PackedBytes(b, look_up_long(b, table, packed.vectors, are_high))


def _by_tripling(packed: PackedBytes) -> list[PackedBytes]:
    # 128 more, for comparisons of signed bytes: three times that is again 128 more, in a byte.
    powers, found = packed ^ 128, list[PackedBytes]()
    for _ in range(5):
        found.append(powers.reached(86 - 128, 171 - 128))
        powers = powers + powers + powers
    return found
