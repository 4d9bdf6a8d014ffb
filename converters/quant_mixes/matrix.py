"""What a quantization mix asks about a matrix, and types that depend on its layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class LayerPosition:
    """The position of a matrix among those of its role: `index` of `count`, with `group` heads per key-value head."""

    index: int
    count: int
    group: int


@dataclass(frozen=True)
class PlacedMatrix:
    """What the mixes ask about a matrix: its role and its place in the model, which has this number of experts.

    `is_stack` is True for the stacked matrices of experts. With `has_imatrix`, an importance matrix is given.
    """

    role: str
    layer: LayerPosition
    experts: int
    is_stack: bool
    has_imatrix: bool


class LayerSplit(NamedTuple):
    """The type `better` in the layers for which `where` is True, `rest` in the others."""

    better: str
    where: Callable[[LayerPosition], bool]
    rest: str

    def type_in(self, layer: LayerPosition) -> str:
        """The type of a matrix in this layer."""
        return self.better if self.where(layer) else self.rest


def spread(layer: LayerPosition) -> bool:
    """The first and the last eighth of the layers, and every third layer between."""
    eighth, last = layer.count // 8, 7 * layer.count // 8
    return layer.index < eighth or layer.index >= last or (layer.index - eighth) % 3 == 2


def first(n: int) -> Callable[[LayerPosition], bool]:
    """The first n layers."""
    return lambda layer: layer.index < n


def first_part(parts: int) -> Callable[[LayerPosition], bool]:
    """The first eighth of the layers, for 8 parts."""
    return lambda layer: layer.index < layer.count // parts


def has_small_attn_v(layer: LayerPosition) -> bool:
    """Four or more query heads share a key-value head, so attn_v is small compared with attn_q."""
    return layer.group >= 4
