"""The nodes of the prefix cache, see `edgellm.engine.page_tree`."""

from collections.abc import Iterator
from collections.abc import Sequence as Ids
from typing import NamedTuple
from weakref import WeakSet, ref

from edgellm.engine.checkpoints import Checkpoints, SequenceCheckpoint
from edgellm.engine.paged_sequence import PagedSequence


class Node:
    """Tokens `start` … `end` - 1 of a text, and their page of each KV group; FREED in groups with a window.

    `points` are the checkpoints that reach a length among them. `running` are the sequences in use that have all their
    later tokens in pages of their own. `kept` are the checkpoints of a sequence that ended here.
    """

    def __init__(self, parent: "Node | None", ids: tuple[int, ...], pages: list[int]) -> None:
        self._parent = ref(parent) if parent else None  # weak, so that a tree ends as soon as its engine is forgotten
        self.ids, self.pages = ids, pages
        self.start: int = parent.end if parent else 0
        self.end: int = self.start + len(ids)
        self.children: dict[tuple[int, ...], Node] = {}
        self.points, self.running = WeakSet[SequenceCheckpoint](), WeakSet[PagedSequence]()
        self.kept: Checkpoints | None = None

    @property
    def parent(self) -> "Node | None":
        """The node before it; None for the root."""
        return self._parent() if self._parent else None

    def path(self) -> Iterator["Node"]:
        """The node and those before it, without the root."""
        node = self
        while parent := node.parent:
            yield node
            node = parent

    def add_points(self, points: Ids[SequenceCheckpoint]) -> None:
        """Refer to the checkpoints at the node's tokens and before the first, here and where else they reach."""
        for point in points:
            if self.start <= point.length <= self.end:
                for node in self.path():
                    if point.reach(node.end) > node.start:
                        node.points.add(point)
                    elif point.length > node.start:
                        break


class Tail(NamedTuple):
    """The page behind the last full node of a match, of a node or of a sequence in use: ids, page of each group, and
    checkpoints there."""

    ids: tuple[int, ...]
    pages: list[int]
    points: Ids[SequenceCheckpoint]
    node: Node | None = None
