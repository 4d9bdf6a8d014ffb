"""The states of the recurrent layers of sequences, in pages: one page has the states of all layers behind one token.

A page is written once, by the batch that computes its token, and read by later ones. So sequences share pages without
copies, a checkpoint is a reference to a page, and a stopped computation leaves the state as it was.
"""

from collections.abc import Iterable
from weakref import WeakSet

from edgellm.engine.budget import KVBudget
from edgellm.engine.kv_pages import PagePool
from edgellm.errors import NoMemoryError

NO_STATE = -1
"""In place of a page id: a sequence begins with zeros, or the state behind a row is not kept."""

CHECKPOINT_BYTES = 1 << 30
"""The most bytes of checkpoints of recurrent layers, and of the states of sequences that wait."""

MAX_STATE_CHECKPOINTS = 512
"""The most of these pages, which limits them where pages are small."""

NEEDED_STATE_PAGES = 2
"""The state pages without which a sequence does not go on: that of its last token, and that of the next batch."""

_SHARE = 4
"""Checkpoints take at most 1 / _SHARE of the memory for the KV cache."""


def most_checkpoint_pages(state_bytes: int, budget: KVBudget) -> int:
    """The most pages of `state_bytes` bytes for checkpoints: at least two, for the last message and its reply."""
    room = min(CHECKPOINT_BYTES, budget.room(0) // _SHARE)
    return max(2, min(MAX_STATE_CHECKPOINTS, room // state_bytes))


def most_state_pages(checkpoint_pages: int, drafts: int = 0) -> int:
    """The most state pages of one sequence: those that it needs, checkpoints, and those of `drafts`."""
    return checkpoint_pages + NEEDED_STATE_PAGES + drafts


class StatePage:
    """A page of a pool. It is released when it is garbage collected."""

    def __init__(self, pool: PagePool) -> None:
        self.id = pool.acquire()
        self._pool = pool

    def __del__(self) -> None:
        if hasattr(self, "_pool"):
            self._pool.drop([self.id])


class StatePool:
    """The state pages of all sequences, of which `checkpoints` are for checkpoints and for sequences that wait.

    Pages for drafts do not count until the draft is accepted.
    """

    def __init__(self, pool: PagePool, checkpoints: int) -> None:
        self.pool, self.most = pool, most_state_pages(checkpoints)
        self._counted = WeakSet[StatePage]()

    def page(self, for_draft: bool = False) -> StatePage:
        """A new page. Raises NoMemoryError."""
        page = StatePage(self.pool)
        if not for_draft:
            self._counted.add(page)
        return page

    def count(self, page: StatePage) -> None:
        """Count a page that was made for a draft."""
        self._counted.add(page)

    def excess(self, pages: int) -> int:
        """The number of pages that must go before `pages` more are within the budget."""
        return len(self._counted) + pages - self.most


class RecurrentStates:
    """The state pages of one sequence: `pages[n]` has the state behind the first n tokens; empty without a pool.

    There are that of the last token and, until the next batch, those before its drafts.
    """

    def __init__(self, pool: StatePool | None, pages: dict[int, StatePage] | None = None) -> None:
        self.pool, self.pages = pool, pages or {}
        self._new: dict[int, StatePage] = {}

    def reserve(self, length: int, needed: range, wanted: Iterable[int]) -> None:
        """Have pages for the states that the next batch keeps, by number of tokens, and drop those of earlier drafts.

        The batch begins behind `length` tokens. Raises NoMemoryError without memory for those `needed`: that of the
        last token, and before it those of drafts. Of the others, `wanted`, the first ones are kept for which there is
        memory.
        """
        if self.pool is None:
            return
        self.trim(length)
        new = {n: self.pool.page(for_draft=n != needed[-1]) for n in needed}
        try:
            for n in wanted:
                if n in new:
                    self.pool.count(new[n])
                else:
                    new[n] = self.pool.page()
        except NoMemoryError:
            pass
        self._new = new

    def free_reserved(self) -> None:
        """Drop the pages that were reserved for the next batch."""
        self._new = {}

    def before(self, length: int) -> int:
        """The id of the page with the state behind `length` tokens."""
        return self.pages[length].id if length else NO_STATE

    def kept(self, length: int, n: int) -> list[int]:
        """For each of `n` tokens behind the first `length` the id of the page reserved for its state, or NO_STATE."""
        new = self._new
        return [new[i].id if i in new else NO_STATE for i in range(length + 1, length + n + 1)]

    def advance(self) -> None:
        """Take the reserved pages for those of the sequence: their states are computed now."""
        self.pages, self._new = self.pages | self._new, {}

    def count(self, length: int) -> None:
        """Count the page with the state behind `length` tokens, which may be that of a draft."""
        if self.pool is not None and length in self.pages:
            self.pool.count(self.pages[length])

    def reaches(self, length: int) -> bool:
        """Whether the state behind `length` tokens is there."""
        return self.pool is None or not length or length in self.pages

    def fork(self, length: int) -> "RecurrentStates":
        """Those of another sequence, with the state behind `length` tokens."""
        return RecurrentStates(self.pool, self._only(length))

    def trim(self, length: int) -> None:
        """Drop all states but that behind `length` tokens, and the pages reserved for others."""
        self.pages, self._new = self._only(length), {}
        self.count(length)

    def _only(self, length: int) -> dict[int, StatePage]:
        return {n: page for n, page in self.pages.items() if n == length}

    def drop_before(self, length: int) -> None:
        """Drop the states behind fewer than `length` tokens."""
        self.pages = {n: page for n, page in self.pages.items() if n >= length}
