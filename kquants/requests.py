"""What a product asks the memory for while it works on a super-block, so that the next ones are there in time.

One by one between the products, as the CPU has room for few requests at a time, and they are of two kinds:

- from each address of `ahead` on, as many bytes as the super-block has, into the second-level cache: what comes soon,
  in order of its addresses, because that is what the CPU's own prefetcher goes along with. A Zen 4 drops requests
  that it has no room for: so decode asks for everything twice (`kquants.tiled`);
- the super-block at `following`, which is read after this one, into the first-level cache, each line by the last byte
  that is in it: the first one came with the bytes before. Two threads of a Zen 4, whose memory gives 33 GB/s: Q4_K
  28.2 GB/s without, 31.0 with it; Q6_K 24.8 and 29.9.
"""

from llvmlite import ir

from kquants.layout import TILE_ROWS
from kquants.quads import Value
from kquants.simd import at, call, pointer, times

_BYTE, _INT = ir.IntType(8), ir.IntType(32)
_FIRST_LEVEL, _SECOND_LEVEL = 3, 2
"""Caches, as LLVM's prefetch numbers them."""


class Requests:
    """The requests beside a super-block of `size` bytes of each row, in `turns` turns of about as many."""

    def __init__(
        self, b: ir.IRBuilder, size: int, stride: Value, following: Value, ahead: list[Value], turns: int
    ) -> None:
        self._b, self._turns, self._turn = b, turns, 0
        rows = [at(b, following, times(b, stride, r)) for r in range(TILE_ROWS)]
        near = [at(b, row, size - 1 - 64 * k) for k in reversed(range(size // 64)) for row in rows]
        far = [at(b, address, line) for line in range(0, TILE_ROWS * size, 64) for address in ahead]
        self._kinds = (near, _FIRST_LEVEL), (far, _SECOND_LEVEL)

    def turn(self) -> None:
        """Ask for the next part, here: after what was loaded so far, before what is loaded later."""
        # No instruction: it keeps the compiler from moving all the requests to one place.
        self._b.fence("seq_cst", "singlethread")
        for addresses, level in self._kinds:
            first, last = (len(addresses) * turn // self._turns for turn in (self._turn, self._turn + 1))
            for address in addresses[first:last]:
                self._ask(address, level)
        self._turn += 1

    def _ask(self, address: Value, level: int) -> None:
        arguments = pointer(self._b, address, _BYTE), _INT(0), _INT(level), _INT(1)
        call(self._b, "llvm.prefetch.p0", ir.VoidType(), *arguments)
