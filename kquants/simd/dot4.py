"""Dot products of four unsigned bytes with four signed ones, added to int32 lanes, by the best instructions of the CPU.

| lowering          | needs        | instructions                         |
|-------------------|--------------|--------------------------------------|
| `AVX-512 VNNI`    | `avx512vnni` | vpdpbusd, 512 bits at once           |
| `AVX-VNNI`        | `avxvnni`    | vpdpbusd, 256                        |
| `AVX-512`         | `avx512bw`   | vpmaddubsw and vpmaddwd, 512         |
| `AVX2`            | `avx2`       | the same, 256                        |
| `SSSE3`           | `ssse3`      | the same, 128                        |
| `Arm dot product` | `dotprod`    | sdot, or usdot where `i8mm` is, 128  |
| `plain vectors`   |              | what LLVM makes of products and sums |

Each is exact, so they differ in speed alone.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from kquants.compiler.cpu import has, lowering
from kquants.simd import joined, shuffle
from kquants.simd.dot4_madd import Madd128, Madd256, Madd512
from kquants.simd.dot_accumulator import DotAccumulator, every_lane

_SHORT, _INT = ir.IntType(16), ir.IntType(32)

_HAS_VNNI = "VNNI" in lowering()

SIGNED_OFFSET = 128 if _HAS_VNNI else 0
"""What is added to signed weights before they are multiplied: vpdpbusd takes them unsigned, the others signed."""

TAKES_BYTES = _HAS_VNNI
"""Whether unsigned bytes of eight bits are multiplied as fast as those of fewer bits."""

VIA_INT16 = lowering() in ("AVX-512", "AVX2", "SSSE3")
"""Whether products of bytes pass through int16, where some are added up before they are widened to int32.

There, signed bytes are multiplied faster as int16 (`kquants.simd.dot2`) if many rows share the widening of the weights:
the number of products is the same, and there are no magnitudes and signs to compute. (Measured on Zen 4 with AVX2
alone: Q8_0 is 1.3 times as fast.)
"""


class _Vnni(DotAccumulator):
    def _add(self, i: int, u: Any, s: Any) -> None:
        u, s = (self._b.bitcast(v, self._sums[i].type) for v in (u, s))
        self._sums[i] = self._call(f"llvm.x86.avx512.vpdpbusd.{self.WIDTH}", self._sums[i], u, s)


class _Vnni256(_Vnni):
    WIDTH = 256


class _Arm(DotAccumulator):
    """sdot where u is below 128; otherwise usdot, or sdot of u - 128 plus 128 times the sum of s."""

    WIDTH = 128

    def __init__(self, b: ir.IRBuilder, sums: Any, bits: int = 8, signed: bool = False) -> None:
        super().__init__(b, sums, bits, signed)
        self._unsigned = bits == 8 and not signed
        self._s_sums = [ir.Constant(v.type, None) for v in self._sums]

    def _add(self, i: int, u: Any, s: Any) -> None:
        native = self._unsigned and has("i8mm")
        name = f"llvm.aarch64.neon.{'usdot' if native else 'sdot'}.v4i32.v16i8"
        if self._unsigned and not native:
            u = self._b.xor(u, every_lane(u.type, 128))
            self._s_sums[i] = self._call(name, self._s_sums[i], every_lane(u.type, 1), s)
        self._sums[i] = self._call(name, self._sums[i], u, s)

    def total(self) -> Any:
        shifted = [self._b.shl(v, every_lane(v.type, 7)) for v in self._s_sums]
        return joined(self._b, [self._b.add(x, y) for x, y in zip(self._sums, shifted, strict=True)])


class _Plain(DotAccumulator):
    def _add(self, i: int, u: Any, s: Any) -> None:
        b, shorts = self._b, ir.VectorType(_SHORT, 64)
        # A byte of 7 bits is signed, too: Arm multiplies bytes if both are, and a product always fits in 16 bits.
        widened = b.zext(u, shorts) if self._bits == 8 and not self._signed else b.sext(u, shorts)
        products = b.sext(b.mul(widened, b.sext(s, shorts)), ir.VectorType(_INT, 64))
        self._sums[i] = b.add(self._sums[i], self._pair_sums(self._pair_sums(products)))

    def _pair_sums(self, x: Any) -> Any:
        return self._b.add(*(shuffle(self._b, x, x, range(k, x.type.count, 2)) for k in (0, 1)))


_LOWERINGS: dict[str, Callable[..., DotAccumulator]] = {
    "AVX-512 VNNI": _Vnni,
    "AVX-VNNI": _Vnni256,
    "AVX-512": Madd512,
    "AVX2": Madd256,
    "SSSE3": Madd128,
    "Arm dot product": _Arm,
    "plain vectors": _Plain,
}


def start_dot4(b: ir.IRBuilder, sums: Any, bits: int = 8, signed: bool = False) -> DotAccumulator:
    """An accumulator for bytes that begins with `sums`."""
    return _LOWERINGS[lowering()](b, sums, bits, signed)


def start_dot4_via_int16(
    b: ir.IRBuilder, sums: Any, bits: int, first: Any = None, factors: Any = None
) -> DotAccumulator:
    """An accumulator for bytes whose products pass through int16 (`VIA_INT16`): may begin with int16 sums, and scale.

    `first` has two int16 for each lane: the first is added to the products of the lane's first two bytes, the second to
    those of its last two. Each final sum must fit into int16; intermediate sums may wrap. The address `factors` holds
    two equal int16 for each lane, by which its products are multiplied while they are widened. `bits` is at most 7.
    """
    assert bits < 8
    return _LOWERINGS[lowering()](b, sums, bits, False, first, factors)
