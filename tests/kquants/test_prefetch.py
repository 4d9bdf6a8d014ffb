"""What products ask the memory for: all of what comes next, where it is, and the next product's share after a share."""

import re
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numba import types
from numpy.typing import NDArray

from edgellm.engine.memory import aligned
from edgellm.engine.native_engine import NativeEngine
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from kquants.compiler import cpu
from kquants.compiler.cpu import Level
from kquants.compiler.decorators import inline
from kquants.formats import bf16, f16, f32
from kquants.formats.pieces import Format
from kquants.formats.quantized import QUANTIZED
from kquants.layout import TILE_ROWS
from kquants.matmul import floats, requests, tiled, tiled_decode, tiled_prefill
from kquants.matmul.float_products import float_product
from kquants.matmul.multiply import multiply_tile, sums_of
from kquants.matmul.unpacked import store_tile
from kquants.records import FIRST_ARGUMENT, NEXT_MATMUL, MatmulOp, OpHeader, record_of_op
from kquants.simd import define, emit_prefetch, memory, store_i64
from support.kernels import compile_kernel
from support.model_file import ModelFile


@compile_kernel
def reading(op: int, scratch: int, result: int) -> None:
    end, onward = tiled_decode.reads_on(op, scratch)
    store_i64(result, end)
    store_i64(result + 8, onward)


def reads_on(op: int, scratch: int) -> tuple[int, int]:
    """Where a thread's share of an op ends, and how far from there it reads on."""
    result = np.zeros(2, np.int64)
    reading(op, scratch, result.ctypes.data)
    return int(result[0]), int(result[1])


class Sums:
    """In place of LLVM's builder: addresses are integers."""

    def add(self, address: int, offset: ir.Constant) -> int:
        """An address further on."""
        return address + int(offset.constant)

    def fence(self, *arguments: str) -> None:
        """Nothing."""


