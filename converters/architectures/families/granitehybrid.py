"""Granite 4: layers of Mamba-2 and of attention, dense or with experts.

Models whose layers are all attention become `granite`, or `granitemoe`. The feed-forward of dense models has the name
of the shared expert in checkpoints.
"""

from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.families import granite, granitemoe
from converters.architectures.families.mamba2 import UNLIMITED_CONTEXT
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.mamba import PREFIXED_KEYS, check_mamba, mamba_sources, read_mamba
from converters.architectures.model import TextModel
from converters.architectures.recurrent import listed_layers, write_ssm
from converters.architectures.sizes import MAX_FFN, CheckpointSizes, layer_count, read_sizes, read_sizes_with_experts
from converters.tensors import Source

_SHARED = "shared_intermediate_size"
_MAMBA, _ATTENTION = ("mamba", "linear_attention"), ("attention", "full_attention")


def _check(config: Config) -> None:
    check_mamba(config, ("mamba_proj_bias",))


def _recurrent_layers(config: Config) -> list[bool]:
    """Whether each layer is recurrent: by `layer_types`, else all are. Raises ModelFileError."""
    return listed_layers(config, _MAMBA, _ATTENTION) or [True] * layer_count(config)


def _has_experts(config: Config) -> bool:
    return config.integer("num_local_experts", least=0) > 0


def _has_rope(config: Config) -> bool:
    return config.word("position_embedding_type", "") == "rope"


def _sizes(config: Config) -> CheckpointSizes:
    sizes = read_sizes_with_experts(config) if _has_experts(config) else read_sizes(config)
    shared, is_recurrent = config.integer(_SHARED, least=0, most=MAX_FFN), _recurrent_layers(config)
    if not _has_experts(config):
        sizes = replace(sizes, ffn=(shared,) * sizes.layer_count)
    if any(is_recurrent):
        settings = read_mamba(config, PREFIXED_KEYS, config.integer("mamba_expand", most=1 << 8) * sizes.width)
        sizes = sizes.with_recurrent_layers(settings, is_recurrent)
        if not _has_rope(config):
            sizes = replace(sizes, context_length=UNLIMITED_CONTEXT)
    return replace(sizes, shared_ffn=shared)


def _architecture(model: TextModel) -> str:
    """The name in GGUF: that of `granite` or `granitemoe` where all layers are attention."""
    if model.sizes.recurrent:
        return model.facts.name
    return "granitemoe" if model.sizes.experts else "granite"


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    granitemoe.FAMILY.write(keys, model)
    write_ssm(keys, model.sizes)
    keys.flag("rope.scaling.finetuned", _has_rope(model.config))


def _sources(model: TextModel, found: list[Source]) -> list[Source]:
    """The tensors as GGUF has them: rates of decay, and the feed-forward of dense models under its own name."""
    made = mamba_sources(model, found, "mamba_conv_bias")
    if model.sizes.experts:
        return made
    return [replace(source, name=source.name.replace("_shexp.", ".")) for source in made]


FAMILY = replace(
    granite.FAMILY, check=_check, sizes=_sizes, write=_write, sources=_sources, file_architecture=_architecture
)
