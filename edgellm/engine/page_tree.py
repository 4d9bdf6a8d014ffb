"""The prefix cache of an engine: a tree of KV pages, in which the path to a node is the beginning of a text.

A node has the ids of up to PAGE tokens, and the pages with their keys and values: one of each KV group without a
window. Ids are compared, not hashes of them. Full pages are never rewritten, so sequences share those of the tree. The
last page of a sequence that has ended is a leaf with fewer ids, which others copy before they write to it.

What else it takes to continue at a length, pages of a window or a recurrent state, is in a `SequenceCheckpoint`. Nodes
refer weakly to those at their tokens: they belong to sequences, and after their end to the leaf that a sequence left.
"""

import sys
from collections import OrderedDict, deque
from collections.abc import Iterator
from collections.abc import Sequence as Ids
from weakref import WeakSet

from edgellm.engine.checkpoints import CheckpointBudget, Checkpoints, SequenceCheckpoint
from edgellm.engine.kv_pages import FREED, PagePool
from edgellm.engine.kv_stats import KVStats
from edgellm.engine.page_node import Node, Tail
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import common_prefix
from edgellm.engine.recurrent_states import RecurrentStates
from kquants.kv_layout import PAGE


class PageTree:
    """The pages of texts that were computed, for sequences that begin with the same tokens.

    `pools` are those of the KV groups. `page_bytes` are the bytes of a page of each, and of a recurrent state. When
    pages in use take more than `limit` bytes, leaves are evicted, the least recently used first. `sequences` are all
    that there are. Nothing may be computed during a call, but for `retire`.
    """

    def __init__(
        self, pools: Ids[PagePool], checkpoints: CheckpointBudget, page_bytes: Ids[int], limit: int = sys.maxsize
    ) -> None:
        self.pools, self.checkpoints, self._page_bytes, self._limit = pools, checkpoints, page_bytes, limit
        self._root = Node(None, (), [])
        self._nodes = OrderedDict[Node, None]()  # the least recently used first
        self._retired = deque[PagedSequence]()
        self.sequences = WeakSet[PagedSequence]()
        self.goes_back = checkpoints.states is None and all(pool.window is None for pool in pools)

    def begin(self, ids: Ids[int]) -> PagedSequence:
        """A sequence with the longest beginning of `ids` that is there, at most all but the last token."""
        self._settle()
        wanted = tuple(ids[:-1])
        node = self._walk(wanted)
        best, points = Tail((), [], []), self._points(node)
        found, reached = points, self._reach(points, node.end)
        rest = wanted[node.end : node.end + PAGE]
        for tail in self._tails(node, rest[:1]):
            shared = common_prefix(tail.ids, rest)
            own = points | dict.fromkeys(tail.points, node.end + shared)
            if (reach := self._reach(own, node.end + shared)) > reached:
                best, found, reached = tail, own, reach
        self._touch(best.node or node)
        return self._sequence(wanted[:reached], node, best, found)

    def _walk(self, ids: tuple[int, ...]) -> Node:
        """The last node of full pages that `ids` begin with."""
        node = self._root
        while (child := node.children.get(ids[node.end : node.end + PAGE])) and len(child.ids) == PAGE:
            node = child
        return node

    def _points(self, node: Node) -> dict[SequenceCheckpoint, int]:
        """The checkpoints at the tokens of a path, and up to where their tokens are those of the path."""
        found: dict[SequenceCheckpoint, int] = {}
        for each in () if self.goes_back else node.path():
            for point in each.points:
                found.setdefault(point, each.end)
        return found

    def _tails(self, node: Node, first: Ids[int]) -> Iterator[Tail]:
        """The pages behind a node that begin with a token: those of its children, and of sequences in use."""
        for ids, child in node.children.items():  # of thousands, where prompts have nothing in common
            if ids[:1] == first:
                yield Tail(ids, child.pages, list(child.points), child)
        for sequence in list(node.running):
            ids, at = tuple(sequence.tokens[node.end : node.end + PAGE]), node.end // PAGE
            pages = [page for table in sequence.tables for page in table.ids[at : at + 1]]  # drafts may go meanwhile
            if ids and ids[:1] == first and not sequence.embeddings and len(pages) == len(self.pools):
                yield Tail(ids, pages, sequence.checkpoints.points)

    def _reach(self, points: dict[SequenceCheckpoint, int], n: int) -> int:
        """The largest length up to `n` at which a sequence can continue."""
        if self.goes_back:
            return n
        return max((point.reach(min(n, end)) for point, end in points.items()), default=0)

    def _sequence(
        self, tokens: tuple[int, ...], node: Node, tail: Tail, points: dict[SequenceCheckpoint, int]
    ) -> PagedSequence:
        """A sequence with `tokens`, whose pages are those of the path to `node` and of `tail`."""
        n, sequence = len(tokens), self.new_sequence()
        pages = [*reversed([each.pages for each in node.path()]), tail.pages][: -(-n // PAGE)]
        reaching = (each for each, end in points.items() if each.reach(min(n, end)) == n)
        point = next(reaching) if n and not self.goes_back else None
        for group, table in enumerate(sequence.tables):
            if table.pool.window is None:
                for each in pages:  # one by one, as an interrupt may come between any two
                    table.ids.append(table.pool.share(each[group]))
            elif point:
                sequence.tables[group] = point.tables[group].fork(n)
        if point and point.state:
            sequence.states = RecurrentStates(sequence.states.pool, {n: point.state})
        sequence.checkpoints.take(each for each, end in points.items() if each.length <= min(n, end))
        sequence.tokens = list(tokens)
        sequence.move_to(node)
        sequence.leave_nodes(n)
        return sequence

    def new_sequence(self) -> PagedSequence:
        """An empty sequence, whose pages become nodes as they get full."""
        sequence = PagedSequence(self.pools, self.checkpoints, self)
        sequence.move_to(self._root)
        return sequence

    def extend(self, sequence: PagedSequence, length: int) -> None:
        """Take the full pages of the first `length` tokens of a sequence, unless its rows were not those of tokens."""
        while (node := sequence.node) and node.end + PAGE <= length:
            has_other_rows = any(at < node.end + PAGE for at in sequence.embeddings)
            sequence.move_to(None if has_other_rows else self._child(node, sequence, node.end + PAGE))

    def _child(self, node: Node, sequence: PagedSequence, end: int) -> Node:
        """The child of a node for the tokens of a sequence up to `end`; both have the same pages then."""
        ids, at = tuple(sequence.tokens[node.end : end]), node.end // PAGE
        child = node.children.get(ids)
        if child is None:
            pages = [FREED] * len(self.pools)
            child = Node(node, ids, pages)
            for group, table in enumerate(sequence.tables):
                if table.pool.window is None:
                    pages[group] = table.pool.share(table.ids[at])
            self._nodes[child] = None  # first: after an interrupt, no child may be missing here
            node.children[ids] = child
            self._remove_parts_of(child)
        else:
            for group, table in enumerate(sequence.tables):
                if table.pool.window is None:
                    table.replace(at, child.pages[group])
        node.kept = None  # the sequence went on from there, and has its checkpoints
        child.add_points(sequence.checkpoints.points)
        return child

    def _remove_parts_of(self, node: Node) -> None:
        """Remove leaves whose tokens a node begins with."""
        siblings = node.parent.children if node.parent else {}
        for other in list(siblings.values()):
            if len(other.ids) < len(node.ids) and node.ids[: len(other.ids)] == other.ids:
                self._remove(other)

    def retire(self, sequence: PagedSequence) -> None:
        """Take all pages of a sequence that is not used any more, before the next call. From any thread."""
        self._retired.append(sequence)

    def _settle(self) -> None:
        """Take what was retired and dropped, and evict what is above the limits."""
        while self._retired:
            self._take(self._retired.popleft())
        while self._bytes() > self._limit or self._keeps_too_many_states():
            if not self._evict():
                break

    def _keeps_too_many_states(self) -> bool:
        """Whether leaves take state pages beyond the budget, or with one for each more than half of it."""
        states = self.checkpoints.states
        if states is None:
            return False
        return states.excess(0) > 0 or 2 * sum(node.kept is not None for node in self._nodes) > states.most

    def _bytes(self) -> int:
        """Bytes of all pages in use, by sequences and by the tree."""
        pools = [*self.pools, *([self.checkpoints.states.pool] if self.checkpoints.states else [])]
        for pool in pools:
            pool.settle()
        return sum(pool.used * nbytes for pool, nbytes in zip(pools, self._page_bytes, strict=True))

    def _take(self, sequence: PagedSequence) -> None:
        """Have all that a sequence computed, which then is empty."""
        self.extend(sequence, len(sequence))
        if sequence.node and not sequence.embeddings and len(sequence):
            sequence.mark()
            self._leave(sequence, sequence.node)
        sequence.move_to(None)
        sequence.checkpoints = Checkpoints(self.checkpoints)
        sequence.trim(0)

    def pause(self, sequence: PagedSequence) -> None:
        """Take all pages of a sequence that waits until there is memory for it; it can continue from what is left."""
        had_embeddings = bool(sequence.embeddings)
        self._take(sequence)
        if not had_embeddings:  # what the tree has for their tokens are other rows
            sequence.move_to(self._root)

    def _leave(self, sequence: PagedSequence, node: Node) -> None:
        """Make a leaf of the tokens behind the last full page, and of the checkpoints."""
        ids = tuple(sequence.tokens[node.end :])
        longer = (child for each, child in node.children.items() if each[: len(ids)] == ids)
        if ids and self.goes_back and (found := next(longer, None)):
            node = found
        elif ids:
            node = self._child(node, sequence, len(sequence))
        if not self.goes_back:
            node.kept = sequence.checkpoints
            node.add_points(sequence.checkpoints.points)
        self._touch(node)

    def _touch(self, node: Node) -> None:
        """The nodes of a path are the most recently used ones from now on, the last of them the first to go."""
        for each in node.path():
            self._nodes.move_to_end(each)

    def evict(self) -> bool:
        """Free the least recently used leaf at which no sequence in use is; False if there is none.

        Those whose pages are shared go last: by a sequence that went back, or by another leaf, which then frees them.
        """
        self._settle()
        return self._evict()

    def _evict(self) -> bool:
        leaves = (node for node in self._nodes if not (node.children or node.running))
        shared = None
        for node in leaves:
            if not any(self._shared_pages(node)):
                self._remove(node)
                return True
            shared = shared or node
        if shared:
            self._remove(shared)
        return shared is not None

    def _shared_pages(self, node: Node) -> Iterator[bool]:
        for pool, page in zip(self.pools, node.pages, strict=True):
            yield page != FREED and pool.is_shared(page)

    def _remove(self, node: Node) -> None:
        parent = node.parent
        assert parent and not node.children, "the children of a node go first"
        if parent.children.get(node.ids) is node:  # otherwise an interrupt came before it was added, or removed
            del parent.children[node.ids]
        del self._nodes[node]
        node.kept = None
        for pool, page in zip(self.pools, node.pages, strict=True):
            if page != FREED:
                pool.release(page)

    def clear(self) -> None:
        """Evict all that no sequence in use shares."""
        while self.evict():
            pass

    def stats(self, nbytes: int, budget_bytes: int) -> KVStats:
        """The figures of all pages; `nbytes` bytes are taken for them of `budget_bytes`."""
        self._settle()
        used = 0
        for group in range(len(self.pools)):
            tables = [table for each in list(self.sequences) for table in each.tables_of(group)]
            used += len({page for table in tables for page in table.ids[table.freed :]})
        pages, held = sum(pool.allocated for pool in self.pools), sum(pool.used for pool in self.pools)
        return KVStats(pages, used, held - used, PAGE, nbytes, budget_bytes)
