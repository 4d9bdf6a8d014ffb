"""What a draft model or head reads for a token, and what it holds of a limited memory beside its target."""

from dataclasses import replace

from edgellm.arch.description import Description
from edgellm.options import LoadOptions
from edgellm.perf.roofline import Roofline

_TYPICAL_TOKENS = 4096
"""Tokens of a text by which the memory of its keys and values is shared."""


def active_bytes(model: Description) -> int:
    """Bytes of weights that a model reads for a token."""
    return Roofline.of(model, "f16").weight_bytes


def kv_share(draft: Description, target: Description, kv_type: str) -> float:
    """The share of a draft model or head of a limited memory of keys and values and of states, from 0 to 1.

    Both it and the target hold the same text, but for a head that reads the target's.
    """
    if draft.target_attention:
        return 0.0
    own, other = (Roofline.of(model, kv_type).sequence_bytes(_TYPICAL_TOKENS) for model in (draft, target))
    return own / (own + other)


def with_kv_share(options: LoadOptions, share: float) -> LoadOptions:
    """Options whose `kv_memory` is a share of what the user allowed; what has a share of 0 needs none."""
    return options if options.kv_memory is None or not share else replace(options, kv_memory=options.kv_memory * share)
