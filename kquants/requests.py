"""What kernels ask the memory for ahead: cache lines at equal distances, and what a product asks for beside its work.

That is, while it works on a super-block, so that what comes next is there in time. From each address of `ahead` on, as
many bytes as 16 rows of the super-block have, in order of their addresses. A Zen 4 drops requests that it has no room
for, and its own prefetchers do not help where 16 rows are read side by side. So decode asks for everything three times,
ever nearer (`kquants.tiled`), and all go out one by one between the products. Shares of the memory's bandwidth there,
two threads, Q4_K and Q8_0: asked once, in bursts where weights are loaded, 0.90 and 0.91; twice 0.92 and 0.97; twice,
one by one, 0.95 and 0.96; three times 0.96 and 0.98. Those asked for the second-level cache alone. On a Zen 5 decode
of Q4_K reached 0.80 of the bandwidth so, in calm memory, and 0.88 where it asks for all caches. Requests go after the
loads before them, which else wait (a Sapphire Rapids, one thread: 14.7 GB/s before the loads, 16.7 after them).
"""

from llvmlite import ir

from kquants.decorators import inline
from kquants.layout import TILE_ROWS
from kquants.quads import Value
from kquants.simd import ask, at, prefetch


@inline
def fetch_lines(address: int, count: int, stride: int) -> None:
    """Ask for `count` cache lines, `stride` bytes apart."""
    for i in range(count):
        prefetch(address + i * stride)


class Requests:
    """The requests beside a super-block of `size` bytes of each row, in `turns` turns of about as many."""

    def __init__(self, b: ir.IRBuilder, size: int, ahead: list[Value], turns: int) -> None:
        self._b, self._turns, self._turn = b, turns, 0
        self._addresses = [at(b, address, line) for line in range(0, TILE_ROWS * size, 64) for address in ahead]

    def turn(self) -> None:
        """Ask for the next part, here: after what was loaded so far, before what is loaded later."""
        # No instruction: it keeps the compiler from moving all the requests to one place.
        self._b.fence("seq_cst", "singlethread")
        first, last = (len(self._addresses) * turn // self._turns for turn in (self._turn, self._turn + 1))
        for address in self._addresses[first:last]:
            ask(self._b, address)
        self._turn += 1

    def end(self) -> None:
        """No turn was left out, so that nothing was."""
        assert self._turn == self._turns
