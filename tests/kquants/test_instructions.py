"""The instructions that `emulated` stands in for, by what their manuals say of each lane."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from support.cpus import AVX2, skip_without
from support.instructions import INSTRUCTIONS
from support.kernels import compiled

pytestmark = pytest.mark.cpus

Array = NDArray[Any]


@pytest.fixture(autouse=True)
def needs_what_it_emulates_with() -> None:
    skip_without(*AVX2)


def dot(sums: Array, x: Array, y: Array) -> Array:
    groups = (v.astype(np.int64).reshape(len(sums), -1) for v in (x, y))
    return sums + np.multiply(*groups).sum(1)


def vpdpbusd(sums: Array, u: Array, s: Array) -> Array:
    return dot(sums.view(np.int32), u, s.view(np.int8))


def sdot(sums: Array, x: Array, y: Array) -> Array:
    return dot(sums.view(np.int32), x.view(np.int8), y.view(np.int8))


def vpdpwssd(sums: Array, x: Array, y: Array) -> Array:
    return dot(sums.view(np.int32), x.view(np.int16), y.view(np.int16))


def vpmaddwd(x: Array, y: Array) -> Array:
    return vpdpwssd(np.zeros_like(x), x, y)


def vpmaddubsw(u: Array, s: Array) -> Array:
    return dot(np.zeros(len(u) // 2, np.int64), u, s.view(np.int8)).clip(-(2**15), 2**15 - 1).astype(np.int16)


def vpshufb(table: Array, index: Array) -> Array:
    lanes = np.arange(len(index)) // 16 * 16
    return np.where(index & 128, 0, table[lanes + index % 16])


def vpermb(table: Array, index: Array) -> Array:
    return table[index % 64]


def vpermi2b(first: Array, index: Array, second: Array) -> Array:
    return np.concatenate([first, second])[index % 128]


def tbl(table: Array, index: Array) -> Array:
    return np.where(index > 15, 0, table[index % 16])


def vpmultishiftqb(starts: Array, words: Array) -> Array:
    bits = np.unpackbits(words.reshape(-1, 8), axis=1, bitorder="little")
    places = (starts[:, None] % 64 + np.arange(8)) % 64
    return np.packbits(bits[np.arange(64)[:, None] // 8, places], axis=1, bitorder="little")[:, 0]


def vgf2p8affineqb(x: Array, matrix: Array, added: Array) -> Array:
    rows = np.unpackbits(matrix.reshape(-1, 8)[:, ::-1, None], axis=2).repeat(8, 0)
    parities = (rows & np.unpackbits(x[:, None, None], axis=2)).sum(2) % 2
    return np.packbits(parities, axis=1, bitorder="little")[:, 0] ^ added[0]


def without_denormals(x: Array) -> Array:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)


def dpbf16ps(sums: Array, x: Array, y: Array) -> Array:
    total = without_denormals(sums.view(np.float32))
    x, y = (without_denormals((v.view(np.uint16).astype(np.uint32) << 16).view(np.float32)) for v in (x, y))
    for place in (1, 0):
        exact = x[place::2].astype(np.float64) * y[place::2] + total  # or so near that it rounds alike
        total = without_denormals(exact.astype(np.float32))
    return total.view(np.int32)


def cvtne2ps2bf16(high: Array, low: Array) -> Array:
    bits = without_denormals(np.concatenate([low, high]).view(np.float32)).view(np.uint32).astype(np.int64)
    below, top = bits & 0xFFFF, bits >> 16
    return top + ((below > 0x8000) | ((below == 0x8000) & (top % 2 == 1)))


ORACLES: dict[str, Callable[..., Array]] = {
    "vpdpbusd": vpdpbusd,
    "vpdpwssd": vpdpwssd,
    "pmaddubs": vpmaddubsw,
    "pmaddw": vpmaddwd,
    "pshuf": vpshufb,
    "permvar": vpermb,
    "vpermi2var": vpermi2b,
    "pmultishift": vpmultishiftqb,
    "vgf2p8affineqb": vgf2p8affineqb,
    "dpbf16ps": dpbf16ps,
    "cvtne2ps2bf16": cvtne2ps2bf16,
    "sdot": sdot,
    "usdot": vpdpbusd,
    "tbl1": tbl,
}


def function(name: str) -> Any:
    """`f(result, operands …)` over the addresses of bytes."""
    emit, result, operands = INSTRUCTIONS[name]
    module, kinds = ir.Module(), [result, *operands]
    f = ir.Function(module, ir.FunctionType(ir.VoidType(), [kind.as_pointer() for kind in kinds]), "f")
    b = ir.IRBuilder(f.append_basic_block())
    b.store(emit(b, *(b.load(place, align=1) for place in f.args[1:])), f.args[0], align=1)
    b.ret_void()
    return compiled(module, len(kinds))


def byte_count(kind: Any) -> int:
    return kind.count * getattr(kind.element, "width", 32) // 8 if hasattr(kind, "count") else 1  # float has no width


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_emulated_instruction_does_what_its_manual_says(name: str) -> None:
    run, (_, result, operands) = function(name), INSTRUCTIONS[name]
    oracle = next(ORACLES[word] for word in name.split(".") if word in ORACLES)
    sizes = [byte_count(kind) for kind in (result, *operands)]
    rng = np.random.default_rng(1)
    for choose in (lambda n: rng.integers(0, 256, n), lambda n: rng.choice([0, 1, 127, 128, 255], n)):
        for _ in range(50):
            made, *given = (choose(size).astype(np.uint8) for size in sizes)
            if "bf16" in name:  # neither Inf nor NaN, whose bits are nobody's promise: exponents are below 128
                given = [v & np.tile(np.uint8([255, 191]), len(v) // 2) for v in given]
            run(*(v.ctypes.data for v in (made, *given)))
            wanted = oracle(*given)
            assert np.array_equal(made, wanted.astype(f"i{sizes[0] // len(wanted)}").view(np.uint8))
