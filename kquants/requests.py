"""What kernels ask the memory for ahead: cache lines at equal distances, and what a product asks for beside its work.

That is, while it works on a super-block, so that what comes next is there in time: as many bytes as 16 rows of the
super-block have, in order of their addresses, from where the next tile has them and from further on. A CPU's own
prefetchers help little where 16 rows are read side by side, and it drops requests that it has no room for. So a product
asks for each line several times, and all requests go out one by one between the products of its numbers, after the
loads before them, which else wait (a Sapphire Rapids, one thread: 14.7 GB/s before the loads, 16.7 after them).

Lines are asked for in order of their addresses, though a tile is read row beside row: in the order of reading, some
super-blocks ahead, products of a Zen 5 reach 0.6 to 0.8 of the memory's bandwidth, not 0.86 to 0.98.
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
"""How many bytes beyond the next tile, or strip of tiles, products of three and more rows of x ask for lines. (With
(0,) eight sequences decode 2 to 3 % slower on a Zen 5, four 5 to 7 %; long prompts are the same.)"""


def distances_of(fmt: Format, parts: int) -> tuple[int, ...]:
    """How many bytes beyond the next tile of rows in so many parts decode asks for lines, in this order.

    Figures are shares of the memory's bandwidth, two threads of a Zen 5: on cores that share a way to the memory (40
    GB/s), and on cores that have one each (65 GB/s), where as much depends on how much a core has under way as with one
    thread. Lines that are asked for twice at once are dropped less often: instead of (0, 4096, 8192) Q4_K gains 0.04
    and 0.03 (0.99, 0.96), with 8,192 columns 0.05 and 0.05, Q8_0 0.05 and 0.04. Steps of 1 to 12 KB are much the same.
    Q6_K, which gains nothing from that, gains 0.02 to 0.04 from smaller steps where cores share the way, and else loses
    0.01; with AVX2 its fourth request costs 3 %, as its unpacking leaves little time, and others' costs nothing.

    Where weights of 5 and 6 bits come in parts, most tiles are so small (6 KB with 2,048 and 8,192 columns) that what
    lies next is asked for too late: from further on, they gain 0.02 to 0.08, and 0.05 to 0.12 where each core has its
    own way. (8192, 4096, 0, 4096) gives 0.02 less there; four parts would gain 0.01 to 0.02 by it where cores share it.
    Q8_0 (9 KB) loses 0.01 by going further, or gains 0.03.
    """
    if fmt.BITS in (5, 6) and parts > 1:
        return (8192, 0, 8192, 0) if has("avx512f") else (8192, 4096, 0)
    if fmt.BITS == 6:
        return (0, 2048, 4096, 0) if has("avx512f") else (0, 2048, 4096)
    return 0, 4096, 0, 4096


def asked(b: ir.IRBuilder, near: Value, distances: tuple[int, ...], end: Value, onward: Value) -> list[Value]:
    """Addresses at these distances from `near`; those from `end` on, where a share of W ends, are moved by `onward`."""
    addresses = [at(b, near, distance) for distance in distances]
    nowhere = ir.IntType(64)(0)
    return [b.add(address, b.select(b.icmp_signed(">=", address, end), onward, nowhere)) for address in addresses]


class Requests:
    """The requests beside a super-block of `size` bytes of each row, in `turns` turns of about as many.

    `once`: these weights are not read again in this step. On a Zen 5 they then take no room but in the first-level
    cache, and all else that steps need stays in the others, such as Python's code: between two steps of a large model
    70 µs pass instead of 120, and it reads faster. Decode gains 2 to 3 %; with models of 8 to 24 MB, which fit into the
    third-level cache, it stays within 2 %. (With such requests of prefill eight sequences decode 2 to 3 % slower; long
    prompts are the same.)
    """

    def __init__(self, b: ir.IRBuilder, size: int, ahead: list[Value], turns: int, once: bool) -> None:
        self._b, self._turns, self._turn, self._once = b, turns, 0, once
        self._addresses = [at(b, address, line) for line in range(0, TILE_ROWS * size, 64) for address in ahead]

    def turn(self) -> None:
        """Ask for the next part, here: after what was loaded so far, before what is loaded later."""
        # No instruction: it keeps the compiler from moving all the requests to one place.
        self._b.fence("seq_cst", "singlethread")
        first, last = (len(self._addresses) * turn // self._turns for turn in (self._turn, self._turn + 1))
        for address in self._addresses[first:last]:
            ask(self._b, address, self._once)
        self._turn += 1

    def end(self) -> None:
        """No turn was left out, so that nothing was."""
        assert self._turn == self._turns
