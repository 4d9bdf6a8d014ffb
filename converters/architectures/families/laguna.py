"""Laguna: heads by layer, a gate for each head or for each of its values, windows in some models."""

from collections.abc import Collection
from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.experts import SIGMOID, dense_layers, has_experts, lacks_of, write_leading_dense
from converters.architectures.families.family import Family
from converters.architectures.families.mellum import has_windows
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import CheckpointSizes, layer_count, read_sizes_with_experts
from converters.architectures.windows import windowed_layers
from edgellm.fmt import printable

_EVERY, _ALL_FULL = 4, 1
_GATES = {"per-head": True, "per_head": True, "per-element": False, "per_element": False}
"""Values of `gating` and `gating_types`: whether the gate has one value for each head."""


def _check(config: Config) -> None:
    for key in ("attention_bias", "moe_apply_router_weight_on_input"):
        if config.flag(key):
            config.refuse(f"{key} is not supported for laguna")
    if config.number("moe_router_logit_softcapping", 0.0):
        config.refuse("soft caps of routers (moe_router_logit_softcapping) are not supported: GGUF has no key for them")
    dense_layers(config, otherwise=1)


def _gate_per_head(config: Config) -> bool:
    """Whether gates have a value for each head. Raises UnsupportedModelError where layers differ."""
    is_named = config.is_text("gating")
    if not is_named and not config.flag("gating", default=True):
        config.refuse("attention without a gate (gating false) is not supported for laguna")
    given = config.word("gating", "per-head") if is_named else "per-head"
    if given not in _GATES:
        config.refuse(f"gating {printable(given)} is not supported for laguna, only per-head and per-element")
    kinds = {_GATES.get(name) for name in config.names("gating_types")}
    if kinds - {_GATES[given]}:
        config.refuse("gating_types that differ from layer to layer, or from gating, are not supported")
    return _GATES[given]


def _sizes(config: Config) -> CheckpointSizes:
    sizes, key = read_sizes_with_experts(config), "num_attention_heads_per_layer"
    heads = tuple(config.integers(key, layer_count(config), most=1 << 12)) if key in config else ()
    if any(each % sizes.kv_heads[0] for each in heads):
        config.fail(f"{key} has heads that cannot share {sizes.kv_heads[0]} key-value heads; correct it")
    return replace(sizes, layer_heads=heads, gate_per_head=_gate_per_head(config))


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes, rope = model.config, model.sizes, model.rope
    keys.integer("vocab_size", sizes.vocab)
    keys.integers("attention.head_count", (sizes.layer(i).heads for i in range(sizes.layer_count)))
    if has_windows(model):
        keys.integer("attention.sliding_window", config.integer("sliding_window"))
        windowed = windowed_layers(config, _ALL_FULL)
        if windowed != [i % _EVERY > 0 for i in range(len(windowed))]:
            keys.flags("attention.sliding_window_pattern", windowed)
    keys.integer("expert_feed_forward_length", sizes.expert_ffn)
    keys.integer("expert_shared_feed_forward_length", sizes.shared_ffn)
    keys.flag("expert_weights_norm", True)
    keys.number("expert_weights_scale", config.number("moe_routed_scaling_factor", 1.0, least=1e-9))
    keys.integer("expert_gating_func", SIGMOID)
    write_leading_dense(keys, model)
    keys.integer("rope.dimension_count", int(sizes.head_dim[0] * rope.rotary_fraction))
    if rope.sliding and has_windows(model):
        fraction = rope.sliding.number("partial_rotary_factor", 1.0)
        keys.integer("rope.dimension_count_swa", int(sizes.head_dim[0] * fraction))


def _omitted(model: TextModel) -> Collection[str]:
    """The RoPE of windowed layers, in a model without any."""
    return () if has_windows(model) else ("rope.freq_base_swa",)


FAMILY = Family(
    check=_check, sizes=_sizes, write=_write, omitted=_omitted, lacks=lacks_of(has_experts), partial_rotary=True
)
