"""The kinds of a model's layers, in words for people."""

from collections import Counter

from edgellm.arch.blocks import Layer
from edgellm.arch.description import Description
from edgellm.arch.latent_attention import LatentAttention


def layer_kind(layer: Layer) -> str:
    """The mixers of a layer, recurrent and attention; "feed-forward" for a layer without any."""
    found = [layer.recurrent.kind] if layer.recurrent else []
    if layer.attention:
        found.append("latent attention" if isinstance(layer.attention, LatentAttention) else "attention")
    return " and ".join(found) or "feed-forward"


def layer_kinds(model: Description) -> dict[str, int]:
    """The number of layers of each kind, the most frequent first."""
    return dict(Counter(map(layer_kind, model.layers)).most_common())
