"""The states of the recurrent layers of sequences, in pages: one page has the states of all layers behind one token.

A page is written once, by the batch that computes its token, and read by later ones. So sequences share pages without
copies, a checkpoint is a reference to a page, and a stopped computation leaves the state as it was.
"""

from collections.abc import Iterable

from edgellm.engine.kv_pages import PagePool

NO_STATE = -1
"""In place of a page id: a sequence begins with zeros, or the state behind a row is not kept."""


class StatePage:
    """A page of a pool. It is released when it is garbage collected."""

    def __init__(self, pool: PagePool) -> None:
        self.id = pool.acquire()
        self._pool = pool

    def __del__(self) -> None:
        if hasattr(self, "_pool"):
            self._pool.drop([self.id])


class RecurrentStates:
    """The state pages of one sequence, by the number of tokens that they are behind; none without a pool."""

    def __init__(self, pool: PagePool | None, pages: dict[int, StatePage] | None = None) -> None:
        self.pool, self.pages = pool, pages or {}
        self._new: dict[int, StatePage] = {}

    def reserve(self, lengths: Iterable[int]) -> None:
        """Have pages for the states that the next batch keeps, by number of tokens. Raises NoMemoryError."""
        self._new = {}
        if self.pool is not None:
            self._new = {length: StatePage(self.pool) for length in sorted(lengths)}

    def before(self, length: int) -> int:
        """The id of the page with the state behind `length` tokens."""
        return self.pages[length].id if length else NO_STATE

    def kept(self, length: int, n: int) -> list[int]:
        """For each of `n` tokens behind the first `length` the id of the page reserved for its state, or NO_STATE."""
        new = self._new
        return [new[i].id if i in new else NO_STATE for i in range(length + 1, length + n + 1)]

    def advance(self) -> None:
        """The states of the reserved pages are computed: they take the place of those before."""
        self.pages, self._new = self._new, {}

    def reaches(self, length: int) -> bool:
        """Whether the state behind `length` tokens is there."""
        return self.pool is None or not length or length in self.pages

    def fork(self, length: int) -> "RecurrentStates":
        """Those of another sequence, with the state behind `length` tokens."""
        return RecurrentStates(self.pool, {n: page for n, page in self.pages.items() if n == length})

    def trim(self, length: int) -> None:
        """Drop the states behind more than `length` tokens."""
        self.pages = {n: page for n, page in self.pages.items() if n <= length}
