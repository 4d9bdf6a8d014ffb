"""Gemma: norm weights are stored less 1; keys in an order of their own."""

from collections.abc import Collection

from converters.architectures.families.family import Family, llama3_rope
from converters.architectures.model import TextModel
from converters.architectures.sources import plus_one
from converters.tensors import Source

ORDER = (
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
)


def norms_plus_one(model: TextModel, sources: list[Source]) -> list[Source]:
    """The tensors with 1 added to the weights of all norms: Gemma multiplies by 1 + weight."""
    return [plus_one(each) if each.name.endswith("norm.weight") else each for each in llama3_rope(model, sources)]


def usual_base(model: TextModel) -> Collection[str]:
    """Omit the base of RoPE where it is the one that readers assume."""
    return ("rope.freq_base",) if model.rope.base == 10000.0 else ()


FAMILY = Family(
    order=ORDER,
    omitted=usual_base,
    sources=norms_plus_one,
    activations=("gelu",),  # of older config.json; the model was trained with the approximation by tanh
    drops_tied_output=True,
)
