"""What kernels ask the memory for ahead: cache lines at equal distances, and what a product asks for beside its work.

That is, while it works on a super-block, so that what comes next is there in time: as many bytes as 16 rows of the
super-block have, in order of their addresses, from where the next tile has them and from further on. A CPU's own
prefetchers help little where 16 rows are read side by side, and it drops requests that it has no room for. So a product
asks for each line several times, and all requests go out one by one between the products of its numbers, after the
loads before them, which else wait (a Sapphire Rapids, one thread: 14.7 GB/s before the loads, 16.7 after them).

Lines are asked for in order of their addresses, though a tile is read row beside row: in the order of reading, some
super-blocks ahead, products of a Zen 5 reach 0.6 to 0.8 of the memory's bandwidth, not 0.86 to 0.98. Decode asks an
Intel CPU, besides, for the next super-block of each row, when it has come as near as the second-level cache
(`asks_row_by_row`).
"""

from collections.abc import Sequence

from llvmlite import ir

from kquants.compiler.cpu import Level, has, is_intel, is_wide_zen_4
from kquants.formats.pieces import Format
from kquants.formats.quads import Value
from kquants.layout import TILE_ROWS
from kquants.simd import at, emit_prefetch

PREFILL_AHEAD = 0, 4096
"""How many bytes beyond the next tiles products ask for lines beside weights that they unpack.

With the first alone eight sequences decode 2 to 3 % slower on a Zen 5, on a Granite Rapids 4 to 7 %. Long prompts are
the same.
"""


def decode_ahead(fmt: Format, parts: int) -> tuple[int, ...]:
    """How many bytes beyond the next tile decode asks for lines, with rows of W in so many parts.

    In this order. For Intel's CPUs see `asks_row_by_row`.

    Figures are shares of the memory's bandwidth, two threads of a Zen 5: on cores that share a way to the memory (40
    GB/s), and on cores that have one each (65 GB/s), where as much depends on how much a core has under way as with one
    thread. Lines that are asked for twice at once are dropped less often: instead of (0, 4096, 8192) Q4_K gains 0.04
    and 0.03 (0.99, 0.96), with 8,192 columns 0.05 and 0.05, Q8_0 0.05 and 0.04. Steps of 1 to 12 KB are much the same.
    Q6_K, which gains nothing from that, gains 0.02 to 0.04 from smaller steps where cores share the way, and else loses
    0.01.

    Where weights of 5 and 6 bits come in parts, most tiles are so small (6 KB with 2,048 and 8,192 columns) that what
    lies next is asked for too late: from further on, they gain 0.02 to 0.08, and 0.05 to 0.12 where each core has its
    own way. (8192, 4096, 0, 4096) gives 0.02 less there; four parts would gain 0.01 to 0.02 by it where cores share it.
    Q8_0 (9 KB) loses 0.01 by going further, or gains 0.03. A Zen 4 with AVX-512 is as fast
    with three requests for Q6_K, or 1 % faster than with four, or with those of (4096, 2048, 0).

    Six requests beside one row of Q4_K cost a Zen 4 with AVX-512 2 % of a step of Q4_K_M, and gained 1 to 2 % before;
    with four rows, or eight requests, steps lose.

    Vectors of AVX2 leave little time for requests: a Zen 4 that has no others decodes faster with two of them, Q4_K by
    3 to 5 %, Q5_K and Q4_0 by 3 to 8, Q3_K by 16, Q6_K by 4, Q8_0 by 6. With a single one Q4_K of 2,048 columns loses
    11 %, Q6_K 6. Others without AVX-512 are taken to be like it, which was not measured.
    """
    if is_intel() or not has("avx512f"):
        return 0, 4096
    if fmt.BITS == 6 and parts > 1 and is_wide_zen_4():
        return 8192, 4096, 0
    if fmt.BITS in (5, 6) and parts > 1:
        return 8192, 0, 8192, 0
    if fmt.BITS == 6:
        return 0, 2048, 4096, 0
    return 0, 4096, 0, 4096


