"""Products of four unsigned bytes with four signed ones, added to int32 lanes, by what the CPU has for it.

| lowering          | needs        | instructions                         |
|-------------------|--------------|--------------------------------------|
| `AVX-512 VNNI`    | `avx512vnni` | vpdpbusd, 512 bits at once           |
| `AVX-VNNI`        | `avxvnni`    | vpdpbusd, 256                        |
| `AVX-512`         | `avx512bw`   | vpmaddubsw and vpmaddwd, 512         |
| `AVX2`            | `avx2`       | the same, 256                        |
| `SSSE3`           | `ssse3`      | the same, 128                        |
| `Arm dot product` | `dotprod`    | sdot, or usdot where `i8mm` is, 128  |
| `plain vectors`   |              | what LLVM makes of products and sums |

Each is exact for all bytes, so they differ in speed alone.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from kquants.cpu import has, lowering
from kquants.simd import call, joined, pieces

_BYTE, _SHORT, _INT = ir.IntType(8), ir.IntType(16), ir.IntType(32)


class Dot4:
    """Sixteen int32 lanes that grow by products: `add` some, then take the `total`.

    `bits` tells that the unsigned bytes are below 2**bits. On some CPUs products pass through int16, where the fewer
    bits they have, the more of them can be added up before they are widened: so one Dot4 should see a whole block.
    """

    WIDTH = 512
    """Bits that one instruction takes."""

    def __init__(self, b: ir.IRBuilder, sums: Any, bits: int = 8) -> None:
        self._b, self._bits = b, bits
        self._sums = self._pieces(sums)

    def add(self, u: Any, s: Any) -> None:
        """To each lane, the product of its four bytes of u, unsigned, with those of s, signed: 64 bytes each."""
        for i, (piece_u, piece_s) in enumerate(zip(self._pieces(u), self._pieces(s), strict=True)):
            self._add(i, piece_u, piece_s)

    def total(self) -> Any:
        """The 16 lanes."""
        return joined(self._b, self._sums)

    def _add(self, i: int, u: Any, s: Any) -> None:
        raise NotImplementedError

    def _pieces(self, v: Any) -> list[Any]:
        return pieces(self._b, v, 512 // self.WIDTH)

    def _call(self, name: str, sums: Any, u: Any, s: Any) -> Any:
        return call(self._b, name, sums.type, sums, u, s)


def _same(like: Any, value: int) -> Any:
    return ir.Constant(like, [value] * like.count)


class _Vnni(Dot4):
    def _add(self, i: int, u: Any, s: Any) -> None:
        u, s = (self._b.bitcast(v, self._sums[i].type) for v in (u, s))
        self._sums[i] = self._call(f"llvm.x86.avx512.vpdpbusd.{self.WIDTH}", self._sums[i], u, s)


class _Vnni256(_Vnni):
    WIDTH = 256


class _Madd(Dot4):
    """Products of two bytes as int16 (vpmaddubsw), then two of them as int32 (vpmaddwd).

    The first saturates beyond 7 bits. Bytes of 8 bits are cut into two nibbles, each a chain of its own: cheaper
    than the sign trick (its sums must be widened at each step), and exact for -128 as well.
    """

    TWO_BYTES, TWO_SHORTS = "llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"

    def __init__(self, b: ir.IRBuilder, sums: Any, bits: int = 8) -> None:
        super().__init__(b, sums, bits)
        self._shifts = (0, 4) if bits == 8 else (0,)
        # (2**bits - 1) · 256 · 2**(7 - bits) < 2**15: so many products fit into int16.
        self._longest = 1 << (7 - (4 if bits == 8 else bits))
        self._chains: dict[tuple[int, int], tuple[int, Any]] = {}

    def _add(self, i: int, u: Any, s: Any) -> None:
        b, shorts = self._b, ir.VectorType(_SHORT, self.WIDTH // 16)
        for shift in self._shifts:
            digits = b.and_(b.lshr(u, _same(u.type, shift)), _same(u.type, 15)) if self._bits == 8 else u
            product = call(b, self.TWO_BYTES, shorts, digits, s)
            length, chain = self._chains.pop((i, shift), (0, None))
            self._chains[i, shift] = length + 1, b.add(chain, product) if length else product
            if length + 1 == self._longest:
                self._widen(i, shift)

    def _widen(self, i: int, shift: int) -> None:
        _, chain = self._chains.pop((i, shift))
        ints = call(self._b, self.TWO_SHORTS, self._sums[i].type, chain, _same(chain.type, 1 << shift))
        self._sums[i] = self._b.add(self._sums[i], ints)

    def total(self) -> Any:
        for i, shift in list(self._chains):
            self._widen(i, shift)
        return super().total()


class _Madd256(_Madd):
    WIDTH = 256
    TWO_BYTES, TWO_SHORTS = "llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"


class _Madd128(_Madd):
    WIDTH = 128
    TWO_BYTES, TWO_SHORTS = "llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"


class _Arm(Dot4):
    """sdot, as below 128 unsigned is signed; beyond it usdot, or sdot of u - 128 and 128 times the sum of s."""

    WIDTH = 128

    def __init__(self, b: ir.IRBuilder, sums: Any, bits: int = 8) -> None:
        super().__init__(b, sums, bits)
        self._sums_of_s = [ir.Constant(v.type, None) for v in self._sums]
        self._native = bits < 8 or has("i8mm")

    def _add(self, i: int, u: Any, s: Any) -> None:
        name = f"llvm.aarch64.neon.{'sdot' if self._bits < 8 or not self._native else 'usdot'}.v4i32.v16i8"
        if not self._native:
            u = self._b.xor(u, _same(u.type, 128))
            self._sums_of_s[i] = self._call(name, self._sums_of_s[i], _same(u.type, 1), s)
        self._sums[i] = self._call(name, self._sums[i], u, s)

    def total(self) -> Any:
        if not self._native:
            shifted = [self._b.shl(v, _same(v.type, 7)) for v in self._sums_of_s]
            self._sums = [self._b.add(x, y) for x, y in zip(self._sums, shifted, strict=True)]
        return super().total()


class _Plain(Dot4):
    def _add(self, i: int, u: Any, s: Any) -> None:
        b, shorts = self._b, ir.VectorType(_SHORT, 64)
        # A byte of 7 bits is signed, too: Arm multiplies bytes if both are, and a product always fits in 16 bits.
        widened = b.zext(u, shorts) if self._bits == 8 else b.sext(u, shorts)
        products = b.sext(b.mul(widened, b.sext(s, shorts)), ir.VectorType(_INT, 64))
        self._sums[i] = b.add(self._sums[i], self._neighbours(self._neighbours(products)))

    def _neighbours(self, x: Any) -> Any:
        every_other = [list(range(k, x.type.count, 2)) for k in (0, 1)]
        masks = [ir.Constant(ir.VectorType(_INT, len(lanes)), lanes) for lanes in every_other]
        return self._b.add(*(self._b.shuffle_vector(x, x, mask) for mask in masks))


_LOWERINGS: dict[str, Callable[..., Dot4]] = {
    "AVX-512 VNNI": _Vnni,
    "AVX-VNNI": _Vnni256,
    "AVX-512": _Madd,
    "AVX2": _Madd256,
    "SSSE3": _Madd128,
    "Arm dot product": _Arm,
    "plain vectors": _Plain,
}


def start_dot4(b: ir.IRBuilder, sums: Any, bits: int = 8) -> Dot4:
    """A Dot4 that begins with these sums."""
    return _LOWERINGS[lowering()](b, sums, bits)


def dot4(b: ir.IRBuilder, sums: Any, u: Any, s: Any, bits: int = 8) -> Any:
    """Each int32 lane of `sums` plus the exact product of four unsigned bytes of u with four signed ones of s."""
    dot = start_dot4(b, sums, bits)
    dot.add(u, s)
    return dot.total()
