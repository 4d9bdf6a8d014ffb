"""The instructions that `emulated` stands in for, by what their manuals say of each lane."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from instructions import INSTRUCTIONS
from kernels import compiled
from llvmlite import ir
from numpy.typing import NDArray
from test_kquants_cpus import AVX2, skip_without

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


ORACLES: dict[str, Callable[..., Array]] = {
    "vpdpbusd": vpdpbusd,
    "vpdpwssd": vpdpwssd,
    "pmaddubs": vpmaddubsw,
    "pmaddw": vpmaddwd,
    "pshuf": vpshufb,
    "pmultishift": vpmultishiftqb,
    "vgf2p8affineqb": vgf2p8affineqb,
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


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_emulated_instruction_does_what_its_manual_says(name: str) -> None:
    run, (_, result, operands) = function(name), INSTRUCTIONS[name]
    oracle = next(ORACLES[word] for word in name.split(".") if word in ORACLES)
    sizes = [kind.count * kind.element.width // 8 if hasattr(kind, "count") else 1 for kind in (result, *operands)]
    rng = np.random.default_rng(1)
    for choose in (lambda n: rng.integers(0, 256, n), lambda n: rng.choice([0, 1, 127, 128, 255], n)):
        for _ in range(50):
            made, *given = (choose(size).astype(np.uint8) for size in sizes)
            run(*(v.ctypes.data for v in (made, *given)))
            wanted = oracle(*given)
            assert np.array_equal(made, wanted.astype(f"i{sizes[0] // len(wanted)}").view(np.uint8))
