"""A thread pool under interrupts: `python -m support.interrupted_runs COUNT SEED`. It prints how many hit."""

import signal
import sys
import time
from typing import Any

import numpy as np

from support.thread_chains import Chain, new_pool


def interrupted_runs(count: int, seed: int) -> None:
    """Runs with a SIGALRM at a random moment of each, twice in quick succession for some; prints how many hit."""
    rng, hits = np.random.default_rng(seed), 0
    chain, pool = Chain(ops=20), new_pool(2)
    taken = []
    for _ in range(100):
        begin = time.perf_counter()
        chain.run(pool)
        taken.append(time.perf_counter() - begin)
    longest = 2 * min(taken)  # most take far longer where other programs need the cores
    is_caught = False

    def interrupt(number: int, frame: Any) -> None:
        if not is_caught:  # it was on its way when the timer was stopped
            return
        # Only inside the pool: this function could not catch one that comes while it handles another.
        if frame.f_code is not interrupted_runs.__code__ and rng.random() < 0.3:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 1e-4))
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    for _ in range(count):
        chain.buffers[0][:] = chain.start
        try:
            try:
                is_caught = True
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, longest))
                threads = int(rng.integers(1, 3))
                pool.run(chain.ops.ctypes.data, len(chain.ops), chain.batch.ctypes.data, threads)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hits += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
        is_caught = False
        pool.clear()
        chain.run(pool)  # ends what a second interrupt at the worst moment left running
        chain.check(pool)
    pool.close()
    print(hits)


if __name__ == "__main__":
    interrupted_runs(int(sys.argv[1]), int(sys.argv[2]))
