"""Keys and tensors of a small model of each Gemma family, and what tests read from descriptions."""

from collections.abc import Callable
from typing import Any

from edgellm.arch.blocks import Attention
from edgellm.arch.description import Description
from edgellm.arch.positions import RopeType
from support.gemma_files import (
    SANDWICH,
    Shapes,
    altup_shapes,
    attention_shapes,
    common,
    head_norm_shapes,
    layer_shapes,
    per_layer_shapes,
    plain_shapes,
    windowed_keys,
)

Keys = dict[str, Any]
Described = Callable[..., Description]
"""`described(arch, keys, shapes, values)`: the description of such a file."""


def frequencies(attention: Attention) -> list[float]:
    assert attention.rope and attention.rope.rope_type is RopeType.NEOX
    return [float(value) for value in attention.rope.frequencies]


def gemma2_keys(layers: int) -> Keys:
    caps = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 4.0}
    return common(layers) | caps | {"attention.sliding_window": 16}


def gemma3_keys(layers: int) -> Keys:
    scaling = {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0, "rope.freq_base": 1e6}
    return common(layers) | scaling | {"rope.freq_base_swa": 1e4, "attention.sliding_window": 16}


# Layers 0 and 2 with windows (heads of 4 values, 2 KV heads), layer 1 without (heads of 8, K = V); layers 3 and 4
# read the keys and values of layers 2 and 1.
GEMMA4_WINDOWED = [True, False, True, True, False]


def gemma4_keys() -> Keys:
    return windowed_keys(5, GEMMA4_WINDOWED, shared=2) | {
        "attention.key_length_swa": 4,
        "attention.value_length_swa": 4,
        "attention.head_count_kv": [2, 1, 2, 2, 1],
        "feed_forward_length": [24, 24, 24, 48, 48],
        "rope.dimension_count": 8,
        "rope.dimension_count_swa": 4,
        "embedding_length_per_layer_input": 4,
        "final_logit_softcapping": 30.0,
    }


def gemma4_shapes() -> Shapes:
    shapes = per_layer_shapes(5, 4) | {"token_embd.weight": (8, 16), "output_norm.weight": (16,)}
    shapes["rope_freqs.weight"] = (4,)
    for i, windowed in enumerate(GEMMA4_WINDOWED):
        sizes = {"key_dim": 4, "kv_heads": 2} if windowed else {"key_dim": 8, "kv_heads": 1}
        shapes |= attention_shapes(i, **sizes) | head_norm_shapes(i, sizes["key_dim"])
        shapes |= layer_shapes(i, SANDWICH, 48 if i > 2 else 24)
    del shapes["blk.1.attn_v.weight"]
    for name in ("attn_k", "attn_v", "attn_k_norm"):
        del shapes[f"blk.4.{name}.weight"]  # layer 3 has them, as conversions of the published checkpoints do
    return shapes | {f"blk.{i}.layer_output_scale.weight": (1,) for i in range(5)}


def gemma3n_keys() -> Keys:
    return windowed_keys(5, [True, True, True, True, False]) | {
        "embedding_length_per_layer_input": 4,
        "altup.active_idx": 0,
        "altup.num_inputs": 4,
        "activation_sparsity_scale": [1.5, 1.5, float("-inf"), 0.25, float("-inf")],
    }


def gemma3n_shapes() -> Shapes:
    return plain_shapes(5, head_norms=True) | per_layer_shapes(5, 4) | altup_shapes(5)


FAMILIES: dict[str, tuple[Keys, Shapes]] = {
    "gemma2": (gemma2_keys(2), plain_shapes(2)),
    "gemma3": (gemma3_keys(2), plain_shapes(2, head_norms=True)),
    "gemma3n": (gemma3n_keys(), gemma3n_shapes()),
    "gemma4": (gemma4_keys(), gemma4_shapes()),
}
"""The keys and the tensors of each architecture."""
