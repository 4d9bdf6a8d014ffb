"""Ling 2.0 and Ring 2.0: the first layers are dense, and the last may be for multi-token prediction."""

from converters.architectures.config import Config
from converters.architectures.experts import SIGMOID, has_experts, lacks_of, write_leading_dense
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.prediction import write_prediction_layers
from converters.architectures.sizes import CheckpointSizes, read_sizes_with_experts


def _check(config: Config) -> None:
    for key in ("use_bias", "use_qkv_bias", "norm_head"):
        if config.flag(key):
            config.refuse(f"{key} is not supported for bailingmoe2")
    for key in ("use_qk_norm", "use_rmsnorm"):
        if not config.flag(key, default=True):
            config.refuse(f"models without {key} are not supported for bailingmoe2")


def _sizes(config: Config) -> CheckpointSizes:
    """The sizes; all shared experts must be one of the width that files give for one."""
    sizes = read_sizes_with_experts(config)
    width = config.integer("moe_shared_expert_intermediate_size", sizes.shared_ffn, most=1 << 22)
    if config.integer("num_shared_experts", 1, least=0) != 1 or width != sizes.shared_ffn:
        config.refuse("other than one shared expert as wide as the others (num_shared_experts) is not supported")
    return sizes


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes = model.config, model.sizes
    keys.integer("expert_gating_func", SIGMOID)
    keys.integer("rope.dimension_count", int(sizes.head_dim[0] * model.rope.rotary_fraction))
    write_leading_dense(keys, model)
    keys.integer("vocab_size", sizes.vocab)
    keys.integer("expert_feed_forward_length", sizes.expert_ffn)
    keys.integer("expert_shared_feed_forward_length", sizes.shared_ffn)
    keys.number("expert_weights_scale", config.number("routed_scaling_factor", 1.0, least=1e-9))
    keys.integer("expert_shared_count", 1)
    keys.flag("expert_weights_norm", config.flag("norm_topk_prob", default=True))
    write_prediction_layers(keys, model)


FAMILY = Family(check=_check, sizes=_sizes, write=_write, lacks=lacks_of(has_experts), partial_rotary=True)
