"""Sequences over KV pages and state pages.

A fork shares the pages of its parent. With windows a sequence goes back only to lengths whose windows it still holds:
those close to its end, and those of its checkpoints. With recurrent layers it goes back to its checkpoints, and to the
tokens of the last batch whose states were kept.
"""

from collections.abc import Sequence as Ids
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edgellm.engine import protocol
from edgellm.engine.checkpoints import CheckpointBudget, Checkpoints, SequenceCheckpoint
from edgellm.engine.follower import Follower
from edgellm.engine.kv_pages import PagePool, PageTable
from edgellm.engine.outputs import Outputs
from edgellm.engine.recurrent_states import RecurrentStates
from edgellm.errors import NoMemoryError

if TYPE_CHECKING:
    from edgellm.engine.page_node import Node
    from edgellm.engine.page_tree import PageTree


class PagedSequence(protocol.Sequence):
    """The state of one sequence of tokens: their ids, the page tables of each KV group, and recurrent states.

    `tokens` are exactly those whose state is in the pages: a stopped computation adds none, but may leave pages
    reserved. `node` is where it is in the prefix cache `tree`: the last page that they share. None for a sequence that
    the cache does not know. `follower` keeps what a head that drafts reads of the tokens, if there is one.
    """

    def __init__(self, pools: Ids[PagePool], budget: CheckpointBudget, tree: "PageTree | None" = None) -> None:
        super().__init__()
        self._pools, self.states = pools, RecurrentStates(budget.states)
        self._tree, self.node = tree, None  # type: PageTree | None, Node | None
        if tree:
            tree.sequences.add(self)
        self.goes_back = budget.states is None and all(pool.window is None for pool in pools)
        self.needs_marks = budget.states is not None
        self.tables = [PageTable(pool) for pool in pools]
        self.checkpoints = Checkpoints(budget)
        self.follower: Follower | None = None

    def reserve(self, segment: protocol.Segment["PagedSequence"]) -> None:
        """Have room for the tokens of a segment in pages that no other sequence shares. Raises NoMemoryError.

        Checkpoints are forgotten where those of the segment need their room. After an error nothing is reserved.
        """
        try:
            self._reserve(segment)
        except NoMemoryError:
            self.free_reserved()
            raise

    def free_reserved(self) -> None:
        """Free the pages that were reserved for tokens which were not computed."""
        self.states.free_reserved()
        for table in self.tables:
            table.trim(len(self.tokens))

    def _reserve(self, segment: protocol.Segment["PagedSequence"]) -> None:
        length, n = len(self.tokens), len(segment.tokens)
        for table in self.tables:
            table.reserve(length, n)
        marks = [length + i + 1 for i in segment.marks]
        retry = None if segment.retry_mark is None else length + segment.retry_mark + 1
        planned = self.checkpoints.plan(marks, retry, any(table.pool.window is not None for table in self.tables))
        first = max(length + 1, length + n - segment.drafts)  # the state behind `length` tokens is there
        self._reserve_states(range(first, length + n + 1), planned, segment.drafts)

    def _reserve_states(self, needed: range, planned: Ids[int], drafts: int) -> None:
        """Have pages for states. Where memory is short checkpoints are forgotten, unless it is for drafts."""
        while True:
            try:
                return self.states.reserve(len(self.tokens), needed, planned)
            except NoMemoryError:
                if drafts or not self.checkpoints.forget_one():
                    raise

    def append(self, segment: protocol.Segment["PagedSequence"]) -> None:
        """Add the tokens of a segment, whose state is now in the pages."""
        length = len(self.tokens)
        new = {length + i: each for i, each in segment.embeddings.items()}
        self.embeddings = self._embeddings_before(length) | new
        self.states.advance()
        self.tokens.extend(segment.tokens)
        for n, retry in self.checkpoints.planned.items():
            self._add_checkpoint(n, retry)
        self.states.drop_before(len(self.tokens) - segment.drafts)
        if self._tree:  # rejected drafts are not worth a node
            self._tree.extend(self, len(self.tokens) - segment.drafts)
        for table in self.tables:
            table.free_before_window(len(self.tokens))

    def tell_follower(self, outputs: Outputs, rows: slice) -> None:
        """Give the follower the outputs of the last tokens, `rows` of a batch."""
        if self.follower:
            self.follower.computed(len(self.tokens) - (rows.stop - rows.start), outputs, rows)

    def move_to(self, node: "Node | None") -> None:
        """Be at a node of the prefix cache, which has all tokens before the sequence's own pages."""
        before, self.node = self.node, node
        if before:
            before.running.discard(self)
        if node:
            node.running.add(self)

    def _embeddings_before(self, cell: int) -> dict[int, NDArray[np.float32]]:
        return {at: each for at, each in self.embeddings.items() if at < cell}

    def leave_nodes(self, n: int) -> None:
        """Go back to the node before `n` tokens."""
        while self.node and self.node.end > n:
            self.move_to(self.node.parent)

    def fork(self) -> "PagedSequence":
        """Another sequence with the same tokens, sharing the pages that hold their state."""
        child = PagedSequence(self._pools, self.checkpoints.budget, self._tree)
        child.states = self.states.fork(len(self))
        child.tokens, child.embeddings = list(self.tokens), self._embeddings_before(len(self))
        child.tables = [table.fork(len(self)) for table in self.tables]
        child.checkpoints = self.checkpoints.fork()
        child.move_to(self.node)
        child.follower = self.follower.fork() if self.follower else None
        return child

    def mark(self) -> None:
        """Keep the pages that the next token sees as a checkpoint, if there are windows or recurrent layers.

        A checkpoint takes the pages of a window at most, and a state page.
        """
        self._add_checkpoint(len(self), retry=False)

    @property
    def marked(self) -> list[int]:
        """See `protocol.Sequence`: the lengths of checkpoints."""
        return [point.length for point in self.checkpoints.lasting]

    def hold(self, n: int) -> None:
        """See `protocol.Sequence`. With recurrent layers it is a checkpoint, which replaces that of the last call."""
        if self.needs_marks and n in self.states.pages and not self.checkpoints.has(n):
            self.states.count(n)
            self.checkpoints.make_room_to_hold()
            self._add_checkpoint(n, retry=True, held=True)

    def _add_checkpoint(self, n: int, retry: bool, held: bool = False) -> None:
        tables = {group: table for group, table in enumerate(self.tables) if table.pool.window is not None}
        state = self.states.pages.get(n)
        if n and (tables or state) and self.states.reaches(n) and not self.checkpoints.has(n):
            forks = {group: table.fork(n) for group, table in tables.items()}
            self.checkpoints.add(SequenceCheckpoint(n, forks, state, retry, held))

    def reach(self, n: int) -> int:
        """The length to which `trim` would go back for `n`.

        It is `n`, unless pages that the next token sees were freed or its state was not kept: then that of the nearest
        checkpoint before, or 0.
        """
        n = max(0, min(n, len(self.tokens)))
        if self._holds(n):
            return n
        point = self.checkpoints.best(n)
        return point.reach(n) if point else 0

    def _holds(self, n: int) -> bool:
        """Whether the windows and the state of the token behind the first `n` are there without a checkpoint."""
        return self.states.reaches(n) and all(table.reaches(n) for table in self.tables)

    def trim(self, n: int) -> int:
        """Keep the first `n` tokens, or as many as `reach` says, and return how many are left."""
        n = self.reach(n)
        point = None if self._holds(n) else next(each for each in self.checkpoints.points if each.reach(n) == n)
        self.checkpoints.trim(n)  # first: after an interrupt, none may stay behind other tokens
        self.leave_nodes(n)
        if point:
            self._return_to_checkpoint(point, n)
        del self.tokens[n:]
        self.embeddings = self._embeddings_before(n)
        self.states.trim(n)
        for table in self.tables:
            table.trim(n)
        if self.follower:
            self.follower.trim(n)
        return n

    def _return_to_checkpoint(self, point: SequenceCheckpoint, n: int) -> None:
        """Keep the first `n` tokens, with the page tables and the state of a checkpoint that reaches them."""
        tables = [
            table if table.pool.window is None else point.tables[i].fork(n) for i, table in enumerate(self.tables)
        ]
        tokens, before = self.tokens[:n], self.tables
        states = RecurrentStates(self.states.pool, {n: point.state} if point.state else {})
        self.tables, self.tokens, self.states = tables, tokens, states  # CPython sees no interrupt between these
        del before  # not earlier, as page tables run code of their own when they are freed

    def pause(self) -> None:
        """See `protocol.Sequence`."""
        if self._tree and self.node:
            self._tree.pause(self)
        else:
            self.trim(0)

    def resume(self, ids: Ids[int]) -> None:
        """See `protocol.Sequence`."""
        if self._tree and self.node and not self.tokens:
            self.adopt(self._tree.begin(ids))

    def tables_of(self, group: int) -> list[PageTable]:
        """The page tables of a KV group: its own, and those of its checkpoints."""
        return [self.tables[group], *(each.tables[group] for each in self.checkpoints.points if group in each.tables)]

    def belongs_to(self, pools: Ids[PagePool]) -> bool:
        """Whether the pages are of these pools."""
        return self._pools is pools

    def adopt(self, other: "PagedSequence") -> None:
        """Take the tokens and the pages of another sequence, and leave it empty."""
        before = self.tables, self.checkpoints, self.states
        empty = PagedSequence(other._pools, other.checkpoints.budget)
        self.move_to(other.node)
        if other._tree:
            other._tree.sequences.add(self)
        taken = other._pools, other._tree, other.tables, other.checkpoints, other.states, other.tokens, other.embeddings
        # CPython sees no interrupt between these.
        (self._pools, self._tree, self.tables, self.checkpoints, self.states, self.tokens, self.embeddings) = taken
        del before  # not earlier, as page tables run code of their own when they are freed
        if self.follower:
            self.follower.restart()
        other.move_to(None)
        other.tokens, other.embeddings = [], {}
        other.tables, other.checkpoints, other.states = empty.tables, empty.checkpoints, empty.states
