"""dots.llm1: the first layers are dense."""

from converters.architectures.config import Config
from converters.architectures.experts import SIGMOID, has_experts, lacks_of, write_leading_dense
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import layer_count, read_sizes_with_experts


def _check(config: Config) -> None:
    types, layers = config.names("layer_types"), layer_count(config)
    first_windowed = config.integer("max_window_layers", layers, least=0) if "sliding_window" in config else layers
    if "sliding_attention" in types or (not types and first_windowed < layers):
        config.refuse("layers with a window (max_window_layers) are not supported for dots1: GGUF has no key for them")


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes = model.config, model.sizes
    keys.integer("expert_feed_forward_length", sizes.expert_ffn)
    write_leading_dense(keys, model)
    keys.integer("expert_shared_count", config.integer("n_shared_experts"))
    keys.number("expert_weights_scale", config.number("routed_scaling_factor", 1.0, least=1e-9))
    keys.flag("expert_weights_norm", config.flag("norm_topk_prob"))
    keys.integer("expert_gating_func", SIGMOID)


FAMILY = Family(check=_check, sizes=read_sizes_with_experts, write=_write, lacks=lacks_of(has_experts))
