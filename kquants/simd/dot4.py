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

Each is exact, so they differ in speed alone.
"""

import math
from collections.abc import Callable
from typing import Any

from llvmlite import ir

from kquants.compiler.cpu import has, lowering
from kquants.simd import at, call, computed_here, joined, load, opaque, pick, split

_SHORT, _INT = ir.IntType(16), ir.IntType(32)

_VNNI = "VNNI" in lowering()

SIGNED_OFFSET = 128 if _VNNI else 0
"""What is added to signed weights to multiply them: vpdpbusd takes them unsigned, all others signed."""

TAKES_BYTES = _VNNI
"""Whether unsigned bytes with all eight bits are multiplied as fast as others."""

VIA_INT16 = lowering() in ("AVX-512", "AVX2", "SSSE3")
"""Whether products of bytes pass through int16, where some are added up before they are widened: see `start_short`.

Signed bytes are multiplied faster as int16 there, by `Dot2`, where many rows share that they are widened: it takes as
many products, but no magnitudes and signs. (A Zen 4 with AVX2 alone multiplies Q8_0 1.3 times as fast.)
"""


class Dot4:
    """Sixteen int32 lanes that grow by products: `add` some, then take the `total`. With AVX2 there may be eight.

    `bits` tells that the unsigned bytes are below 2**bits. On some CPUs products pass through int16, where the fewer
    bits they have, the more of them can be added up before they are widened: so one Dot4 should see a whole block.
    `signed` tells that they are signed weights plus SIGNED_OFFSET, whose magnitudes are below 2**bits, and that none of
    the other side is -128.
    """

    WIDTH = 512
    """Bits that one instruction takes."""

    def __init__(self, b: ir.IRBuilder, sums: Any, bits: int = 8, signed: bool = False) -> None:
        self._b, self._bits, self._signed = b, bits, signed
        self._sums = split(b, sums, 32 * sums.type.count // self.WIDTH)

    def add(self, u: Any, s: Any) -> None:
        """To each lane, the product of its four bytes of u with those of s."""
        count = len(self._sums)
        for i, (u_piece, s_piece) in enumerate(zip(split(self._b, u, count), split(self._b, s, count), strict=True)):
            self._add(i, u_piece, s_piece)

    def total(self) -> Any:
        """All lanes."""
        return joined(self._b, self._sums)

    def shorts(self) -> Any:
        """Where products pass through int16: what eight lanes' have come to, if all of a span fit into it."""
        raise NotImplementedError

    def _add(self, i: int, u: Any, s: Any) -> None:
        raise NotImplementedError

    def _call(self, name: str, sums: Any, u: Any, s: Any) -> Any:
        return call(self._b, name, sums.type, sums, u, s)


def _all(kind: Any, value: int) -> Any:
    return ir.Constant(kind, [value] * kind.count)


class _Vnni(Dot4):
    def _add(self, i: int, u: Any, s: Any) -> None:
        u, s = (self._b.bitcast(v, self._sums[i].type) for v in (u, s))
        self._sums[i] = self._call(f"llvm.x86.avx512.vpdpbusd.{self.WIDTH}", self._sums[i], u, s)


class _Vnni256(_Vnni):
    WIDTH = 256


