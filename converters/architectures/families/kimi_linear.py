"""Kimi Linear: Kimi delta attention beside latent attention without RoPE, leading dense layers, experts.

config.json lists the layers of either kind in `linear_attn_config`, counted from 1, or as transformers 5 does in
`layer_types`.
"""

from collections.abc import Collection
from dataclasses import replace

from converters.architectures.biases import check_no_biases
from converters.architectures.config import Config
from converters.architectures.experts import SIGMOID, check_normalized, write_leading_dense
from converters.architectures.families.deepseek2 import lacks, latent_sizes, split_keys_and_values
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.recurrent import LINEAR_OR_FULL, check_head_dim, decay_rates, listed_layers
from converters.architectures.sizes import MAX_HEADS, CheckpointSizes, layer_count, read_sizes_with_experts
from converters.tensors import Source
from edgellm.arch.hyperparameters import MAX_HEAD_DIM
from edgellm.arch.kimi_delta import KimiDeltaSettings
from kquants.layout import MAX_TAPS


def _check(config: Config) -> None:
    """Refuse what neither GGUF nor the architecture has."""
    check_no_biases(config)
    if not config.flag("mla_use_nope", default=True):
        config.refuse("attention with RoPE (mla_use_nope false) is not supported for this architecture")
    for key in ("moe_renormalize", "norm_topk_prob"):
        check_normalized(config, key)
    if config.word("moe_router_activation_func", "sigmoid") != "sigmoid":
        config.refuse("moe_router_activation_func other than sigmoid is not supported for this architecture")
    for key in ("moe_layer_freq", "num_expert_group", "n_group"):
        if config.integer(key, 1) != 1:
            config.refuse(f"{key} other than 1 is not supported for this architecture")
    if config.integer("num_nextn_predict_layers", 0, least=0):
        config.refuse("layers for multi-token prediction (num_nextn_predict_layers) are not supported here")


def _sizes(config: Config) -> CheckpointSizes:
    is_recurrent = _recurrent_layers(config)
    latent, delta = latent_sizes(config), _delta_settings(config)
    sizes = read_sizes_with_experts(config, latent.latent_dim + latent.rope_dim)
    if delta.heads != sizes.heads:
        problem = f"{delta.heads} heads of linear attention beside {sizes.heads} of attention are not supported"
        config.refuse(f"{problem}: GGUF has one number for both")
    context = "max_position_embeddings" if "max_position_embeddings" in config else "model_max_length"
    kv_heads = (1,) * sizes.layer_count
    sizes = replace(sizes, context_length=config.integer(context), kv_heads=kv_heads, latent=latent)
    return sizes.with_recurrent_layers(delta, is_recurrent)


def _delta_settings(config: Config) -> KimiDeltaSettings:
    """The sizes of Kimi delta attention. Raises ModelFileError and UnsupportedModelError."""
    place, (heads, head_dim, taps) = config, ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    if "head_dim" in (linear := _linear(config)):
        place, (heads, head_dim, taps) = linear, ("num_heads", "head_dim", "short_conv_kernel_size")
    settings = KimiDeltaSettings(
        heads=place.integer(heads, most=MAX_HEADS),
        head_dim=place.integer(head_dim, most=MAX_HEAD_DIM),
        taps=place.integer(taps, least=2, most=MAX_TAPS),
    )
    check_head_dim(config, settings.head_dim)
    return settings


def _linear(config: Config) -> Config:
    return Config(config.path, config.section("linear_attn_config"))


def _recurrent_layers(config: Config) -> list[bool]:
    """Whether each layer is recurrent. Raises ModelFileError."""
    listed, linear, layers = listed_layers(config, *LINEAR_OR_FULL), _linear(config), layer_count(config)
    if listed:
        return listed
    full, recurrent = linear.numbers("full_attn_layers"), linear.numbers("kda_layers")
    if sorted([*full, *recurrent]) != [*range(1, layers + 1)]:
        problem = f"must name each of {layers} layers once, in full_attn_layers or in kda_layers"
        config.fail(f"linear_attn_config {problem}; correct it")
    return [i in recurrent for i in range(1, layers + 1)]


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes, latent = model.config, model.sizes, model.sizes.latent
    assert latent is not None, "read by _sizes"
    keys.integer("expert_gating_func", SIGMOID)
    if config.given("head_dim"):  # it is the size of no head, and llama.cpp's converter writes it
        keys.integer("attention.value_length", config.integer("head_dim"))
    keys.integer("vocab_size", sizes.vocab)
    delta = _delta_settings(config)
    keys.integer("ssm.conv_kernel", delta.taps)
    keys.integer("kda.head_dim", delta.head_dim)
    if latent.q_rank:
        keys.integer("attention.q_lora_rank", latent.q_rank)
    keys.integer("attention.kv_lora_rank", latent.latent_dim)
    keys.integer("rope.dimension_count", latent.rope_dim)
    keys.integer("attention.key_length_mla", latent.plain_dim + latent.rope_dim)
    keys.integer("attention.value_length_mla", latent.head_value_dim)
    keys.integer("expert_feed_forward_length", sizes.expert_ffn)
    keys.integer("expert_shared_count", sizes.shared_ffn // sizes.expert_ffn)
    write_leading_dense(keys, model)
    keys.number("expert_weights_scale", config.number("routed_scaling_factor", least=1e-9))


def _omitted(model: TextModel) -> Collection[str]:
    return () if model.config.given("head_dim") else ("attention.value_length",)


def _sources(model: TextModel, sources: list[Source]) -> list[Source]:
    return decay_rates(model, split_keys_and_values(model, sources))


FAMILY = Family(
    check=_check,
    sizes=_sizes,
    write=_write,
    omitted=_omitted,
    sources=_sources,
    lacks=lacks,
    rope_kinds=("default",),
)
