"""Memory for KV pages that holds tokens in place of keys and values, so that tests see what later tokens would read."""

from collections import defaultdict
from collections.abc import Container
from collections.abc import Sequence as Ids

from edgellm.engine.kv_pages import FREED, PagePool
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment
from edgellm.errors import NoMemoryError
from kquants.kv_layout import PAGE


class TokenPages:
    """Pages that hold a token in each cell, and states that hold all tokens before; at most `most` pages of a group.

    A token with an embedding in place of its own is another one there.
    """

    def __init__(self, most: int = 1 << 40) -> None:
        self.cells: dict[tuple[int, int], list[int]] = defaultdict(lambda: [-1] * PAGE)
        self.states: dict[int, list[int]] = {}
        self.most = most

    def ensure_pages(self, group: int, pages: int) -> None:
        if pages > self.most:
            raise NoMemoryError(f"{pages} pages")

    def copy_page(self, group: int, source: int, target: int) -> None:
        self.cells[group, target] = list(self.cells[group, source])

    def write(self, segment: Segment[PagedSequence]) -> None:
        """Compute a segment: reserve its pages, write its tokens to them, and append them."""
        sequence = segment.sequence
        sequence.reserve(segment)
        length = len(sequence)
        embeddings = {at for at in sequence.embeddings if at < length} | {length + at for at in segment.embeddings}
        rows = _rows([*sequence.tokens, *segment.tokens], embeddings)
        for group, table in enumerate(sequence.tables):
            for cell, token in enumerate(rows[length:], length):
                assert not table.pool.is_shared(table.ids[cell // PAGE])
                self.cells[group, table.ids[cell // PAGE]][cell % PAGE] = token
        for n, page in sequence.states._new.items():
            self.states[page.id] = rows[:n]
        sequence.append(segment)

    def check(self, sequence: PagedSequence) -> None:
        """Every cell that the next token sees holds its token, and the state before it all tokens."""
        rows = _rows(sequence.tokens, sequence.embeddings)
        if sequence.states.pool and len(sequence):
            assert self.states[sequence.states.before(len(sequence))] == rows
        for group, table in enumerate(sequence.tables):
            window, length = table.pool.window, len(sequence)
            first = 0 if window is None else max(0, length + 1 - window)
            for at in range(first // PAGE, -(-length // PAGE)):
                start, stop = max(first, at * PAGE), min(length, (at + 1) * PAGE)
                assert table.ids[at] != FREED
                held = self.cells[group, table.ids[at]][start - at * PAGE : stop - at * PAGE]
                assert held == rows[start:stop]


def _rows(tokens: Ids[int], embeddings: Container[int]) -> list[int]:
    return [-2 - token if at in embeddings else token for at, token in enumerate(tokens)]


def used_pages(pools: Ids[PagePool]) -> list[set[int]]:
    """The pages of each pool that have references."""
    for pool in pools:
        pool.settle()
    return [{page for page, n in enumerate(pool._references) if n} for pool in pools]
