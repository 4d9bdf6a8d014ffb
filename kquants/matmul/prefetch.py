"""Prefetches beside the work on a super-block of a tile, so that what comes next is in the caches in time.

They cover as many bytes as 16 rows of the super-block have, in order of their addresses, from where the next tile has
them and from further on. A CPU's own prefetchers help little where 16 rows are read side by side, and it drops
prefetches that it has no room for: so decode prefetches each line several times. All prefetches go out one by one
between the products, after the loads before them, which else wait (measured on Sapphire Rapids, one thread: 14.7 GB/s
before the loads, 16.7 after them).

Lines are prefetched in order of their addresses, though a tile is read row beside row (measured on Zen 5: in the order
of reading, some super-blocks ahead, products reach 0.6 to 0.8 of the memory's bandwidth, not 0.86 to 0.98). An Intel
CPU gets the next super-block of each row, too, into the first-level cache: where it loads weights from the second
level, it seems to have no room for prefetches. After the last super-block of its row that is the row below, which was
read already; the first one of the next tile is left to the second level.

How far, how often and into which cache is in `kquants.tuning`.
"""

from collections.abc import Sequence

from llvmlite import ir

from kquants.formats.packed_bytes import Value
from kquants.layout import TILE_ROWS
from kquants.simd import at, emit_prefetch, times
from kquants.tuning import Distances, PrefetchLevel


def addresses_at(b: ir.IRBuilder, address: Value, distances: Distances) -> list[Value]:
    """The addresses that are `distances` bytes behind `address`."""
    return [at(b, address, distance) for distance in distances]


def skip_to_next_share(b: ir.IRBuilder, starts: list[Value], end: Value, next_offset: Value) -> list[Value]:
    """`starts`, but with `next_offset` added to those at or behind `end`, where the thread's share of W ends."""

    def place(address: Value) -> Value:
        return b.add(address, b.select(b.icmp_signed(">=", address, end), next_offset, ir.IntType(64)(0)))

    return [place(address) for address in starts]


class Prefetcher:
    """The prefetches beside a super-block of `size` bytes of each row, in `steps` steps of about as many.

    From the addresses `starts` on lines are prefetched at a level, as many bytes as `count` rows have; of each of
    `rows`, the super-block that follows.
    """

    def __init__(
        self,
        b: ir.IRBuilder,
        size: int,
        starts: list[Value],
        level: PrefetchLevel,
        steps: int,
        rows: Sequence[Value] = (),
        count: int = TILE_ROWS,
    ) -> None:
        self._b, self._steps, self._done = b, steps, 0
        self._size, self._starts, self._level, self._rows = size, starts, level, rows
        far = [(at(b, address, line), level) for line in range(0, count * size, 64) for address in starts]
        # From byte 63 on: the line where a super-block begins, if it has bytes of two, came with the one before.
        near = [(at(b, row, size + 63 + line), PrefetchLevel.L1) for row in rows for line in range(0, size, 64)]
        self._prefetches = far, near

    def step(self) -> None:
        """Emit the next prefetches here: after what was loaded so far, before what is loaded later."""
        # No instruction: it keeps the compiler from moving all prefetches to one place.
        self._b.fence("seq_cst", "singlethread")
        for prefetches in self._prefetches:
            first, last = (len(prefetches) * done // self._steps for done in (self._done, self._done + 1))
            for address, level in prefetches[first:last]:
                emit_prefetch(self._b, address, level)
        self._done += 1

    def beside(self, first: Value, rows: Sequence[Value], steps: int) -> "Prefetcher":
        """The prefetches beside some rows, of which `first` is the first one's number in the tile: for a loop over all
        rows of the tile, by which this one is finished."""
        self._done = self._steps
        starts = [at(self._b, start, times(self._b, first, self._size)) for start in self._starts]
        return Prefetcher(self._b, self._size, starts, self._level, steps, rows if self._rows else (), len(rows))

    def finish(self) -> None:
        """Check that no step was left out."""
        assert self._done == self._steps