class _Madd(Dot4):
    """Products of two bytes as int16 (vpmaddubsw), then two of them as int32 (vpmaddwd).

    The first saturates beyond 7 bits. Of signed weights, or of what they meet, it takes the magnitude, and gives the
    sign to the other side; unsigned ones are cut into nibbles. Sums are `computed_here`: LLVM would do one after the
    other and, with only 16 registers, load and store all weights again for each (half the speed).
    """

    TWO_BYTES, TWO_SHORTS = "llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"

    def __init__(
        self, b: ir.IRBuilder, sums: Any, bits: int = 8, signed: bool = False, first: Any = None, factors: Any = None
    ) -> None:
        super().__init__(b, sums, bits, signed)
        self._in_nibbles, self._factors = bits == 8 and not signed, factors
        # (2**bits - 1) · 256 · 2**(7 - bits) < 2**15: so many products fit into int16. With `first` all of a span do.
        self._longest: float = 1 if signed else 1 << (7 - (4 if self._in_nibbles else bits))
        self._chains: dict[tuple[int, int], tuple[int, Any]] = {}
        if first:
            self._longest = math.inf
            shorts = ir.VectorType(_SHORT, self.WIDTH // 16)
            for i, piece in enumerate(split(b, first, len(self._sums))):
                self._chains[i, 0] = 1, b.bitcast(piece, shorts)

    def _add(self, i: int, u: Any, s: Any) -> None:
        b = self._b
        if self._signed:
            if self._bits < 8:
                # As neither is -128, it may be either whose sign is moved: rather s, which many rows of W meet, so that
                # its magnitude is computed once. A Zen 4 with AVX2 alone decodes IQ4_NL 8 % faster so, IQ4_XS 5.
                u, s = s, u
            u, s = call(b, f"llvm.abs.v{self.WIDTH // 8}i8", u.type, u, ir.IntType(1)(0)), self._with_sign(s, u)
        if self._in_nibbles:
            self._extend(i, 4, b.lshr(u, _all(u.type, 4)), s)
            u = b.and_(u, _all(u.type, 15))
        self._extend(i, 0, u, s)

    def _with_sign(self, s: Any, u: Any) -> Any:
        return self._b.select(self._b.icmp_signed("<", u, _all(u.type, 0)), self._b.neg(s), s)

    def _extend(self, i: int, shift: int, u: Any, s: Any) -> None:
        """Add products to the chain of piece i that counts 2**shift times."""
        product = call(self._b, self.TWO_BYTES, ir.VectorType(_SHORT, self.WIDTH // 16), u, s)
        length, chain = self._chains.pop((i, shift), (0, None))
        self._chains[i, shift] = length + 1, computed_here(self._b, self._b.add(chain, product)) if length else product
        if length + 1 == self._longest:
            self._widen(i, shift)

    def _widen(self, i: int, shift: int) -> None:
        _, chain = self._chains.pop((i, shift))
        factors = _all(chain.type, 1 << shift)
        if self._factors:
            factors = load(self._b, at(self._b, self._factors, self.WIDTH // 8 * i), chain.type)
        ints = call(self._b, self.TWO_SHORTS, self._sums[i].type, chain, factors)
        self._sums[i] = self._b.add(self._sums[i], ints)
        if self._longest == 1:
            self._sums[i] = computed_here(self._b, self._sums[i])

    def total(self) -> Any:
        for i, shift in list(self._chains):
            self._widen(i, shift)
        return super().total()

    def shorts(self) -> Any:
        assert len(self._chains) == 1, "some were widened"
        ((_, chain),) = self._chains.values()
        return chain


class _Madd256(_Madd):
    WIDTH = 256
    TWO_BYTES, TWO_SHORTS = "llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"

    def _with_sign(self, s: Any, u: Any) -> Any:
        return call(self._b, "llvm.x86.avx2.psign.b", s.type, s, u)


class _Madd128(_Madd):
    WIDTH = 128
    TWO_BYTES, TWO_SHORTS = "llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"

    def _with_sign(self, s: Any, u: Any) -> Any:
        return call(self._b, "llvm.x86.ssse3.psign.b.128", s.type, s, u)


class _Arm(Dot4):
    """sdot, as below 128 unsigned is signed; beyond it usdot, or sdot of u - 128 and 128 times the sum of s."""

    WIDTH = 128

    def __init__(self, b: ir.IRBuilder, sums: Any, bits: int = 8, signed: bool = False) -> None:
        super().__init__(b, sums, bits, signed)
        self._unsigned = bits == 8 and not signed
        self._s_sums = [ir.Constant(v.type, None) for v in self._sums]

    def _add(self, i: int, u: Any, s: Any) -> None:
        native = self._unsigned and has("i8mm")
        name = f"llvm.aarch64.neon.{'usdot' if native else 'sdot'}.v4i32.v16i8"
        if self._unsigned and not native:
            u = self._b.xor(u, _all(u.type, 128))
            self._s_sums[i] = self._call(name, self._s_sums[i], _all(u.type, 1), s)
        self._sums[i] = self._call(name, self._sums[i], u, s)

    def total(self) -> Any:
        shifted = [self._b.shl(v, _all(v.type, 7)) for v in self._s_sums]
        return joined(self._b, [self._b.add(x, y) for x, y in zip(self._sums, shifted, strict=True)])


class _Plain(Dot4):
    def _add(self, i: int, u: Any, s: Any) -> None:
        b, shorts = self._b, ir.VectorType(_SHORT, 64)
        # A byte of 7 bits is signed, too: Arm multiplies bytes if both are, and a product always fits in 16 bits.
        widened = b.zext(u, shorts) if self._bits == 8 and not self._signed else b.sext(u, shorts)
        products = b.sext(b.mul(widened, b.sext(s, shorts)), ir.VectorType(_INT, 64))
        self._sums[i] = b.add(self._sums[i], self._neighbours(self._neighbours(products)))

    def _neighbours(self, x: Any) -> Any:
        return self._b.add(*(pick(self._b, x, x, range(k, x.type.count, 2)) for k in (0, 1)))


_LOWERINGS: dict[str, Callable[..., Dot4]] = {
    "AVX-512 VNNI": _Vnni,
    "AVX-VNNI": _Vnni256,
    "AVX-512": _Madd,
    "AVX2": _Madd256,
    "SSSE3": _Madd128,
    "Arm dot product": _Arm,
    "plain vectors": _Plain,
}


def start_dot4(b: ir.IRBuilder, sums: Any, bits: int = 8, signed: bool = False) -> Dot4:
    """A Dot4 that begins with these sums."""
    return _LOWERINGS[lowering()](b, sums, bits, signed)


def start_short(b: ir.IRBuilder, sums: Any, bits: int, first: Any = None, factors: Any = None) -> Dot4:
    """The same where products pass through int16 (`VIA_INT16`), which may begin with some and be scaled there.

    `first` has two int16 for each lane: the first is added to the products of the lane's first two bytes, the second to
    those of its last two. Each of them, with its products, must then fit into int16, however large it was on the way.
    At the address `factors` are two int16 for each lane, equal ones, by which its products are multiplied while they
    are widened. `bits` is at most 7.
    """
    assert bits < 8
    return _LOWERINGS[lowering()](b, sums, bits, False, first, factors)


# --- int16 -----------------------------------------------------------------------------------------------

_TWO_SHORTS = {
    "AVX-512 VNNI": (512, "llvm.x86.avx512.vpdpwssd.512"),
    "AVX-VNNI": (256, "llvm.x86.avx512.vpdpwssd.256"),
    "AVX-512": (512, _Madd.TWO_SHORTS),
    "AVX2": (256, _Madd256.TWO_SHORTS),
    "SSSE3": (128, _Madd128.TWO_SHORTS),
}

PAIRS_OF_SHORTS = lowering() in _TWO_SHORTS
"""Whether one instruction multiplies two int16 with two others, and adds."""


def dot2(b: ir.IRBuilder, sums: Any, x: Any, y: Any) -> Any:
    """16 int32 sums and, to each, the products of two int16 of x with two of y."""
    if not PAIRS_OF_SHORTS:
        low = b.mul(low_shorts(b, x), low_shorts(b, y))
        return b.add(b.add(sums, low), b.mul(high_shorts(b, x), high_shorts(b, y)))
    width, name = _TWO_SHORTS[lowering()]
    adds = _VNNI
    parts = []
    for total, *two in zip(*(split(b, v, 512 // width) for v in (sums, x, y)), strict=True):
        if not adds:
            two = [b.bitcast(v, ir.VectorType(_SHORT, width // 16)) for v in two]
        parts.append(call(b, name, total.type, total, *two) if adds else b.add(total, call(b, name, total.type, *two)))
    return joined(b, parts)


class Dot2(Dot4):
    """The same for int16, where `VIA_INT16`: to each lane go the products of its two int16 of u with those of s."""

    WIDTH, _NAME = _TWO_SHORTS.get(lowering(), (512, ""))

    def _add(self, i: int, u: Any, s: Any) -> None:
        two = (self._b.bitcast(v, ir.VectorType(_SHORT, self.WIDTH // 16)) for v in (u, s))
        products = call(self._b, self._NAME, self._sums[i].type, *two)
        self._sums[i] = computed_here(self._b, self._b.add(self._sums[i], products))


def paired_shorts(b: ir.IRBuilder, low: Any, high: Any) -> Any:
    """Two int16 in each lane: the low one of `low`, and above it the low one of `high`."""
    high = b.shl(high, _all(high.type, 16))
    if has("avx512bw"):
        # LLVM would make shift and blend a permutation of two registers. Beside products that costs a cycle on a
        # Zen 4, a shift and a blend nothing: with a row in each lane Q4_K is 4 % faster.
        high = opaque(b, high)
    shorts = ir.VectorType(_SHORT, 32)
    odd = ir.Constant(ir.VectorType(ir.IntType(1), 32), [0, 1] * 16)
    return b.bitcast(b.select(odd, b.bitcast(high, shorts), b.bitcast(low, shorts)), low.type)


def packed_shorts(b: ir.IRBuilder, x: Any, y: Any) -> Any:
    """Int32 that are int16, as such: four of x, four of y, the next four of x, and so on. For AVX-512 alone.

    One instruction, where `paired_shorts` takes two, and as good where each four lanes have the same factor. A Zen 4
    multiplies Q6_K 6 % faster so, weights in the caches.
    """
    return b.bitcast(call(b, "llvm.x86.avx512.packssdw.512", ir.VectorType(_SHORT, 32), x, y), x.type)


def low_shorts(b: ir.IRBuilder, v: Any) -> Any:
    """The low int16 of each lane as int32."""
    return b.ashr(b.shl(v, _all(v.type, 16)), _all(v.type, 16))


def high_shorts(b: ir.IRBuilder, v: Any) -> Any:
    """The high int16 of each lane as int32."""
    return b.ashr(v, _all(v.type, 16))
