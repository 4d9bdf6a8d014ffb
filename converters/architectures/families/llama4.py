"""The text model of Llama 4. What no key of a GGUF file says must be as in the published models."""

from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.experts import lacks_of
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import CheckpointSizes, layer_count, read_sizes_with_experts
from edgellm.arch.architectures import llama4

_ROPE_LAYERS = 4
"""Layers of a group, of which the last has no RoPE."""


def _check(config: Config) -> None:
    chunk = llama4.CHUNK
    implied = {"attention_chunk_size": chunk, "floor_scale": chunk, "no_rope_layer_interval": _ROPE_LAYERS}
    wrong = [key for key, value in implied.items() if config.number(key, value) != value]
    wrong += ["attn_scale"] * (abs(config.number("attn_scale", 0.1) - 0.1) > 1e-9)
    wrong += ["use_qk_norm"] * (config.flag("use_qk_norm", default=True) is not _norms_heads(config))
    wrong += ["attn_temperature_tuning"] * (
        not _scales_queries(config) and config.integer("max_position_embeddings", chunk) >= chunk
    )
    wrong += ["no_rope_layers"] * (_rope_layers(config) != [int((i + 1) % 4 != 0) for i in range(layer_count(config))])
    wrong += ["layer_types"] * (not _has_usual_layers(config))
    if wrong:
        config.refuse(f"another {wrong[0]} than that of Llama 4 is not supported: GGUF files imply it")
    if "moe_layers" in config and config.numbers("moe_layers") != _expert_layers(config):
        config.refuse("moe_layers other than interleave_moe_layer_step gives are not supported")


def _norms_heads(config: Config) -> bool:
    return config.integer("num_local_experts") != llama4.EXPERTS_WITHOUT_HEAD_NORMS


def _scales_queries(config: Config) -> bool:
    """A truth value; the first published files have a number."""
    key = "attn_temperature_tuning"
    return config.integer(key, 1, least=0) > 0 if config.is_integer(key) else config.flag(key, default=True)


def _rope_layers(config: Config) -> list[int]:
    layers = layer_count(config)
    usual = [int((i + 1) % _ROPE_LAYERS != 0) for i in range(layers)]
    return config.integers("no_rope_layers", layers, least=0, most=1) if config.numbers("no_rope_layers") else usual


def _has_usual_layers(config: Config) -> bool:
    """Whether layers with RoPE have chunks and the others do not."""
    kinds = ["chunked_attention" if rope else "full_attention" for rope in _rope_layers(config)]
    return config.names("layer_types") in ([], kinds)


def _expert_layers(config: Config) -> list[int]:
    step = config.integer("interleave_moe_layer_step", 1)
    return list(range(step - 1, layer_count(config), step))


def _sizes(config: Config) -> CheckpointSizes:
    """The width of a dense feed-forward is `intermediate_size_mlp`, that of experts `intermediate_size`."""
    sizes = read_sizes_with_experts(config)
    width = config.integer("intermediate_size_mlp", most=1 << 22)
    return replace(sizes, ffn=(width,) * sizes.layer_count, expert_ffn=sizes.ffn[0], shared_ffn=sizes.ffn[0])


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    keys.integer("interleave_moe_layer_step", model.config.integer("interleave_moe_layer_step", 1))
    keys.integer("expert_feed_forward_length", model.sizes.expert_ffn)


def _has_experts(model: TextModel, layer: int) -> bool:
    return layer in _expert_layers(model.config)


FAMILY = Family(check=_check, sizes=_sizes, write=_write, lacks=lacks_of(_has_experts))
