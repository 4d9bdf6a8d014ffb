"""What decode asks the memory for: all of what comes next, where it is, and the next product's share after a share."""

from typing import Any

import numba
import numpy as np
import pytest
from conftest import ModelFile
from llvmlite import ir
from numba import types

from edgellm.engine.engine import Engine
from edgellm.gguf import GGUFFile
from edgellm.home import cache_folder
from kquants import requests, tiled
from kquants.formats.quantized import QUANTIZED
from kquants.layout import FIRST_ARGUMENT, NEXT_PRODUCT, OP_WORDS, TILE_ROWS
from kquants.pieces import Format
from kquants.simd.vectors import define

_in_share = define(types.int64, types.int64, types.int64, types.int64)(requests.in_share)
in_share = numba.njit(lambda address, end, onward: _in_share(address, end, onward))
reads_on = numba.njit(lambda op, scratch: tiled._reads_on(op, scratch))


class Sums:
    """In place of LLVM's builder: addresses are integers."""

    def add(self, address: int, offset: ir.Constant) -> int:
        """An address further on."""
        return address + int(offset.constant)

    def fence(self, *arguments: str) -> None:
        """Nothing."""


@pytest.mark.parametrize(("size", "turns"), [(144, 64), (210, 64), (272, 64), (34, 8), (144, 16)])
def test_every_line_is_asked_for_once_from_each_address(size: int, turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    turned: list[list[int]] = []
    monkeypatch.setattr(requests, "ask", lambda b, address: turned[-1].append(address))
    starts, builder = [3_000_000, 5_000_032], Sums()
    given: Any = requests.Requests(builder, size, starts, turns)  # type: ignore[arg-type]
    for _ in range(turns):
        with pytest.raises(AssertionError):
            given.end()
        turned.append([])
        given.turn()
    given.end()
    lines = range(0, TILE_ROWS * size, 64)
    for address in starts:
        assert [a for turn in turned for a in turn if 0 <= a - address < 1_000_000] == [address + at for at in lines]
    assert max(map(len, turned)) - min(map(len, turned)) <= 1


def test_what_is_beyond_a_share_is_asked_for_in_the_next_product() -> None:
    end, onward = 1_000_000, 7_000_000
    for address in (0, end - 64, end - 1):
        assert in_share(address, end, onward) == address
    for address in (end, end + 1, end + 8192):
        assert in_share(address, end, onward) == address + onward


@pytest.mark.parametrize("fmt", QUANTIZED.values(), ids=QUANTIZED)
def test_the_next_tile_itself_is_asked_for(fmt: Format) -> None:
    distances = requests.distances_of(fmt)
    assert min(distances) == 0
    assert all(distance % 64 == 0 for distance in distances), "lines further on are asked for again when they are near"


def test_a_thread_reads_on_at_its_own_share_of_the_next_product() -> None:
    ops = np.zeros((2, OP_WORDS), np.int64)
    ops[:, 1] = 100, 70  # units
    ops[:, FIRST_ARGUMENT] = 10_000_000, 50_000_000  # W
    ops[:, FIRST_ARGUMENT + 3] = 144, 1152  # bytes per row
    ops[0, FIRST_ARGUMENT + NEXT_PRODUCT] = ops[1].ctypes.data
    header = np.array([66, 2, 3], np.int64)  # a chunk of the second of three shares, taken by the third thread
    end, onward = reads_on(ops[0].ctypes.data, header.ctypes.data)
    assert end == 10_000_000 + 66 * 16 * 144
    assert end + onward == 50_000_000 + 70 * 2 // 3 * 16 * 1152
    assert reads_on(ops[1].ctypes.data, header.ctypes.data) == (50_000_000 + 66 * 16 * 1152, 0)


def test_each_product_knows_the_next_one(model_file: ModelFile) -> None:
    sizes = {"width": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "ffn": 256, "layers": 2, "types": "Q4_K"}
    with GGUFFile.open(model_file(**sizes)) as file:
        engine = Engine(file, threads=1, ctx=64, kv_type="f16", cache=cache_folder())
        cpu = engine._runner.cpu
        weights = {t.data.ctypes.data: name for name, t in file.tensors.items()}
        places = {op.ctypes.data: op for op in cpu._ops}
        op, order = cpu._ops[2], []  # after the embeddings and a norm
        for _ in range(16):
            order.append(weights[int(op[FIRST_ARGUMENT])].removesuffix(".weight"))
            op = places[int(op[FIRST_ARGUMENT + NEXT_PRODUCT])]
        engine.close()
    layer = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    head = [order[14]]
    assert order == [f"blk.{i}.{name}" for i in range(2) for name in layer] + head + ["blk.0.attn_q"]
    assert head[0] in ("output", "token_embd")
