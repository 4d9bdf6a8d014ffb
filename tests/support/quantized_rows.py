"""Rows of quantized activations in NumPy, as `kquants.activations` documents them: `quantized`, `super_quantized`."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kquants import SUPER_FORMATS
from kquants.formats.winograd import STEPS
from kquants.layout import BLOCK_GROUP_BYTES, LARGEST_SUM, PADDING_ROWS, SUPER_GROUP_BYTES, X_BLOCK_BYTES
from kquants.simd.dot4 import VIA_INT16
from kquants.tuning import tuning

F32 = np.float32
Array = NDArray[Any]


@dataclass(frozen=True)
class BlockRows:
    """q int64 [rows, n] with a scale float32 for every 32, [rows, n / 32]."""

    q: Array
    scales: Array

    @classmethod
    def of(cls, x: Array) -> Self:
        """Those of x float32 [rows, n]."""
        blocks = x.astype(F32).reshape(len(x), -1, 32)
        with np.errstate(all="ignore"):
            largest = np.abs(blocks).max(axis=2)
            inverse = np.where(largest >= 1e-36, F32(127) / largest, F32(0)).astype(F32)
            q = np.rint(blocks * inverse[:, :, None])
            scales = np.where(np.isfinite(largest), largest / F32(127), np.nan).astype(F32)
        return cls(np.where(np.isfinite(q), q, 0).astype(np.int64).reshape(x.shape), scales)

    @classmethod
    def random(cls, rng: np.random.Generator, rows: int, n: int, scale: float = 0.05) -> Self:
        """Some, with scales up to about `scale`, some of them 0 or denormal."""
        few = rng.choice([1, 1, 1, 0, 1e-38], (rows, n // 32))
        return cls(rng.integers(-127, 128, (rows, n)), (rng.uniform(0, scale, few.shape) * few).astype(F32))

    def columns(self, start: int, stop: int) -> Self:
        """Those of some columns, whole blocks."""
        return type(self)(self.q[:, start:stop], self.scales[:, start // 32 : stop // 32])

    @property
    def sums(self) -> Array:
        """Of the q of each block."""
        return self.q.reshape(len(self.q), -1, 32).sum(2)

    def groups(self) -> Array:
        """The bytes of all groups, uint8 [groups, rows, bytes]."""
        rows, n = self.q.shape
        count = -(-n // 256)
        with np.errstate(all="ignore"):
            scaled_sums = self.scales * self.sums.astype(F32)
        sums = [-16 * self.q.reshape(rows, -1, 32)[..., :16].sum(2), -128 * self.sums]
        records = [*(_bytes(v, F32) for v in (self.scales, scaled_sums)), *(_bytes(v, np.int32) for v in sums)]
        out = np.full((rows, count, BLOCK_GROUP_BYTES), 0xFF, np.uint8)
        place_q, place_records = out[..., :256], out[..., 256:].reshape(rows, count, 8, X_BLOCK_BYTES)
        for b in range(n // 32):
            place_q[:, b // 8, b % 8 * 32 :][:, :32] = _bytes(self.q[:, 32 * b : 32 * b + 32], np.int8)
            place_records[:, b // 8, b % 8] = np.hstack([r[:, 4 * b : 4 * b + 4] for r in records])
        return out.swapaxes(0, 1)

    def arrays(self) -> list[Array]:
        """All that products are given."""
        return [self.groups()]


@dataclass(frozen=True)
class SuperRows:
    """q int64 [rows, n] with a scale d float32 for every 256 and an exponent for every 32."""

    q: Array
    d: Array
    exponents: Array

    @classmethod
    def of(cls, x: Array) -> Self:
        """Those of x float32 [rows, n]."""
        halves = np.abs(x.astype(F32)).reshape(len(x), -1, 8, 2, 16)
        with np.errstate(all="ignore"):
            sums = _pairwise(halves)
            by_largest = np.fmax.reduce(halves, 4) * F32(1 / tuning().activation_int8_max)
            needed = np.maximum(by_largest, sums * F32(1 / 1014)).max(3)
            most = np.fmax.reduce(needed, 2)
            d = most * F32(0.125)
            exponents = sum((needed > d[..., None] * F32(2**e)).astype(np.int64) for e in range(3))
            inverse = F32(1) / (d[..., None] * (1 << exponents).astype(F32))
            inverse = np.where(most[..., None] >= F32(1e-36), inverse, F32(0)).astype(F32)
            q = np.rint(x.astype(F32).reshape(len(x), -1, 8, 32) * inverse[..., None])
        broken = ~np.isfinite(sums).all((2, 3))
        d = np.where(broken, F32(np.nan), d).astype(F32)
        whole = np.where(np.isfinite(q), q, 0).astype(np.int64)
        return cls(whole.reshape(x.shape), d, np.asarray(exponents).reshape(len(x), -1))

    @classmethod
    def random(cls, rng: np.random.Generator, rows: int, n: int, scale: float = 0.05) -> Self:
        """Some, with scales up to about `scale`, some of them 0 or denormal; sums of magnitudes up to LARGEST_SUM."""
        q = rng.integers(-tuning().activation_int8_max, tuning().activation_int8_max + 1, (rows, n // 16, 16))
        sums = np.abs(q).sum(2, keepdims=True)
        q = (q * np.minimum(1, LARGEST_SUM / sums)).astype(np.int64)
        d = rng.uniform(0, scale, (rows, n // 256)) * rng.choice([1, 1, 1, 0, 1e-38], (rows, n // 256))
        return cls(q.reshape(rows, n), d.astype(F32), rng.integers(0, 4, (rows, n // 32)))

    def columns(self, start: int, stop: int) -> Self:
        """Those of some columns, whole super-blocks."""
        d, exponents = self.d[:, start // 256 : stop // 256], self.exponents[:, start // 32 : stop // 32]
        return type(self)(self.q[:, start:stop], d, exponents)

    @property
    def sums(self) -> Array:
        """Of the q of each half of a block."""
        return self.q.reshape(len(self.q), -1, 16).sum(2)

    @property
    def sums_of_words(self) -> Array:
        """Of bytes 0 and 1 of the words of each half, and of bytes 2 and 3."""
        return self.q.reshape(len(self.q), -1, 4, 2, 2).sum((2, 4)).reshape(len(self.q), -1)

    @property
    def minus_x(self) -> Array:
        """-X of each block, see `kquants.formats.winograd`."""
        words = self.q.reshape(len(self.q), -1, 8, 4)
        pairs = [(words[:, :, step[0]], words[:, :, step[1]]) for step in STEPS if len(step) == 2]
        return np.asarray(sum((8 * (x + other) - (x + 128) * other).sum(2) for x, other in pairs))

    def groups(self) -> Array:
        """The bytes of all groups, uint8 [groups, rows, bytes]."""
        e, twice = self.exponents, self.exponents.repeat(2, axis=1)
        blocks = self.sums.reshape(len(self.q), -1, 2).sum(2)
        fields = [
            (self.q, np.int8),
            (self.d, F32),
            (blocks << e, np.int16),
            (self.sums << twice, np.int16),
            (e, np.int16),
            (twice, np.int16),
            (-32 * self.sums_of_words, np.int16) if VIA_INT16 else (-32 * self.sums, np.int32),
        ]
        if tuning().winograd:
            fields.append((self.minus_x, np.int16))
        parts = [_bytes(v, kind).reshape(len(self.q), self.d.shape[1], -1) for v, kind in fields]
        rest = SUPER_GROUP_BYTES - sum(part.shape[2] for part in parts)
        parts.append(np.full((*parts[0].shape[:2], rest), 0xFF, np.uint8))
        out = np.concatenate(parts, axis=2)
        return out.swapaxes(0, 1)

    def int16(self) -> Array:
        """What follows all groups for matrix tiles: 2^e · q in two bytes, uint8 [groups, rows, bytes]."""
        v = (self.q << self.exponents.repeat(32, axis=1)).reshape(len(self.q), -1, 256)
        return np.concatenate([v & 0xFF, v >> 8 & 0xFF], axis=2).astype(np.uint8).swapaxes(0, 1)

    def arrays(self) -> list[Array]:
        """All that products with many rows are given."""
        return [self.groups(), self.int16()] if tuning().amx else [self.groups()]


Rows = BlockRows | SuperRows


def rows_for(name: str) -> type[BlockRows] | type[SuperRows]:
    """The kind that products with a format take."""
    return SuperRows if name in SUPER_FORMATS else BlockRows


def buffer_of(x: Rows, tokens: int) -> Array:
    """What a product of the first `tokens` rows is given, and behind it rows that it may read but must not use."""
    arrays = [v[:, :tokens] for v in x.arrays()]
    behind = np.full(PADDING_ROWS * sum(v.shape[2] for v in arrays), 0xFF, np.uint8)
    return np.concatenate([*(v.reshape(-1) for v in arrays), behind])


def _pairwise(x: Array) -> Array:
    """Sums over the last axis in the order of the kernels: neighbours first."""
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


def _bytes(values: Array, kind: Any) -> Array:
    """Rows of values as rows of bytes."""
    return np.ascontiguousarray(values.astype(kind)).view(np.uint8).reshape(len(values), -1)
