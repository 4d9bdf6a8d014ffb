"""Matrix tiles, on any CPU: their instructions are calls to an emulator here; the rest is what runs with real ones."""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from llvmlite import ir

from kquants import jit
from kquants.activations import row_quantizer
from kquants.compiler import compile
from kquants.compiler.decorators import KERNELS
from kquants.matmul import amx, quantized
from kquants.matmul.strategy import strategy_of
from kquants.tuning import tuning
from support import documented_matmul, quantized_rows, quantized_targets
from support.documented_matmul import expression, extremes, largest_weights, some_weights
from support.grouped import GROUPS, check_groups
from support.kernels import KINDS, addresses, same_bits
from support.matmul import matmul
from support.quantized_rows import Rows, buffer_of, rows_for
from support.quantized_targets import quantize

pytestmark = pytest.mark.cpus

_LONG = ir.IntType(64)


WITH_AMX = replace(tuning(), amx=True, decode_rows=8, prefill_tiles=1, winograd=False, activation_int8_max=127)
"""This CPU, if it had AMX."""


class Tiles:
    """The eight tile registers, as the manual describes them: up to 16 rows of up to 64 bytes."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.row_bytes: list[int] = []
        self.registers: dict[int, Any] = {}

    def ldtilecfg(self, address: int, *_: int) -> None:
        configuration = np.frombuffer(ctypes.string_at(address, 64), np.uint8)
        assert configuration[0] == 1, "palette"
        self.row_bytes = configuration[16:32].view(np.uint16).tolist()
        self.rows = configuration[48:56].tolist()
        assert max(self.rows) <= 16 and max(self.row_bytes) <= 64

    def tilezero(self, tile: int, *_: int) -> None:
        self.registers[tile] = np.zeros((self.rows[tile], self.row_bytes[tile]), np.uint8)

    def tileloadd64(self, tile: int, address: int, stride: int) -> None:
        self.tilezero(tile)
        for i, row in enumerate(self.registers[tile]):
            row[:] = np.frombuffer(ctypes.string_at(address + i * stride, len(row)), np.uint8)

    def tilestored64(self, tile: int, address: int, stride: int) -> None:
        for i, row in enumerate(self.registers[tile]):
            ctypes.memmove(address + i * stride, row.ctypes.data, len(row))

    def tdpbssd(self, to: int, a: int, b: int) -> None:
        self._multiply(to, a, b, np.int8, np.int8)

    def tdpbsud(self, to: int, a: int, b: int) -> None:
        self._multiply(to, a, b, np.int8, np.uint8)

    def tdpbusd(self, to: int, a: int, b: int) -> None:
        self._multiply(to, a, b, np.uint8, np.int8)

    def tdpbuud(self, to: int, a: int, b: int) -> None:
        self._multiply(to, a, b, np.uint8, np.uint8)

    def tilerelease(self, *_: int) -> None:
        self.registers.clear()

    def _multiply(self, to: int, a: int, b: int, of_a: type[np.integer[Any]], of_b: type[np.integer[Any]]) -> None:
        """To each int32 (m, n), the products of four bytes (m, 4k …) of a with those (k, 4n …) of b."""
        left = self.registers[a].view(of_a).astype(np.int64)
        right = self.registers[b].view(of_b).astype(np.int64)
        right = right.reshape(len(right), -1, 4).swapaxes(1, 2).reshape(4 * len(right), -1)
        self.registers[to].view(np.int32)[...] += (left @ right).astype(np.int32)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Callable[[str], str]]:
    """The name of a product kernel for a format, made with emulated tiles."""
    patch, tiles, kept = pytest.MonkeyPatch(), Tiles(), []
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)

    def emulated(b: ir.IRBuilder, name: str, *values: Any) -> None:
        instruction = prototype(getattr(tiles, name))
        kept.append(instruction)
        function = ir.FunctionType(ir.VoidType(), [_LONG] * 3).as_pointer()
        address = _LONG(ctypes.cast(instruction, ctypes.c_void_p).value)
        given = [b.ptrtoint(v, _LONG) if isinstance(v.type, ir.PointerType) else b.zext(v, _LONG) for v in values]
        b.call(b.inttoptr(address, function), given + [_LONG(0)] * (3 - len(given)))

    patch.setattr(amx, "_tile", emulated)
    patch.setattr(quantized_rows, "tuning", lambda: WITH_AMX)
    patch.setattr(quantized_targets, "tuning", lambda: WITH_AMX)
    patch.setattr(documented_matmul, "tuning", lambda: WITH_AMX)

    def make(name: str) -> str:
        kernel = f"matmul_tiles_{name}"
        if kernel not in addresses():
            quantized.define_matmul(f"tiles_{name}", strategy_of(name, WITH_AMX))
            addresses()[kernel] = jit._link(compile.object_code(kernel), kernel)
            del KERNELS[kernel]
        return f"tiles_{name}"

    yield make
    patch.undo()
    for name in [name for name in addresses() if "tiles_" in name]:
        del addresses()[name]


def some(*names: str, more: tuple[str, ...]) -> list[Any]:
    """Formats, and more with `exhaustive`: each takes some seconds to compile."""
    return [*names, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in more)]


OF_BLOCKS = some("Q8_0", "Q4_1", "NVFP4", more=("Q4_0", "Q1_0"))
"""Signed weights, some with an offset, some with a minimum, or with a scale for each half; rows may end with one block,
two or four."""

OF_SUPER_BLOCKS = some("Q4_K", "Q6_K", more=("IQ4_XS", "Q2_K", "IQ2_XS", "IQ1_S"))
"""Spans of 32 and of 16, each with minima, with an offset and of signed weights."""


def check(kernel: str, name: str, w: Any, x: Rows, *batches: int) -> None:
    wanted = expression(name, w, x)
    for tokens in batches:
        assert same_bits(matmul(kernel, w, x.q.shape[1], buffer_of(x, tokens), 0, tokens, None), wanted[:tokens])


@pytest.mark.parametrize("name", OF_BLOCKS + OF_SUPER_BLOCKS)
def test_matrix_tiles_give_the_bits_of_the_expression(name: str, kernel: Callable[[str], str]) -> None:
    rng = np.random.default_rng(1)
    for rows, columns in ((40, 512), (16, 384), (20, 4096)):
        if columns % KINDS[name].block == 0:
            w, x = some_weights(rng, name, rows, columns), rows_for(name).random(rng, 33, columns)
            check(kernel(name.lower()), name, w, x, 8, 9, 17, 33)


@pytest.mark.parametrize("name", ["Q8_0", "Q6_K"])
def test_groups_of_rows_in_matrix_tiles_have_the_bits_of_their_matrices(
    name: str, kernel: Callable[[str], str]
) -> None:
    check_groups(name, 512, GROUPS, (4,), kernel(name.lower()))


@pytest.mark.parametrize("weight", [0x00, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("name", OF_SUPER_BLOCKS)
def test_the_largest_int16_are_exact(name: str, weight: int, kernel: Callable[[str], str]) -> None:
    four = extremes(name)
    x = replace(four, **{part: np.tile(v, (3, 1)) for part, v in vars(four).items()})
    check(kernel(name.lower()), name, largest_weights(name, weight), x, 12)


@pytest.mark.parametrize("rows", [8, 9])  # straight from W, and more
def test_int16_of_activations_are_their_bytes_times_powers_of_two(
    rows: int, kernel: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_quantizer, "quantize_values", row_quantizer.row_quantizer(WITH_AMX))
    addresses()["tiles_quantize"] = jit._link(compile.object_code("quantize"), "quantize")
    x = np.random.default_rng(2).standard_normal((rows, 768)).astype(np.float32)
    quantize(x, "tiles_quantize").check(x)
