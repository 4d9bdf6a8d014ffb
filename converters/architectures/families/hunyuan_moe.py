"""Hunyuan with experts: numbers that config.json may give for each layer, and RoPE as in the dense models."""

from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.families import hunyuan_dense
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import MAX_FFN, CheckpointSizes, check_used_experts, layer_count, read_sizes
from edgellm.arch.hyperparameters import MAX_EXPERTS


def _check(config: Config) -> None:
    """Refuse layers of other kinds."""
    if config.flag("use_cla"):
        config.refuse("layers that read the keys and values of others (use_cla) are not supported")
    if config.integer("moe_layer_num_skipped", 0, least=0):
        config.refuse("layers without experts among others (moe_layer_num_skipped) are not supported")
    if not config.flag("use_mixed_mlp_moe", default=True):
        config.refuse("experts without a shared one (use_mixed_mlp_moe false) are not supported")


def _sizes(config: Config) -> CheckpointSizes:
    sizes = read_sizes(config)
    experts, used = _same(config, "num_experts", MAX_EXPERTS), _same(config, "moe_topk", MAX_EXPERTS)
    check_used_experts(config, used, experts, "num_experts")
    width = sizes.ffn[0]
    expert_ffn = _same(config, "moe_intermediate_size", MAX_FFN) if "moe_intermediate_size" in config else width
    shared = width * _shared(config)
    return replace(sizes, experts=experts, used_experts=used, expert_ffn=expert_ffn, shared_ffn=shared)


def _shared(config: Config) -> int:
    """Shared experts of each layer, one after the other in one feed-forward."""
    return _same(config, "num_shared_expert", 1 << 8) if "num_shared_expert" in config else 1


def _same(config: Config, key: str, most: int) -> int:
    """The number at a key, which may be a list with one for each layer. GGUF has one number for all."""
    numbers = set(config.integers(key, layer_count(config), most=most))
    if len(numbers) > 1:
        config.refuse(f"{key} that differs from layer to layer is not supported")
    return numbers.pop()


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    keys.integer("expert_shared_feed_forward_length", model.sizes.shared_ffn)
    keys.integer("expert_feed_forward_length", model.sizes.expert_ffn)
    keys.integer("expert_used_count", model.sizes.used_experts)
    keys.integer("expert_shared_count", _shared(model.config))
    hunyuan_dense.FAMILY.write(keys, model)


FAMILY = replace(hunyuan_dense.FAMILY, check=_check, sizes=_sizes, write=_write)
