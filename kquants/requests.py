"""What kernels ask the memory for ahead: cache lines at equal distances, and what a product asks for beside its work.

That is, while it works on a super-block, so that what comes next is there in time: as many bytes as 16 rows of the
super-block have, in order of their addresses, from where the next tile has them and from further on. A CPU's own
prefetchers help little where 16 rows are read side by side, and it drops requests that it has no room for. So decode
asks for each line several times, and all requests go out one by one between the products, after the loads before them,
which else wait (a Sapphire Rapids, one thread: 14.7 GB/s before the loads, 16.7 after them).
"""

from llvmlite import ir

from kquants.cpu import has
from kquants.decorators import inline
from kquants.layout import TILE_ROWS
from kquants.pieces import Format
from kquants.quads import Value
from kquants.simd import ask, at, prefetch


@inline
def fetch_lines(address: int, count: int, stride: int) -> None:
    """Ask for `count` cache lines, `stride` bytes apart."""
    for i in range(count):
        prefetch(address + i * stride)


PREFILL_DISTANCES = (0, 4096)
"""How many bytes beyond the next tiles products of more rows ask for lines. (With (0,) eight sequences decode 2 to 3 %
slower on a Zen 5, and four 5 to 7 %.)"""


def distances_of(fmt: Format) -> tuple[int, ...]:
    """How many bytes beyond the next tile decode asks for lines, in this order.

    What is asked for twice at once is dropped less often. Products from the memory of a Zen 5, two threads, reach of
    its bandwidth with (0, 4096, 8192) and with this: Q4_K 0.95 and 0.99, wide rows 0.87 and 0.92, Q8_0 0.89 and 0.94.
    Other steps, 1 to 12 KB, make 1 % more or less. Where each weight is joined from two places there is less time to
    ask: Q6_K 0.90 and 0.92, in bursts of a fast memory 0.91 and 0.90 (with six requests 0.87); with AVX2 a fourth
    request costs 3 %.
    """
    if fmt.BITS in (3, 5, 6):
        return (0, 2048, 4096, 0) if has("avx512f") else (0, 2048, 4096)
    return 0, 4096, 0, 4096


def in_share(b: ir.IRBuilder, address: Value, end: Value, onward: Value) -> Value:
    """An address, or, from the end of a share of W on, how far `onward` what is read then lies."""
    return b.add(address, b.select(b.icmp_signed(">=", address, end), onward, ir.IntType(64)(0)))


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
