"""A prefix cache over pages that hold tokens, for tests of what its sequences would read."""

from collections.abc import Iterator

import numpy as np

from edgellm.engine.checkpoints import CheckpointBudget
from edgellm.engine.kv_pages import FREED, PagePool
from edgellm.engine.page_node import Node
from edgellm.engine.page_tree import PageTree
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment
from edgellm.engine.recurrent_states import StatePool
from support.token_pages import TokenPages, used_pages

KINDS: dict[str, tuple[tuple[int | None, ...], bool]] = {
    "plain": ((None, None), False),
    "windowed": ((None, 100), False),
    "windows alone": ((40,), False),
    "recurrent": ((None,), True),
    "all": ((None, 40), True),
    "states alone": ((), True),
}


class World:
    """A tree over pages that hold tokens."""

    def __init__(self, kind: str, most: int = 1 << 40, limit: int = 1 << 60) -> None:
        windows, is_recurrent = KINDS[kind]
        self.store = TokenPages(most)
        self.pools = [PagePool([self.store], group, window) for group, window in enumerate(windows)]
        self.all_pools, self.check = list(self.pools), self.store.check
        pool = PagePool([self.store], len(windows))
        budget = CheckpointBudget(StatePool(pool, 6) if is_recurrent else None)
        self.all_pools += [pool] if is_recurrent else []
        self.page_bytes = list(range(2, 2 + len(self.all_pools)))
        self.tree = PageTree(self.pools, budget, self.page_bytes, limit)

    @property
    def used_bytes(self) -> int:
        """Bytes of all pages with references."""
        return sum(
            len(pages) * nbytes for pages, nbytes in zip(used_pages(self.all_pools), self.page_bytes, strict=True)
        )

    def extend(
        self,
        sequence: PagedSequence,
        tokens: list[int],
        drafts: int = 0,
        marks: tuple[int, ...] = (),
        embedded: tuple[int, ...] = (),
    ) -> None:
        embeddings = {at: np.zeros(4, np.float32) for at in embedded}
        """Compute tokens; those at `embedded` have another embedding, and checkpoints are kept behind `marks`."""
        self.store.write(Segment(sequence, tokens, embeddings=embeddings, marks=marks, drafts=drafts))

    def read(self, ids: list[int]) -> tuple[PagedSequence, int]:
        """A sequence with all of a prompt, and how much of it was there."""
        sequence = self.tree.begin(ids)
        cached = len(sequence)
        self.check(sequence)
        rest = ids[cached:]
        self.extend(sequence, rest, marks=tuple({len(rest) // 2, len(rest) - 1}))
        return sequence, cached

    def leave(self, ids: list[int], marks: bool = True) -> None:
        """Compute all of a prompt and leave it to the tree."""
        sequence = self.tree.begin(ids)
        rest = ids[len(sequence) :]
        self.extend(sequence, rest, marks=tuple({len(rest) // 2, len(rest) - 1}) if marks else ())
        self.tree.retire(sequence)

    def nodes(self, node: Node | None = None) -> Iterator[Node]:
        """The node, by default the root, and all behind it."""
        node = node or self.tree._root
        yield node
        for child in node.children.values():
            yield from self.nodes(child)

    def reachable(self, sequences: list[PagedSequence], nodes: list[Node]) -> list[set[int]]:
        """The pages of each pool that sequences and nodes refer to, by a walk over all of them."""
        found = [set[int]() for _ in self.all_pools]
        points = {point for each in sequences for point in each.checkpoints.points}
        points |= {point for node in nodes if node.kept for point in node.kept.points}
        for group, pages in enumerate(found[: len(self.pools)]):
            tables = [each.tables[group] for each in sequences]
            tables += [point.tables[group] for point in points if group in point.tables]
            pages |= {page for table in tables for page in table.ids}
            pages |= {each.pages[group] for each in nodes if each.pages}
            pages.discard(FREED)
        if len(found) > len(self.pools):
            states = [page for each in sequences for page in each.states.pages.values()]
            found[-1] = {page.id for page in [*states, *(point.state for point in points if point.state)]}
        return found
