"""Gemma 4: sizes by kind of layer, shared keys and values, values that are keys, experts beside feed-forwards."""

from collections.abc import Collection
from typing import Any

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.families.gemma3 import write_caps_and_window
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.rope_factors import proportional_factors
from converters.architectures.sizes import MAX_FFN, CheckpointSizes, check_used_experts, layer_count, read_sizes
from converters.architectures.sources import computed
from converters.architectures.windows import windowed_layers
from converters.tensors import Source
from edgellm.arch.architectures import gemma4
from edgellm.arch.hyperparameters import MAX_EXPERTS

_EVERY = 6
_SHARED = "num_kv_shared_layers"
_EXPERTS = tuple({each.gguf.split(".")[0] for each in gemma4.EXPERTS})
"""The stems of tensors that models with experts have."""


def _sizes(config: Config) -> CheckpointSizes:
    sizes, layers = read_sizes(config), layer_count(config)
    windowed, shared = _windowed(config), _shared(config)
    full_dim = _of_full_layers(config, "head_dim", "global_head_dim") or sizes.head_dim[0]
    full_kv = _full_kv_heads(config) or sizes.kv_heads[0]
    if sizes.heads % full_kv:
        config.fail(f"{sizes.heads} attention heads cannot share {full_kv} key-value heads; correct it")
    is_wide = [config.flag("use_double_wide_mlp") and i >= layers - shared for i in range(layers)]
    return CheckpointSizes(
        width=sizes.width,
        vocab=sizes.vocab,
        context_length=sizes.context_length,
        heads=sizes.heads,
        kv_heads=tuple(sizes.kv_heads[0] if each else full_kv for each in windowed),
        head_dim=tuple(sizes.head_dim[0] if each else full_dim for each in windowed),
        ffn=tuple(width * (2 if wide else 1) for width, wide in zip(sizes.ffn, is_wide, strict=True)),
        per_layer_width=config.integer("hidden_size_per_layer_input", 0, least=0, most=1 << 16),
        **_experts(config),
    )


def _experts(config: Config) -> dict[str, Any]:
    """The sizes of experts, by their names in CheckpointSizes."""
    if not config.flag("enable_moe_block"):
        return {}
    experts, used = config.integer("num_experts", most=MAX_EXPERTS), config.integer("top_k_experts")
    check_used_experts(config, used, experts, "num_experts")
    width = config.integer("moe_intermediate_size", most=MAX_FFN)
    return {"experts": experts, "used_experts": used, "expert_ffn": width}


def _windowed(config: Config) -> list[bool]:
    """Whether each layer is windowed; the last one is not, whatever config.json says, as in transformers."""
    return [*windowed_layers(config, _EVERY)[:-1], False]


def _check(config: Config) -> None:
    """Refuse models without a layer whose keys and values the others could share."""
    config.integer(_SHARED, 0, least=0, most=layer_count(config) - 1)


def _shared(config: Config) -> int:
    """Number of last layers that read the keys and values of an earlier one; in an assistant all, of its target."""
    return config.integer(_SHARED, 0, least=0, most=layer_count(config))


def _full_kv_heads(config: Config) -> int | None:
    """Key-value heads of layers without a window, where they have a number of their own."""
    found = _of_full_layers(config, "num_key_value_heads", "num_global_key_value_heads")
    return found if "per_layer_config" in config or config.flag("attention_k_eq_v") else None


def _of_full_layers(config: Config, key: str, global_key: str) -> int | None:
    """A size of layers without a window: in `per_layer_config` of newer files, else at a key of its own."""
    by_layer = Config(config.path, config.section("per_layer_config"))
    windowed = _windowed(config)
    found = set()
    for name in config.section("per_layer_config"):
        own = Config(config.path, by_layer.section(name))
        index = int(name) if name.isdecimal() and len(name) < 6 else len(windowed)
        if key in own:
            if index >= len(windowed) or windowed[index]:
                config.refuse(f"per_layer_config with a {key} of windowed layers is not supported")
            found.add(own.integer(key, most=1 << 12))
    if len(found) > 1:
        config.refuse(f"per_layer_config with several {key} is not supported")
    if found or "per_layer_config" in config:
        return next(iter(found), None)
    return config.integer(global_key, most=1 << 12) if global_key in config else None


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes = model.config, model.sizes
    windowed = _windowed(config)
    full = windowed.index(False)
    local = windowed.index(True) if True in windowed else 0
    if config.flag("use_double_wide_mlp"):
        keys.integers("feed_forward_length", sizes.ffn)
    if _full_kv_heads(config):
        keys.integers("attention.head_count_kv", sizes.kv_heads)
    for name in ("key_length", "value_length"):
        keys.integer(f"attention.{name}", sizes.head_dim[full])
    write_caps_and_window(keys, model)
    keys.integer("attention.shared_kv_layers", _shared(config))
    keys.integer("embedding_length_per_layer_input", sizes.per_layer_width)
    keys.flags("attention.sliding_window_pattern", windowed)
    for name in ("key_length", "value_length"):
        keys.integer(f"attention.{name}_swa", sizes.head_dim[local])
    if sizes.experts:
        keys.integer("expert_feed_forward_length", sizes.expert_ffn)
    keys.integer("rope.dimension_count", sizes.head_dim[full])
    keys.integer("rope.dimension_count_swa", sizes.head_dim[local])


def _lacks(model: TextModel, layer: int) -> Collection[str]:
    """A shared layer has no keys and values; a full layer may have keys alone; some models have no experts."""
    experts = () if model.sizes.experts else _EXPERTS
    if layer >= model.sizes.layer_count - _shared(model.config):
        return ("attn_k", "attn_v", "attn_k_norm", *experts)
    windowed = _windowed(model.config)[layer]
    return ("attn_v", *experts) if model.config.flag("attention_k_eq_v") and not windowed else experts


def _sources(model: TextModel, sources: list[Source]) -> list[Source]:
    """The tensors after the factors of the RoPE of layers without a window."""
    windowed = _windowed(model.config)
    names = {source.name for source in sources}
    for i in range(len(windowed)):
        if f"blk.{i}.attn_v.weight" not in names and "attn_v" not in _lacks(model, i):
            model.config.fail(f"the checkpoint has no tensor for blk.{i}.attn_v.weight of GGUF; get another copy of it")
    dim = model.sizes.head_dim[windowed.index(False)]
    fraction = model.rope.rotary_fraction if model.rope.kind == "proportional" else 1.0
    return [computed("rope_freqs.weight", proportional_factors(dim, fraction)), *sources]


FAMILY = Family(
    check=_check,
    sizes=_sizes,
    write=_write,
    sources=_sources,
    rope_kinds=("default", "proportional"),
    partial_rotary=True,
    lacks=_lacks,
)