def asks_row_by_row() -> bool:
    """Whether decode asks for the next super-block of each row of a tile as well, into the first-level cache.

    Where it loads weights from the second level, an Intel CPU seems to have no room for what is asked for ahead. Asked
    for into the first in order of addresses, only small tiles stay there until they are read, and what waits there for
    the memory takes the room of loads. Shares of the bandwidth of an Emerald Rapids, two threads, products alone.
    Before: lines at 0 asked for into the first level, at 3072 into the second, as was best for a Granite Rapids, and
    large tiles in four parts, but for Q6_K. Now: whole rows, 0 and 4096 into the second, and this.

                columns    before    now
        Q4_K       2048      0.95    1.01
        Q4_K       8192      0.88    0.96
        Q6_K       2048      0.94    1.01
        Q6_K       8192      0.90    0.99
        Q8_0       2048      0.89    1.0
        Q8_0       8192      0.92    0.96

    Steps gained 8 % (Q4_K_M) and 10 % (Q8_0), with one thread 5 %. With AVX-512, but without VNNI, Q4_K_M gained 2 to
    4 %; with AVX2 or AVX-VNNI alone 1 to 2 %, Q8_0 nothing (by this alone, beside another program, both 4 to 8 %).
    Whether the second request is 2048, 3072 or 4096 bytes on makes no difference. Without the one at 0, or with the
    super-block after the next in place of the next, products lose 2 %, with a third request at 6144 up to 2. Intel's
    others are taken to be like it, and other makers' were not measured so.

    After the last super-block of its row that is the row below, which was read already; the first one of the next tile
    is left to the second level. (Of 2,048 columns that is one of eight. With that one asked for, products of Q8_0
    gained 1 %, of Q4_K_M nothing: too little for what it takes to tell the last super-block from the others.)
    """
    return is_intel()


def beyond(b: ir.IRBuilder, near: Value, ahead: tuple[int, ...]) -> list[Value]:
    """The addresses from where on to ask for lines: so many bytes beyond the next tiles."""
    return [at(b, near, distance) for distance in ahead]


def moved(b: ir.IRBuilder, asked: list[Value], end: Value, onward: Value) -> list[Value]:
    """The same, those from `end` on, where a share of W ends, are moved by `onward`."""

    def place(address: Value) -> Value:
        return b.add(address, b.select(b.icmp_signed(">=", address, end), onward, ir.IntType(64)(0)))

    return [place(address) for address in asked]


class Requests:
    """The requests beside a super-block of `size` bytes of each row, in `turns` turns of about as many.

    From the addresses `asked` on for lines at a level, and for the super-blocks that follow in some `rows`, if any.
    """

    def __init__(
        self,
        b: ir.IRBuilder,
        size: int,
        asked: list[Value],
        level: Level,
        turns: int,
        rows: Sequence[Value] = (),
    ) -> None:
        self._b, self._turns, self._turn = b, turns, 0
        far = [(at(b, address, line), level) for line in range(0, TILE_ROWS * size, 64) for address in asked]
        # From byte 63 on: the line where a super-block begins, if it has bytes of two, was asked for with the former.
        near = [(at(b, row, size + 63 + line), Level.FIRST) for row in rows for line in range(0, size, 64)]
        self._requests = far, near

    def turn(self) -> None:
        """Ask for the next part, here: after what was loaded so far, before what is loaded later."""
        # No instruction: it keeps the compiler from moving all the requests to one place.
        self._b.fence("seq_cst", "singlethread")
        for requests in self._requests:
            first, last = (len(requests) * turn // self._turns for turn in (self._turn, self._turn + 1))
            for address, level in requests[first:last]:
                emit_prefetch(self._b, address, level)
        self._turn += 1

    def end(self) -> None:
        """No turn was left out, so that nothing was."""
        assert self._turn == self._turns
