"""LFM2 with experts, as `lfm2`; the first layers are dense, and feed-forwards as wide as config.json says."""

from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.experts import SIGMOID, check_normalized, lacks_of
from converters.architectures.families import lfm2
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.recurrent import check_by_flag
from converters.architectures.sizes import CheckpointSizes, read_sizes_with_experts
from converters.tensors import Source


def _check(config: Config) -> None:
    lfm2.check(config)
    check_normalized(config)
    if config.number("routed_scaling_factor", 1.0) != 1.0:
        config.refuse("a scale of experts (routed_scaling_factor) is not supported: GGUF has no key for it")


def _sizes(config: Config) -> CheckpointSizes:
    return lfm2.with_convolutions(config, read_sizes_with_experts(config))


def _dense_layers(model: TextModel) -> int:
    return model.config.integer("num_dense_layers", least=0, most=model.sizes.layer_count)


def _has_experts(model: TextModel, layer: int) -> bool:
    return layer >= _dense_layers(model)


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    keys.integer("expert_feed_forward_length", model.sizes.expert_ffn)
    keys.integer("leading_dense_block_count", _dense_layers(model))
    keys.integer("expert_gating_func", SIGMOID)
    lfm2.write(keys, model)


def _check_biases(model: TextModel, sources: list[Source]) -> list[Source]:
    """The tensors. Raises ModelFileError if config.json and the tensors disagree on biases of the choice of experts."""
    with_experts = model.sizes.layer_count - _dense_layers(model)
    check_by_flag(model, sources, "exp_probs_b.bias", "use_expert_bias", with_experts)
    return sources


FAMILY = replace(
    lfm2.FAMILY, check=_check, sizes=_sizes, write=_write, sources=_check_biases, lacks=lacks_of(_has_experts)
)
