"""The blocks of a model that a placement puts on the GPU."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from edgellm.arch.blocks import Attention, FeedForward
from edgellm.arch.description import Description
from edgellm.arch.mixture import MixtureOfExperts
from edgellm.engine.placement import GPU, Placement, feed_forward, head, mixer

QUERIES = 8
"""Queries of a tile of attention, at most."""

LONG_HEAD = 256
"""Values of a head from which on a tile has half as many queries and twice the lanes, as it must fit a workgroup."""


class RowKind(NamedTuple):
    """What the rows of a batch are laid out for: layers of a KV group with `share` query heads for each KV head.

    A tile of attention has up to `queries` queries.
    """

    kv_group: int
    window: int | None
    share: int
    queries: int


class PositionKey(NamedTuple):
    """The numbers of the position tables that an attention layer reads: of its RoPE, and of factors of its queries."""

    rope: int | None
    temperature: int | None


@dataclass(frozen=True)
class OffloadedBlocks:
    """Attention, feed-forwards and mixtures of experts by block, and whether the output head is there.

    Blocks are numbered as in `edgellm.engine.placement`.
    """

    model: Description
    attentions: dict[int, Attention]
    feed_forwards: dict[int, FeedForward]
    mixtures: dict[int, MixtureOfExperts]
    head: bool

    @classmethod
    def of(cls, model: Description, placement: Placement) -> "OffloadedBlocks":
        """The blocks of a model that are on the GPU."""
        layers = list(enumerate(model.layers))
        feed_forwards = {feed_forward(i): layer.feed_forward for i, layer in layers}
        own = {block: part for block, part in feed_forwards.items() if placement[block] == GPU}
        return cls(
            model,
            {
                mixer(i): layer.attention
                for i, layer in layers
                if isinstance(layer.attention, Attention) and placement[mixer(i)] == GPU
            },
            {block: part for block, part in own.items() if isinstance(part, FeedForward)},
            {block: part for block, part in own.items() if isinstance(part, MixtureOfExperts)},
            placement[head(len(layers))] == GPU,
        )

    @cached_property
    def row_kinds(self) -> tuple[RowKind, ...]:
        """The distinct kinds of all attention layers, in order; one for the other blocks where there are none."""
        found = dict.fromkeys(map(self.row_kind, self.attentions.values()))
        return tuple(found) or (RowKind(0, None, 1, QUERIES),)

    def row_kind(self, settings: Attention) -> RowKind:
        """The kind of rows that an attention layer reads."""
        group = self.model.kv_groups.index(settings.window)
        queries = QUERIES if settings.key_dim <= LONG_HEAD else QUERIES // 2
        return RowKind(group, settings.window, settings.heads // settings.kv_heads, queries)

    def position_key(self, settings: Attention) -> PositionKey:
        """The position tables that an attention layer reads."""
        tables = self.model.position_tables
        rope = tables.index(settings.rope) if settings.rope else None
        return PositionKey(rope, tables.index(settings.temperature) if settings.temperature else None)

    @cached_property
    def position_widths(self) -> dict[PositionKey, int]:
        """The float32 values of a row for each distinct key: those of the angles, and a pair for the factor."""
        return {
            self.position_key(each): (each.rope.width if each.rope else 0) + (2 if each.temperature else 0)
            for each in self.attentions.values()
            if each.rope or each.temperature
        }
