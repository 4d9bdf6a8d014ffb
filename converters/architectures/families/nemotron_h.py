"""Nemotron-H: each layer is one block of Mamba-2, attention, or a feed-forward, which may be a mixture of experts.

GGUF has an architecture of its own for models with experts. Nothing limits the context, as there is no RoPE.
"""

from collections.abc import Collection
from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.experts import expert_stems
from converters.architectures.families.family import Family
from converters.architectures.families.mamba2 import UNLIMITED_CONTEXT
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.mamba import MambaKeys, check_mamba, mamba_sources, read_mamba
from converters.architectures.model import TextModel
from converters.architectures.recurrent import SSM_KEYS, write_ssm
from converters.architectures.sizes import (
    MAX_FFN,
    MAX_HEADS,
    MAX_VOCABULARY,
    MAX_WIDTH,
    CheckpointSizes,
    check_used_experts,
)
from edgellm.arch.hyperparameters import MAX_EXPERTS, MAX_HEAD_DIM
from edgellm.fmt import printable

MAMBA, ATTENTION, DENSE, EXPERTS = "M", "*", "-", "E"
"""The kinds of layers, by their letters in `hybrid_override_pattern`."""

_KINDS = {
    **dict.fromkeys(("linear_attention", "mamba"), MAMBA),
    **dict.fromkeys(("full_attention", "attention"), ATTENTION),
    "mlp": DENSE,
    "moe": EXPERTS,
}
_MAMBA_KEYS = MambaKeys("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel")
_LATENT = "moe_latent_size"
_PATTERN, _LIST = "hybrid_override_pattern", "layers_block_type"
_MOST_LAYERS = 1024


def layer_kinds(config: Config) -> str:
    """A letter for each layer. Raises ModelFileError where config.json has no such list, or two that differ."""
    names = config.names(_LIST)
    unknown = next((name for name in names if name not in _KINDS), None)
    if unknown is not None:
        config.fail(f"{_LIST} has {printable(unknown)}, not one of {', '.join(_KINDS)}; correct it")
    listed, pattern = "".join(map(_KINDS.__getitem__, names)), config.word(_PATTERN, "")
    if not {*pattern} <= {*_KINDS.values()}:
        config.fail(f"{_PATTERN} has other letters than {' '.join(dict.fromkeys(_KINDS.values()))}; correct it")
    if listed and pattern and listed != pattern:
        config.fail(f"{_LIST} and {_PATTERN} differ; correct one of them")
    kinds = listed or pattern
    if not 1 <= len(kinds) <= _MOST_LAYERS:
        config.fail(f"{_LIST} and {_PATTERN} have {len(kinds)} layers, not 1 to {_MOST_LAYERS}; get another copy of it")
    return kinds


def _architecture(config: Config) -> str:
    """The name in GGUF: one for models with experts, another for those without."""
    return "nemotron_h_moe" if EXPERTS in layer_kinds(config) else "nemotron_h"


def _check(config: Config) -> None:
    kinds = layer_kinds(config)
    if EXPERTS in kinds and DENSE in kinds:
        config.refuse("layers with experts beside layers with one feed-forward are not supported: GGUF has either")
    check_mamba(config, ("use_bias", "mamba_proj_bias", "mlp_bias", "attention_bias"))
    for key, wanted in (("mamba_hidden_act", "silu"), ("mlp_hidden_act", "relu2")):
        if (given := config.word(key, wanted)) != wanted:
            config.refuse(f"{key} {printable(given)} is not supported for this architecture, only {wanted}")
    if config.given("sliding_window"):
        config.refuse("attention with a window (sliding_window) is not supported for this architecture")


def _sizes(config: Config) -> CheckpointSizes:
    kinds, width = layer_kinds(config), config.integer("hidden_size", most=MAX_WIDTH)
    heads, kv_heads = (config.integer(f"num_{kind}_heads", most=MAX_HEADS) for kind in ("attention", "key_value"))
    if heads % kv_heads:
        config.fail(f"{heads} attention heads cannot share {kv_heads} key-value heads; correct it")
    head_dim = config.integer("head_dim" if config.given("head_dim") else "attention_head_dim", 128, most=MAX_HEAD_DIM)
    mamba, has_experts = read_mamba(config, _MAMBA_KEYS), EXPERTS in kinds
    ffn = config.integer("moe_intermediate_size" if has_experts else "intermediate_size", most=MAX_FFN)
    sizes = CheckpointSizes(
        width=width,
        vocab=config.integer("vocab_size", most=MAX_VOCABULARY),
        context_length=UNLIMITED_CONTEXT,
        heads=heads,
        kv_heads=tuple(kv_heads if kind == ATTENTION else 0 for kind in kinds),
        head_dim=(head_dim,) * len(kinds),
        ffn=tuple(ffn if kind in (DENSE, EXPERTS) else 0 for kind in kinds),
        recurrent=tuple(mamba if kind == MAMBA else None for kind in kinds),
    )
    return _with_experts(config, sizes, ffn) if has_experts else sizes


def _with_experts(config: Config, sizes: CheckpointSizes, ffn: int) -> CheckpointSizes:
    experts, used = config.integer("n_routed_experts", most=MAX_EXPERTS), config.integer("num_experts_per_tok")
    check_used_experts(config, used, experts, "n_routed_experts")
    shared = config.integer("moe_shared_expert_intermediate_size", most=MAX_FFN)
    latent = config.integer(_LATENT, most=MAX_WIDTH) if _LATENT in config else 0
    return replace(sizes, experts=experts, used_experts=used, expert_ffn=ffn, shared_ffn=shared, expert_latent=latent)


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes = model.config, model.sizes
    keys.number("attention.layer_norm_epsilon", config.number("layer_norm_epsilon"))
    keys.integer("rope.dimension_count", sizes.width // sizes.heads)
    write_ssm(keys, sizes)
    keys.flag("rope.scaling.finetuned", False)
    if not sizes.experts:
        return
    keys.integer("expert_feed_forward_length", sizes.expert_ffn)
    keys.integer("expert_shared_feed_forward_length", sizes.shared_ffn)
    keys.integer("expert_shared_count", config.integer("n_shared_experts"))
    keys.flag("expert_weights_norm", config.flag("norm_topk_prob"))
    keys.number("expert_weights_scale", config.number("routed_scaling_factor", least=1e-9))
    if sizes.expert_latent:
        keys.integer("moe_latent_size", sizes.expert_latent)


def _lacks(model: TextModel, layer: int) -> Collection[str]:
    """The stems of experts, which layers without a feed-forward lack."""
    return () if model.sizes.ffn[layer] else expert_stems(model)


def _omitted(model: TextModel) -> Collection[str]:
    """Keys that llama.cpp's converter does not write: there is no RoPE, and the norms' epsilon has another name."""
    return ("rope.freq_base", "attention.layer_norm_rms_epsilon")


_ORDER = (
    *("block_count", "context_length", "embedding_length", "feed_forward_length"),
    *(f"attention.{name}" for name in ("head_count", "head_count_kv", "layer_norm_epsilon")),
    *(f"expert_{name}" for name in ("count", "used_count", "group_count", "group_used_count")),
    "general.file_type",
    *("vocab_size", "rope.dimension_count"),
    *(f"ssm.{name}" for name in SSM_KEYS),
    "rope.scaling.finetuned",
)

FAMILY = Family(
    check=_check,
    read_architecture=_architecture,
    sizes=_sizes,
    write=_write,
    order=_ORDER,
    omitted=_omitted,
    sources=mamba_sources,
    lacks=_lacks,
)
