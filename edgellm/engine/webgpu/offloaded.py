"""The blocks of a model that a placement puts on the GPU."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from edgellm.arch.blocks import Attention, FeedForward
from edgellm.arch.description import Description
from edgellm.arch.positions import Rope
from edgellm.engine.placement import GPU, Placement, feed_forward, head, mixer


class RowKind(NamedTuple):
    """What the rows of a batch are laid out for: layers of a KV group with `share` query heads for each KV head."""

    kv_group: int
    window: int | None
    share: int


@dataclass(frozen=True)
class OffloadedBlocks:
    """Mixers and feed-forwards by block, as `edgellm.engine.placement` numbers them, and whether the head is there."""

    model: Description
    mixers: dict[int, Attention]
    feed_forwards: dict[int, FeedForward]
    head: bool

    @classmethod
    def of(cls, model: Description, placement: Placement) -> "OffloadedBlocks":
        """The blocks of a model that are on the GPU."""
        layers = list(enumerate(model.layers))
        return cls(
            model,
            {mixer(i): layer.mixer for i, layer in layers if layer.mixer and placement[mixer(i)] == GPU},
            {
                feed_forward(i): layer.feed_forward
                for i, layer in layers
                if layer.feed_forward and placement[feed_forward(i)] == GPU
            },
            placement[head(len(layers))] == GPU,
        )

    @cached_property
    def row_kinds(self) -> tuple[RowKind, ...]:
        """The distinct kinds of all mixers, in order; one for blocks that are no mixers where there is none."""
        found = dict.fromkeys(map(self.row_kind, self.mixers.values()))
        return tuple(found) or (RowKind(0, None, 1),)

    def row_kind(self, settings: Attention) -> RowKind:
        """The kind of rows that a mixer reads."""
        group = self.model.kv_groups.index(settings.window)
        return RowKind(group, settings.window, settings.heads // settings.kv_heads)

    @cached_property
    def ropes(self) -> dict[int, Rope]:
        """The RoPEs of all mixers, by the number of their position table."""
        tables = self.model.position_tables
        return {tables.index(each.rope): each.rope for each in self.mixers.values() if each.rope}
