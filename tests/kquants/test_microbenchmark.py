"""The microbenchmarks do all the work that is counted: their sums are those of NumPy."""

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants import jit
from kquants.layout import PEAK_PRODUCTS
from kquants.records import Arguments, Int8PeakOp, OpHeader, ReadSumOp, record_of_op
from support.kernels import batch_record, cache_folder, call_address, fenced


def run(name: str, first: int, last: int, arguments: Arguments) -> None:
    head = OpHeader(jit.load([name], cache_folder())[name], last, units_per_row=0, outputs=0, barrier=1)
    op, batch = np.array(record_of_op(head, arguments), np.int64), batch_record(1)
    call_address(int(op[0]), op.ctypes.data, batch.ctypes.data, first, last, 0)


@pytest.mark.parametrize("piece", [256, 512, 768, 4096])
def test_every_byte_is_read_and_none_beyond(piece: int) -> None:
    data = fenced(np.random.default_rng(piece).integers(0, 256, 7 * piece, dtype=np.uint8))
    sums = np.full(8, 77, np.int32)
    run("read_sum", 2, 7, ReadSumOp(data.ctypes.data, piece, sums.ctypes.data))
    wanted = data.view(np.int32).reshape(7, -1).sum(axis=1, dtype=np.int32)
    assert sums.tolist() == [77, 77, *wanted[2:].tolist(), 77]


def dot(u: int, s: NDArray[np.int8]) -> int:
    return int((u * s.astype(np.int64)).sum())


@pytest.mark.parametrize("rounds", [0, 1, 2, 1000])
@pytest.mark.parametrize("u", [1, 8, 15])
def test_every_product_is_made(rounds: int, u: int) -> None:
    signed = np.random.default_rng(u).integers(-128, 128, 64, dtype=np.int8)
    signed[:2] = -128
    factors = np.concatenate([signed.view(np.uint8), np.full(64 * PEAK_PRODUCTS, u, np.uint8)])
    sums = np.full(4, 77, np.int32)
    run("int8_peak", 1, 3, Int8PeakOp(rounds, factors.ctypes.data, sums.ctypes.data))
    wanted = np.array(rounds * PEAK_PRODUCTS * dot(u, signed), np.int64).astype(np.int32)
    assert sums.tolist() == [77, wanted, wanted, 77]
