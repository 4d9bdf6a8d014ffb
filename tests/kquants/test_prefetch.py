"""What matmuls prefetch beside products: all that comes next, where it is."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numba import types

from edgellm.engine.memory import aligned
from kquants.compiler import cpu
from kquants.compiler.decorators import inline
from kquants.formats import bf16, f16, f32
from kquants.formats.unpacking import Format
from kquants.layout import TILE_ROWS
from kquants.matmul import float_decode, prefetch, prefill, prefill_rows, quantized
from kquants.matmul.decode_tile import multiply_tile, sums_of
from kquants.matmul.float_ops import float_ops
from kquants.matmul.products import product_of
from kquants.matmul.strategy import strategy_of
from kquants.matmul.unpack import store_tile
from kquants.simd import define, emit_prefetch, memory, store_i64
from kquants.tuning import PrefetchLevel, tuning
from support.kernels import compile_kernel
from support.matmul import product_record


class Sums:
    """In place of LLVM's builder: addresses are integers."""

    def add(self, address: int, offset: ir.Constant | int) -> int:
        """An address further on."""
        return address + (offset if isinstance(offset, int) else int(offset.constant))

    def fence(self, *arguments: str) -> None:
        """Nothing."""


@pytest.mark.parametrize(("size", "steps"), [(144, 64), (210, 64), (272, 64), (34, 8), (144, 16)])
def test_every_line_is_prefetched_once_from_each_address(
    size: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned: list[list[tuple[int, PrefetchLevel]]] = []
    monkeypatch.setattr(prefetch, "emit_prefetch", lambda b, address, level: turned[-1].append((address, level)))
    starts, rows, builder = [3_000_000, 5_000_032], [7_000_000, 9_000_002], Sums()
    given: Any = prefetch.Prefetcher(builder, size, starts, PrefetchLevel.L2, steps, rows)  # type: ignore[arg-type]
    for _ in range(steps):
        with pytest.raises(AssertionError):
            given.finish()
        turned.append([])
        given.step()
    given.finish()
    lines = range(0, TILE_ROWS * size, 64)
    for address in starts:
        found = [line for turn in turned for line in turn if 0 <= line[0] - address < 1_000_000]
        assert found == [(address + at, PrefetchLevel.L2) for at in lines]
    for row in rows:
        near = [line for turn in turned for line in turn if 0 <= line[0] - row < 1_000_000]
        found_lines, first = {address // 64 for address, _ in near}, (row + size + 63) // 64
        needed = {*range(first, (row + 2 * size - 1) // 64 + 1)}  # the line before came with the one before
        assert needed <= found_lines <= needed | {max(needed) + 1} and len(near) == len(found_lines)
        assert {level for _, level in near} == {PrefetchLevel.L1}
    for level in (PrefetchLevel.L1, PrefetchLevel.L2):
        counts = [sum(near == level for _, near in turn) for turn in turned]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("size", [66, 82, 210])
def test_prefetches_beside_some_rows_are_those_of_the_tile_row_by_row(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many bytes as these rows have, from where the rows before them end; and the next super-block of each."""
    found: list[tuple[int, PrefetchLevel]] = []
    monkeypatch.setattr(prefetch, "emit_prefetch", lambda b, address, level: found.append((address, level)))
    start, rows = 3_000_000, [7_000_000 + 9_002 * row for row in range(TILE_ROWS)]
    whole: Any = prefetch.Prefetcher(Sums(), size, [start], PrefetchLevel.L2, 64, rows)  # type: ignore[arg-type]
    for first in range(0, TILE_ROWS, 2):
        beside: Any = whole.beside(first, rows[first : first + 2], steps=8)
        for _ in range(8):
            beside.step()
        beside.finish()
    whole.finish()
    far = [address for address, level in found if level == PrefetchLevel.L2]
    assert {address // 64 for address in far} >= {*range(start // 64, (start + TILE_ROWS * size - 1) // 64)}
    assert max(far) < start + TILE_ROWS * size
    near = [(row + size + 63 + line, PrefetchLevel.L1) for row in rows for line in range(0, size, 64)]
    assert [line for line in found if line[1] == PrefetchLevel.L1] == near


AMDS = ["znver1", "znver5", "bdver4", "btver2", "amdfam10", "barcelona", "k8-sse3", "opteron-sse3", "athlon64"]
INTELS = ["nocona", "core2", "haswell", "rocketlake", "alderlake", "sapphirerapids", "graniterapids", "sierraforest"]


@pytest.mark.parametrize(
    ("names", "is_x86", "is_intel"),
    [
        (INTELS, True, True),
        (AMDS, True, False),
        (["generic", "x86-64", "x86-64-v4"], True, False),
        (["apple-m1", "neoverse-v1"], False, False),
    ],
)
def test_intels_are_known_by_their_names(
    names: list[str], is_x86: bool, is_intel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "is_x86", lambda: is_x86)
    for name in names:
        monkeypatch.setenv("NUMBA_CPU_NAME", name)
        assert cpu.is_intel() == is_intel, name


@pytest.mark.parametrize(("level", "number"), [("NON_TEMPORAL", 0), ("L2", 2), ("L1", 3)])
def test_a_prefetch_names_its_level_as_llvm_does(level: str, number: int) -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(64)]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    emit_prefetch(builder, function.args[0], PrefetchLevel[level])
    emit_prefetch(builder, function.args[0], PrefetchLevel[level], to_write=True)
    asked = re.findall(r"i32 (\d), i32 (\d), i32 1\)", str(function))  # LLVM: to write, how near (3 is nearest), data
    assert asked == [("0", str(number)), ("1", str(number))]


class PrefetchLog:
    """The prefetches of compiled code: addresses of lines, each plus its level."""

    def __init__(self) -> None:
        self._log = np.zeros(10_000, np.int64)  # how many there are, then they

    def note(self, b: ir.IRBuilder, address: Any, level: PrefetchLevel) -> None:
        """Compile that it is noted, in place of a prefetch."""
        long, log_address = ir.IntType(64), ir.IntType(64)(self._log.ctypes.data)
        count = b.add(b.load(b.inttoptr(log_address, long.as_pointer())), long(1))
        b.store(count, b.inttoptr(log_address, long.as_pointer()))
        place = b.inttoptr(b.add(log_address, b.mul(count, long(8))), long.as_pointer())
        b.store(b.add(address, long(level)), place)

    def in_place_of_prefetch(self) -> Any:
        """An operation that notes its address."""
        return define(types.none, types.int64)(lambda b, address: self.note(b, address, PrefetchLevel(0)))

    def lines(self) -> list[int]:
        """Those since the last call."""
        found = self._log[1 : self._log[0] + 1].tolist()
        self._log[0] = 0
        return sorted(found)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> PrefetchLog:
    """Notes all prefetches."""
    found = PrefetchLog()
    monkeypatch.setattr(prefetch, "emit_prefetch", found.note)
    return found


def lines(fmt: Format, *starts: tuple[int, PrefetchLevel]) -> list[int]:
    """What `PrefetchLog` has for the cache lines of 16 rows of a super-block, from addresses on."""
    return sorted(start + at + level for start, level in starts for at in range(0, TILE_ROWS * fmt.BLOCK_BYTES, 64))


SPLIT = {5: (8192, 0, 8192, 0), 6: (8192, 4096, 0)}


@pytest.mark.parametrize("each_row", [True, False])
@pytest.mark.parametrize(("name", "parts"), [("Q4_K", 1), ("Q6_K", 1), ("Q6_K", 4), ("Q6_K", 16), ("Q8_0", 8)])
def test_decode_prefetches_the_next_tile_and_beyond_a_share_in_the_next_product(
    name: str, parts: int, each_row: bool, log: PrefetchLog
) -> None:
    """And, where the tuning says so, the next super-block of each row, into the first-level cache."""
    tuned = replace(tuning(), decode_prefetch_next_super_block=each_row, decode_prefetch_split=SPLIT)
    strategy = strategy_of(name.lower(), tuned)
    fmt = strategy.fmt
    multiply, (zeros, store) = multiply_tile(strategy, fmt, 1, parts), sums_of(1)
    w, x = np.zeros(TILE_ROWS * fmt.BLOCK_BYTES, np.uint8), aligned(1, 1024 * parts)
    y = aligned(1, 64)  # sums are stored as whole cache lines

    @compile_kernel
    def run(w: int, stride: int, near: int, end: int, next_offset: int, x: int, y: int) -> None:
        store(y, multiply(zeros(), w, stride, near, end, next_offset, x, x))

    end, next_offset, distances = 1_000_000, 7_000_000, strategy.decode_prefetch(parts)
    assert distances == SPLIT[6] or name != "Q6_K" or parts == 1
    following = [w.ctypes.data + fmt.BLOCK_BYTES * (row + 1) for row in range(TILE_ROWS)] if each_row else []
    soon = [start + 63 + line + PrefetchLevel.L1 for start in following for line in range(0, fmt.BLOCK_BYTES, 64)]
    for near in (end - 64_000, *(end - d + offset for d in distances for offset in (-64, 0)), end + 64_000):
        run(w.ctypes.data, fmt.BLOCK_BYTES, near, end, next_offset, x.ctypes.data, y.ctypes.data)
        starts = [at + (next_offset if at >= end else 0) for at in (near + distance for distance in distances)]
        level = tuned.decode_prefetch_level
        assert log.lines() == sorted(lines(fmt, *((start, level) for start in starts)) + soon)


def test_prefill_prefetches_the_next_tiles(log: PrefetchLog) -> None:
    strategy = strategy_of("q4_k", tuning())
    layout = strategy.layout(strategy.fmt, tuning())
    store = store_tile(layout)
    w, unpacked = np.zeros(TILE_ROWS * layout.fmt.BLOCK_BYTES, np.uint8), aligned(1, layout.tile_bytes)
    weights = unpacked.ctypes.data

    @compile_kernel
    def run(w: int, stride: int, near: int, weights: int, scales: int) -> None:
        store(w, stride, near, weights, scales)

    run(w.ctypes.data, layout.fmt.BLOCK_BYTES, 1_000_000, weights, weights + layout.scales_at)
    starts = [(1_000_000 + distance, tuning().prefetch_level) for distance in tuning().prefill_prefetch]
    assert log.lines() == lines(layout.fmt, *starts), "eight sequences decode faster so than with decode's level"


@compile_kernel
def w_rows_to_prefetch(t: int, x_rows: int, rows: int, w_rows: int, result: int) -> None:
    first, stop = prefill.w_rows_to_prefetch(t, x_rows, rows, w_rows)
    store_i64(result, first)
    store_i64(result + 8, stop)


@pytest.mark.parametrize("rows", [17, 100, 255, 256])
@pytest.mark.parametrize("tiles", [1, 3, 4])
def test_prefill_prefetches_each_row_of_the_next_columns_once(rows: int, tiles: int) -> None:
    found, shares, at_once = [], [], prefill_rows.ROWS_AT_ONCE
    for t in range(0, rows, at_once):
        result = np.zeros(2, np.int64)
        w_rows_to_prefetch(t, min(at_once, rows - t), rows, TILE_ROWS * tiles, result.ctypes.data)
        found += range(*result.tolist())
        shares.append(result[1] - result[0])
    assert found == list(range(TILE_ROWS * tiles))
    assert max(shares) <= -(-at_once * TILE_ROWS * tiles // rows), "no more beside some rows of x than beside others"


@pytest.mark.parametrize(("rows", "first", "last"), [(1, 0, 64), (1, 7, 9), (2, 3, 67), (8, 0, 2)])
def test_decode_prefetches_each_line_of_y_that_its_tiles_write(
    rows: int, first: int, last: int, log: PrefetchLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantized, "prefetch_to_write", log.in_place_of_prefetch())
    prefetch_of_product = inline(quantized.prefetch_output.py_func)

    @compile_kernel
    def prefetch_output(op: int, rows: int, first: int, last: int) -> None:
        prefetch_of_product(product_of(op, rows, 0), first, last)

    op = product_record(y=10_000_000, y_bytes=300_032)
    prefetch_output(op.ctypes.data, rows, first, last)
    assert log.lines() == [10_000_000 + 300_032 * t + 64 * tile for t in range(rows) for tile in range(first, last)]


@pytest.mark.parametrize("repeats", [0, 3])
@pytest.mark.parametrize("fmt", [f16, bf16, f32])
def test_decode_of_floats_prefetches_the_same_columns_of_rows_to_come(
    fmt: Any, repeats: int, log: PrefetchLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "prefetch", log.in_place_of_prefetch())
    monkeypatch.setattr(float_decode, "prefetch_lines", inline(memory.prefetch_lines.py_func))
    tuned = replace(tuning(), float_prefetch_row=8, float_prefetch_rows=4, float_prefetch_repeats=repeats)
    ops = float_ops(fmt, tuned.float_packed_bytes)
    multiply = float_decode.multiply_four_of(fmt, ops, float_decode.prefetch_ahead(tuned, ops.step))

    @compile_kernel
    def multiply_four(n: int, row_bytes: int, row: int, last: int, x: int, sums: int) -> None:
        multiply(n, row_bytes, row, last, x, sums)

    columns, row_bytes = 64, 64 * fmt.WEIGHT_BYTES
    w, x, sums = np.zeros((4, row_bytes), np.uint8), np.zeros(columns, np.float32), aligned(4, 64)
    multiply_four(columns, row_bytes, w.ctypes.data, w[3].ctypes.data, x.ctypes.data, sums.ctypes.data)
    each, times = range(0, row_bytes, ops.step * fmt.WEIGHT_BYTES), repeats * ops.step // 16
    if not repeats:
        each, times = range(0, row_bytes, 64), 1
    wanted = [w.ctypes.data + row * row_bytes + k for k in each for row in range(8, 12)] * times
    assert log.lines() == sorted(wanted)
