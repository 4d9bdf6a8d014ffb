"""Matrix tiles, on any CPU: their instructions are calls to an emulator here; the rest is what runs with real ones."""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import test_kquants_matmul as products
from kernels import addresses, made
from llvmlite import ir
from quantized_rows import SuperRows, rows_for

from kquants import jit
from kquants.activations.super_quantized import store_shorts
from kquants.compiler import compile
from kquants.compiler.decorators import KERNELS
from kquants.formats import shorts
from kquants.formats.pieces import BLOCK_WEIGHTS
from kquants.formats.quantized import QUANTIZED
from kquants.layout import UNPACKED_BYTES
from kquants.products import amx, tiled, tiled_prefill

_LONG = ir.IntType(64)


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
    for module in (shorts, tiled_prefill):
        patch.setattr(module, "AMX", True)
    room = 2 * 8 * BLOCK_WEIGHTS  # where unpacked weights may be int16
    for module, name, nbytes in (
        (tiled_prefill, "SCALES", room),
        (tiled_prefill, "UNPACKED", UNPACKED_BYTES),
        (tiled, "UNPACKED", UNPACKED_BYTES),
    ):
        patch.setattr(module, name, nbytes)
    for module in ("unpacked", "tiled_prefill"):  # as on every CPU that has matrix tiles: they take bytes
        patch.setattr(f"kquants.products.{module}.VIA_INT16", False)
    patch.setattr("kquants.formats.winograd.WINOGRAD", False)

    def make(name: str) -> str:
        kernel = f"matmul_tiles_{name}"
        if kernel not in addresses():
            tiled._define(f"tiles_{name}", QUANTIZED[name])
            addresses()[kernel] = jit._link(compile.object_code(kernel), kernel)
            del KERNELS[kernel]
        return f"tiles_{name}"

    yield make
    patch.undo()
    for name in [name for name in addresses() if "tiles_" in name]:
        del addresses()[name]


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K", "IQ4_XS"])
def test_matrix_tiles_give_the_bits_of_the_expression(name: str, kernel: Callable[[str], str]) -> None:
    rng = np.random.default_rng(1)
    emulating = kernel(name.lower())
    for rows, columns in ((40, 512), (16, 352), (20, 4096)):
        if columns % products.KINDS[name].block:
            continue
        w, x = products.some_weights(rng, name, rows, columns), rows_for(name).random(rng, 17, columns)
        for tokens in (5, 8, 17):
            y = products.product(emulating, w, columns, products.buffer_of(x, tokens), 0, tokens, None)
            assert products.same_bits(y, products.expression(name, w, x)[:tokens])


def test_int16_of_activations_are_their_bytes_times_powers_of_two() -> None:
    rows = SuperRows.random(np.random.default_rng(2), 3, 512)
    groups, wanted = rows.groups(), rows.shorts()
    found = np.zeros(wanted.shape, np.uint8)

    def store(group: int, to: int) -> None:
        store_shorts(group, to)

    store_int16 = made(store)
    for group, to in zip(groups.reshape(-1, groups.shape[2]), found.reshape(-1, found.shape[2]), strict=True):
        store_int16(group.ctypes.data, to.ctypes.data)
    assert np.array_equal(found, wanted)
