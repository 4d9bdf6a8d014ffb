"""The accumulator of dot products: int32 lanes to which products of small integers are added.

`kquants.simd.dot4` has one for bytes, in a lowering for each kind of CPU, `kquants.simd.dot2` one for int16.
"""

from typing import Any

from llvmlite import ir

from kquants.simd import call, joined, split


class DotAccumulator:
    """Sixteen int32 lanes, begun with `sums`: `add` products, then take the `total`. With AVX2 there may be eight.

    `bits`: the unsigned bytes are below 2**bits. On CPUs where products pass through int16, more of them are added up
    before they are widened if they have fewer bits, so one accumulator should see a whole block.
    `signed`: the unsigned bytes are signed weights plus SIGNED_OFFSET, whose magnitudes are below 2**bits, and no byte
    of the other side is -128.
    """

    WIDTH = 512
    """Bits of the operands of one instruction."""

    def __init__(self, b: ir.IRBuilder, sums: Any, bits: int = 8, signed: bool = False) -> None:
        self._b, self._bits, self._signed = b, bits, signed
        self._sums = split(b, sums, 32 * sums.type.count // self.WIDTH)

    def add(self, u: Any, s: Any) -> None:
        """Add to each lane the products of its four bytes of u with those of s."""
        count = len(self._sums)
        for i, (u_piece, s_piece) in enumerate(zip(split(self._b, u, count), split(self._b, s, count), strict=True)):
            self._add(i, u_piece, s_piece)

    def total(self) -> Any:
        """The lanes."""
        return joined(self._b, self._sums)

    def int16_sums(self) -> Any:
        """Where products pass through int16: the sums of eight lanes so far, if those of a sub-block fit into int16."""
        raise NotImplementedError

    def _add(self, i: int, u: Any, s: Any) -> None:
        raise NotImplementedError

    def _call(self, name: str, sums: Any, u: Any, s: Any) -> Any:
        return call(self._b, name, sums.type, sums, u, s)


def every_lane(kind: Any, value: int) -> Any:
    """A constant in all lanes of a vector type."""
    return ir.Constant(kind, [value] * kind.count)
