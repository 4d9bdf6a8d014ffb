"""Programs for thread pools whose results depend on every barrier between ops."""

import numpy as np

from edgellm.engine.threadpool import ThreadPool
from kquants.layout import PADDING_ROWS, matmul_scratch
from kquants.records import MatmulOp
from support.kernels import addresses, batch_record, op_record

F32 = np.float32
WIDTH = 64
OPS = 300
FOREVER = 1 << 50
"""More units than any machine gets done; a product of 16 rows does nothing in all but the first."""


class Chain:
    """A program of `ops` products, each of which needs all of what the one before it wrote.

    Their matrices permute and negate, so that the result is exact. It goes to and fro between two buffers, and one
    that went ahead of another thread would read, or overwrite, a half-written row. The last one written is `y`.
    """

    def __init__(self, ops: int = OPS, rows: int = 1, units: int = WIDTH // 16, endless: int | None = None) -> None:
        rng = np.random.default_rng(ops)
        self.start = np.arange(1, rows * WIDTH + 1, dtype=F32).reshape(rows, WIDTH)
        self.results = [self.start.astype(np.float64)]
        # Products read rows behind the last.
        self.buffers = list(np.zeros((2, rows + PADDING_ROWS, WIDTH), F32)[:, :rows])
        self.y = self.buffers[ops % 2]
        self.batch = batch_record(rows)
        self.kept, records = [], []
        for i in range(ops):
            w = (np.eye(WIDTH)[rng.permutation(WIDTH)] * rng.choice([-1, 1], WIDTH)[:, None]).astype(F32)
            self.kept.append(w)
            self.results.append(self.results[-1] @ w.T)
            x, y = self.buffers[i % 2], self.buffers[1 - i % 2]
            line = 4 * WIDTH
            given = MatmulOp(
                w=w, rows=WIDTH, columns=WIDTH, row_bytes=line, x=x, x_bytes=line, y=y, y_bytes=line, accumulate=0
            )
            records.append(op_record("matmul_f32", given, units=FOREVER if i == endless else units))
        self.expected = self.results[-1]
        self.ops = np.stack(records)

    def run(self, pool: ThreadPool, threads: int | None = None) -> bool:
        """Run it from its start; whether it was not stopped."""
        self.buffers[0][:] = self.start
        self.buffers[1][:] = np.nan
        return pool.run(self.ops.ctypes.data, len(self.ops), self.batch.ctypes.data, threads)

    def check(self, pool: ThreadPool, threads: int | None = None) -> None:
        """Run it and compare."""
        assert self.run(pool, threads)
        assert np.array_equal(self.y, self.expected)


def new_pool(count: int) -> ThreadPool:
    return ThreadPool(count, addresses(), OPS, matmul_scratch(WIDTH, "F32"))
