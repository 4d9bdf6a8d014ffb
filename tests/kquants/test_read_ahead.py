"""The read-ahead of chosen experts: what it tells the system, and nothing else."""

import ctypes

import numpy as np
import pytest

from kquants.records import MatmulGroup, ReadAheadOp
from support.kernels import batch_record, op_record, run_op

WILL_NEED = 3


@pytest.mark.parametrize("page_bytes", [4096, 16384])
def test_asks_for_the_pages_of_each_group_alone(page_bytes: int) -> None:
    asked: list[tuple[int, int, int]] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int)
    def madvise(address: int, nbytes: int, advice: int) -> int:
        asked.append((address, nbytes, advice))
        return 0

    groups = np.array([2, *MatmulGroup(5, 0), *MatmulGroup(9, 3), *MatmulGroup(0, 4)], np.int64)
    first = 4096 * 1000 + 48
    function = ctypes.cast(madvise, ctypes.c_void_p).value or 0
    op = op_record("read_ahead", ReadAheadOp(function, page_bytes, groups, first, matrix_bytes=10_000), units=1)
    run_op(op, batch_record(3), units=2)
    # Matrix 5 begins at byte 4096 · 1012 + 896, or 16384 · 253 + 896; matrix 9 at 4096 · 1021 + 4032, or
    # 16384 · 255 + 8128.
    by_page_bytes = {
        4096: [(4096 * 1012, 10_896, WILL_NEED), (4096 * 1021, 14_032, WILL_NEED)],
        16384: [(16384 * 253, 10_896, WILL_NEED), (16384 * 255, 18_128, WILL_NEED)],
    }
    assert sorted(asked) == by_page_bytes[page_bytes]
