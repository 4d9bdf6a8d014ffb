"""Tensors of checkpoints that are not needed to generate text."""

import re
import warnings
from collections.abc import Iterable
from pathlib import Path

from converters.architectures.layouts import LAYER
from edgellm.errors import EdgeLLMWarning
from edgellm.fmt import counted, printable, shown_path

# Their values are computed from config.json. Old checkpoints of any model have them, so there is no warning.
_DERIVED = (
    ".attention.masked_bias",
    ".attention.bias",
    ".rotary_emb.inv_freq",
    ".rotary_emb.cos_cached",
    ".rotary_emb.sin_cached",
)
_ROPE = "rope.freqs"

_UNNEEDED = {
    # The lookahead keeps the time linear: a word that no point ends is not searched.
    "images and sound": r"^(model\.)?(?=\w+\.)(\w*(vision|visual|audio|image)\w*|(multi_modal|mm)_\w+|patch_merger)\.",
    "scales of a KV cache in FP8": r"(\b([qkv]|kv|prob)_scale|self_attn\.[kv]_proj\.output_scale)$",
    "scales of activations": r"\b(input|activation)_scale(_ub)?$",
    "a head that rates texts": r"^(v_head|value_head|score|reward_head)\.",
    "clusters of tokens": r"^masked_embedding\.",
    "heads that guess several tokens": r"^((model\.)?mtp\w*|medusa_heads?)\.",
}
_PREDICTING = "layers that predict further tokens"
_REASONS = {reason: re.compile(pattern) for reason, pattern in _UNNEEDED.items()}


def without_unneeded(names: Iterable[str], folder: Path, layers: int, predicting: int) -> list[str]:
    """The names without those of tensors that are not needed; an EdgeLLMWarning names the others.

    Of the layers, `predicting` behind the first `layers` are those of multi-token prediction.
    """
    kept: list[str] = []
    unneeded: dict[str, list[str]] = {}
    for name in names:
        reason = next((reason for reason, pattern in _REASONS.items() if pattern.search(name)), None)
        layer = LAYER.search(name)
        if layer and layers <= int(layer[1]) < layers + predicting:
            reason = _PREDICTING
        if reason:
            unneeded.setdefault(reason, []).append(name)
        elif name != _ROPE and not name.endswith(_DERIVED):
            kept.append(name)
    for reason, some in unneeded.items():
        what = f"{counted(len(some), 'tensor')}, such as {printable(some[0])}, left out: {reason}"
        warnings.warn(f"{shown_path(folder)}: {what}, not needed to write text", EdgeLLMWarning, stacklevel=2)
    return kept
