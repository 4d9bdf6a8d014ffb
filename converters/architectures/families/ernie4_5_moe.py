"""ERNIE 4.5 with experts: dense layers first, then experts at an interval; shared experts."""

from converters.architectures.config import Config
from converters.architectures.experts import lacks_of
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import layer_count, read_sizes_with_experts
from converters.tensors import Source


def _check(config: Config) -> None:
    """Refuse what GGUF has no key for: dense layers behind those with experts, and biases of projections."""
    if config.flag("use_bias"):
        config.refuse("biases of projections (use_bias) are not supported for ERNIE 4.5 with experts")
    end = config.integer("moe_layer_end_index", -1, least=-1)
    if end not in (-1, layer_count(config) - 1):
        config.refuse(f"dense layers behind those with experts (moe_layer_end_index {end}) are not supported")


def _has_experts(model: TextModel, layer: int) -> bool:
    return layer >= _first(model.config) and (layer + 1) % _interval(model.config) == 0


def _first(config: Config) -> int:
    return config.integer("moe_layer_start_index", least=0, most=layer_count(config))


def _interval(config: Config) -> int:
    return config.integer("moe_layer_interval", most=layer_count(config))


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes = model.config, model.sizes
    keys.integer("expert_count", sizes.experts)
    keys.integer("expert_used_count", sizes.used_experts)
    keys.integer("interleave_moe_layer_step", _interval(config))
    keys.integer("leading_dense_block_count", _first(config))
    keys.integer("expert_feed_forward_length", sizes.expert_ffn)
    keys.integer("expert_shared_count", config.integer("moe_num_shared_experts", least=0))
    if sizes.shared_ffn:
        keys.integer("expert_shared_feed_forward_length", sizes.shared_ffn)


def _sources(model: TextModel, sources: list[Source]) -> list[Source]:
    """The tensors, with the down matrices of experts behind the others, as llama.cpp's converter has them here."""
    last = {source.name.replace("ffn_down_", "ffn_up_"): source for source in sources if "ffn_down_exps" in source.name}
    others = [source for source in sources if source not in last.values()]
    return [each for source in others for each in (source, last.get(source.name)) if each]


FAMILY = Family(
    check=_check, sizes=read_sizes_with_experts, write=_write, sources=_sources, lacks=lacks_of(_has_experts)
)