@pytest.mark.parametrize(("size", "turns"), [(144, 64), (210, 64), (272, 64), (34, 8), (144, 16)])
def test_every_line_is_asked_for_once_from_each_address(size: int, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    turned: list[list[tuple[int, Level]]] = []
    monkeypatch.setattr(requests, "emit_prefetch", lambda b, address, level: turned[-1].append((address, level)))
    starts, rows, builder = [3_000_000, 5_000_032], [7_000_000, 9_000_002], Sums()
    given: Any = requests.Requests(builder, size, starts, Level.SECOND, turns, rows)  # type: ignore[arg-type]
    for _ in range(turns):
        with pytest.raises(AssertionError):
            given.end()
        turned.append([])
        given.turn()
    given.end()
    lines = range(0, TILE_ROWS * size, 64)
    for address in starts:
        found = [asked for turn in turned for asked in turn if 0 <= asked[0] - address < 1_000_000]
        assert found == [(address + at, Level.SECOND) for at in lines]
    for row in rows:
        near = [asked for turn in turned for asked in turn if 0 <= asked[0] - row < 1_000_000]
        asked_lines, first = {address // 64 for address, _ in near}, (row + size + 63) // 64
        needed = {*range(first, (row + 2 * size - 1) // 64 + 1)}  # that before was asked for beside the one before
        assert needed <= asked_lines <= needed | {max(needed) + 1} and len(near) == len(asked_lines)
        assert {level for _, level in near} == {Level.FIRST}
    for level in (Level.FIRST, Level.SECOND):
        counts = [sum(near == level for _, near in turn) for turn in turned]
        assert max(counts) - min(counts) <= 1


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


@pytest.mark.parametrize(
    ("name", "read_soon", "read_once"),
    [("znver5", 3, 0), ("znver4", 2, 2), ("x86-64-v3", 2, 2), ("sapphirerapids", 2, 2), ("alderlake", 2, 2)],
)
def test_lines_are_asked_for_into_the_cache_that_serves_a_cpu(
    name: str, read_soon: int, read_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", name)
    monkeypatch.setattr(cpu, "is_x86", lambda: True)
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(64)]), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    for level in (cpu.level_soon(), cpu.level_once()):
        emit_prefetch(builder, function.args[0], level)
    emit_prefetch(builder, function.args[0], Level.FIRST, to_write=True)
    asked = re.findall(r"i32 (\d), i32 (\d), i32 1\)", str(function))  # LLVM: to write, how near (3 is nearest), data
    assert asked == [("0", str(read_soon)), ("0", str(read_once)), ("1", "3")]


class Asked:
    """What compiled code asks for: addresses of lines, each and how near it is asked for added up."""

    def __init__(self) -> None:
        self._log = np.zeros(10_000, np.int64)  # how many there are, then they

    def note(self, b: ir.IRBuilder, address: Any, level: Level) -> None:
        """Compile that it is noted, in place of a request."""
        long, log_address = ir.IntType(64), ir.IntType(64)(self._log.ctypes.data)
        count = b.add(b.load(b.inttoptr(log_address, long.as_pointer())), long(1))
        b.store(count, b.inttoptr(log_address, long.as_pointer()))
        place = b.inttoptr(b.add(log_address, b.mul(count, long(8))), long.as_pointer())
        b.store(b.add(address, long(level)), place)

    def in_place_of_prefetch(self) -> Any:
        """An operation that notes its address."""
        return define(types.none, types.int64)(lambda b, address: self.note(b, address, Level(0)))

    def lines(self) -> list[int]:
        """Those since the last call."""
        found = self._log[1 : self._log[0] + 1].tolist()
        self._log[0] = 0
        return sorted(found)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Notes all requests."""
    found = Asked()
    monkeypatch.setattr(requests, "emit_prefetch", found.note)
    return found


def lines(fmt: Format, *starts: tuple[int, Level]) -> list[int]:
    """What `Asked` notes of the cache lines, `super-block × 16 rows` long, from addresses on."""
    return sorted(start + at + level for start, level in starts for at in range(0, TILE_ROWS * fmt.BLOCK_BYTES, 64))


@pytest.mark.parametrize("is_intel", [True, False])
@pytest.mark.parametrize(("name", "parts"), [("Q4_K", 1), ("Q6_K", 1), ("Q6_K", 4), ("Q6_K", 16), ("Q8_0", 8)])
def test_decode_asks_for_the_next_tile_and_beyond_a_share_in_the_next_product(
    name: str, parts: int, is_intel: bool, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And on Intel's CPUs for the next super-block of each row, into the first-level cache."""
    monkeypatch.setattr(requests, "is_intel", lambda: is_intel)
    fmt: Any = QUANTIZED[name.lower()]
    multiply, (zeros, store) = multiply_tile(fmt, 1, parts), sums_of(1)
    w, x = np.zeros(TILE_ROWS * fmt.BLOCK_BYTES, np.uint8), aligned(1, 1024 * parts)
    y = aligned(1, 64)  # sums are stored as whole cache lines

    @compile_kernel
    def run(w: int, stride: int, near: int, end: int, onward: int, x: int, y: int) -> None:
        store(y, multiply(zeros(), w, stride, near, end, onward, x, x))

    end, onward, distances = 1_000_000, 7_000_000, requests.decode_ahead(fmt, parts)
    following = [w.ctypes.data + fmt.BLOCK_BYTES * (row + 1) for row in range(TILE_ROWS)] if is_intel else []
    soon = [start + 63 + line + Level.FIRST for start in following for line in range(0, fmt.BLOCK_BYTES, 64)]
    assert min(distances) == 0, "the next tile is asked for where it is"
    assert all(distance % 64 == 0 for distance in distances), "what is asked for again is the same lines"
    for near in (end - 64_000, *(end - d + offset for d in distances for offset in (-64, 0)), end + 64_000):
        run(w.ctypes.data, fmt.BLOCK_BYTES, near, end, onward, x.ctypes.data, y.ctypes.data)
        starts = [at + (onward if at >= end else 0) for at in (near + distance for distance in distances)]
        assert asked.lines() == sorted(lines(fmt, *((start, cpu.level_once()) for start in starts)) + soon)


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K", "Q8_0"])
def test_where_vectors_are_short_decode_asks_less_often(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for is_it in ("is_intel", "is_wide_zen_4"):
        monkeypatch.setattr(requests, is_it, lambda: False)
    fmt: Any = QUANTIZED[name.lower()]
    counts = []
    for is_long in (False, True):
        monkeypatch.setattr(requests, "has", lambda feature, is_long=is_long: is_long)
        counts.append(len(requests.decode_ahead(fmt, 1)))
    assert counts == [2, 4]


@pytest.mark.parametrize("name", ["q4_k", "q6_k", "q8_0"])
def test_an_intel_cpu_asks_twice_for_what_is_far_whatever_vectors_it_has(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "is_intel", lambda: True)
    for has_avx512 in (False, True):
        monkeypatch.setattr(requests, "has", lambda feature, has_avx512=has_avx512: has_avx512)
        assert requests.decode_ahead(QUANTIZED[name], 1) == (0, 4096)


def test_prefill_asks_for_the_next_tiles(asked: Asked) -> None:
    fmt: Any = QUANTIZED["q4_k"]
    store = store_tile(fmt)
    w, unpacked = np.zeros(TILE_ROWS * fmt.BLOCK_BYTES, np.uint8), aligned(1, tiled_prefill.UNPACKED)
    weights = unpacked.ctypes.data

    @compile_kernel
    def run(w: int, stride: int, near: int, weights: int, scales: int) -> None:
        store(w, stride, near, weights, scales)

    run(w.ctypes.data, fmt.BLOCK_BYTES, 1_000_000, weights, weights + tiled_prefill.SCALES)
    starts = [(1_000_000 + distance, cpu.level_soon()) for distance in requests.PREFILL_AHEAD]
    assert asked.lines() == lines(fmt, *starts), "eight sequences decode faster so than with decode's level"


@compile_kernel
def rows_beside(t: int, some: int, rows: int, w_rows: int, result: int) -> None:
    first, stop = tiled_prefill.rows_beside(t, some, rows, w_rows)
    store_i64(result, first)
    store_i64(result + 8, stop)


@pytest.mark.parametrize("rows", [17, 100, 255, 256])
@pytest.mark.parametrize("tiles", [1, 3, 4])
def test_prefill_asks_for_each_row_of_the_next_columns_once(rows: int, tiles: int) -> None:
    found, shares, at_once = [], [], tiled_prefill.ROWS_AT_ONCE
    for t in range(0, rows, at_once):
        result = np.zeros(2, np.int64)
        rows_beside(t, min(at_once, rows - t), rows, TILE_ROWS * tiles, result.ctypes.data)
        found += range(*result.tolist())
        shares.append(result[1] - result[0])
    assert found == list(range(TILE_ROWS * tiles))
    assert max(shares) <= -(-at_once * TILE_ROWS * tiles // rows), "no more beside some rows of x than beside others"


def product_record(units: int = 0, **arguments: int) -> NDArray[np.int64]:
    """An op without a kernel, whose other arguments are 0."""
    given = MatmulOp(**{**dict.fromkeys(MatmulOp._fields, 0), **arguments})
    return np.array(
        record_of_op(OpHeader(kernel=0, units=units, units_per_row=0, outputs=0, barrier=0), given), np.int64
    )


@pytest.mark.parametrize(("rows", "first", "last"), [(1, 0, 64), (1, 7, 9), (2, 3, 67), (8, 0, 2)])
def test_decode_claims_each_line_of_y_that_its_tiles_write(
    rows: int, first: int, last: int, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiled, "prefetch_to_write", asked.in_place_of_prefetch())
    claim_y = compile_kernel(tiled.claim_y.py_func)
    op = product_record(y=10_000_000, y_bytes=300_032)
    claim_y(op.ctypes.data, rows, first, last)
    assert asked.lines() == [10_000_000 + 300_032 * t + 64 * tile for t in range(rows) for tile in range(first, last)]


@pytest.mark.parametrize("intel", [False, True])
@pytest.mark.parametrize("fmt", [f16, bf16, f32])
def test_decode_of_floats_asks_for_the_same_columns_of_rows_to_come(
    fmt: Any, intel: bool, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floats, "is_intel", lambda: intel)
    monkeypatch.setattr(memory, "prefetch", asked.in_place_of_prefetch())
    prefetch_lines = inline(memory.prefetch_lines.py_func)
    monkeypatch.setattr(floats, "prefetch_lines", prefetch_lines)
    product = float_product(fmt)
    multiply = floats._multiply_four(fmt, product)

    @compile_kernel
    def multiply_four(op: int, row: int, last: int, x: int, sums: int) -> None:
        multiply(op, row, last, x, sums)

    columns, row_bytes = 64, 64 * fmt.WEIGHT_BYTES
    w, x, sums = np.zeros((4, row_bytes), np.uint8), np.zeros(columns, np.float32), aligned(4, 64)
    op = product_record(columns=columns, row_bytes=row_bytes)
    multiply_four(op.ctypes.data, w.ctypes.data, w[3].ctypes.data, x.ctypes.data, sums.ctypes.data)
    each, rows, times = range(0, row_bytes, product.step * fmt.WEIGHT_BYTES), range(8, 12), 3 * product.step // 16
    if intel:
        each, rows, times = range(0, row_bytes, 64), range(4, 12), 1
    wanted = [w.ctypes.data + row * row_bytes + k for k in each for row in rows] * times
    assert asked.lines() == sorted(wanted)


def test_a_thread_reads_on_at_its_own_share_of_the_next_product() -> None:
    then = product_record(units=70, w=50_000_000, row_bytes=1152)
    op = product_record(units=100, w=10_000_000, row_bytes=144, next_matmul=then.ctypes.data)
    header = np.array([66, 2, 3], np.int64)  # a chunk of the second of three shares, taken by the third thread
    end, onward = reads_on(op.ctypes.data, header.ctypes.data)
    assert end == 10_000_000 + 66 * 16 * 144
    assert end + onward == 50_000_000 + 70 * 2 // 3 * 16 * 1152
    assert reads_on(then.ctypes.data, header.ctypes.data) == (50_000_000 + 66 * 16 * 1152, 0)


def test_each_product_knows_the_next_one(model_file: ModelFile) -> None:
    sizes = {"width": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "ffn": 256, "layers": 2, "types": "Q4_K"}
    with GGUFFile.open(model_file(**sizes)) as file:
        engine = NativeEngine(file, threads=1, ctx=64, kv_type="f16", cache=cache_folder())
        cpu = engine._runner.cpu
        weights = {t.data.ctypes.data: name for name, t in file.tensors.items()}
        places = {op.ctypes.data: op for op in cpu._ops}
        op, order = cpu._ops[2], []  # after the embeddings and a norm
        for _ in range(16):
            order.append(weights[int(op[FIRST_ARGUMENT])].removesuffix(".weight"))
            op = places[int(op[NEXT_MATMUL])]
        engine.close()
    layer = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    head = [order[14]]
    assert order == [f"blk.{i}.{name}" for i in range(2) for name in layer] + head + ["blk.0.attn_q"]
    assert head[0] in ("output", "token_embd")
