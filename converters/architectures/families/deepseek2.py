"""DeepSeek-V2, V3 and R1, GLM-4.7-Flash: latent attention, leading dense layers, experts, layers of prediction."""

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from converters.architectures.biases import check_no_biases
from converters.architectures.config import Config
from converters.architectures.experts import SIGMOID, SOFTMAX, has_experts, lacks_of, write_leading_dense
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import CheckpointSizes, LatentSizes, read_sizes_with_experts
from converters.architectures.sources import WIDTHS, stacked
from converters.tensors import Source
from edgellm.arch.hyperparameters import MAX_HEAD_DIM
from edgellm.fmt import printable

_V2 = "DeepseekV2ForCausalLM"
_MAX_RANK = 1 << 16


def _check(config: Config) -> None:
    """Refuse what neither GGUF nor the architecture has."""
    check_no_biases(config)
    if not config.flag("rope_interleave", default=True):
        config.refuse("RoPE whose pairs are halves of a head (rope_interleave false) is not supported here")
    if config.integer("moe_layer_freq", 1) != 1:
        config.refuse("layers without experts among others (moe_layer_freq) are not supported")
    if _is_v2(config):
        _check_v2(config)


def _is_v2(config: Config) -> bool:
    return config.names("architectures")[:1] == [_V2]


def _check_v2(config: Config) -> None:
    method = config.word("topk_method", "greedy")
    if method not in ("greedy", "group_limited_greedy"):
        config.refuse(f"topk_method {printable(method)} is not supported, only greedy and group_limited_greedy")
    if config.flag("norm_topk_prob"):
        config.refuse(f"weights of experts that add up to 1 (norm_topk_prob) are not supported for {_V2}")


def _sizes(config: Config) -> CheckpointSizes:
    latent = latent_sizes(config)
    sizes = read_sizes_with_experts(config, latent.latent_dim + latent.rope_dim)
    return replace(sizes, kv_heads=(1,) * sizes.layer_count, latent=latent)


def latent_sizes(config: Config) -> LatentSizes:
    """The sizes of latent attention. Raises ModelFileError."""
    return LatentSizes(
        plain_dim=config.integer("qk_nope_head_dim", most=MAX_HEAD_DIM),
        rope_dim=config.integer("qk_rope_head_dim", most=MAX_HEAD_DIM),
        head_value_dim=config.integer("v_head_dim", most=MAX_HEAD_DIM),
        latent_dim=config.integer("kv_lora_rank", most=MAX_HEAD_DIM),
        q_rank=config.integer("q_lora_rank", most=_MAX_RANK) if "q_lora_rank" in config else 0,
    )


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    config, sizes = model.config, model.sizes
    latent = sizes.latent
    assert latent is not None, "read by _sizes"
    if _is_v2(config) and config.word("topk_method", "greedy") == "greedy" and "n_group" in config:
        keys.integer("expert_group_count", 1)
        keys.integer("expert_group_used_count", 1)
    keys.integer("expert_gating_func", SOFTMAX if _is_v2(config) else SIGMOID)
    keys.integer("attention.value_length", latent.latent_dim)
    write_leading_dense(keys, model)
    keys.integer("vocab_size", sizes.vocab)
    if latent.q_rank:
        keys.integer("attention.q_lora_rank", latent.q_rank)
    keys.integer("attention.kv_lora_rank", latent.latent_dim)
    keys.integer("attention.key_length_mla", latent.plain_dim + latent.rope_dim)
    keys.integer("attention.value_length_mla", latent.head_value_dim)
    keys.integer("expert_feed_forward_length", sizes.expert_ffn)
    keys.integer("expert_shared_count", sizes.shared_ffn // sizes.expert_ffn)
    keys.number("expert_weights_scale", config.number("routed_scaling_factor", least=1e-9))
    if config.flag("norm_topk_prob"):
        keys.flag("expert_weights_norm", True)
    keys.integer("rope.dimension_count", latent.rope_dim)
    if _has_log_multiplier(model):
        keys.number("rope.scaling.yarn_log_multiplier", 0.1 * model.rope.full.number("mscale_all_dim"))
    if sizes.prediction_layers:  # llama.cpp's converter keeps those of GLM alone; llama.cpp itself reads all
        keys.integer("nextn_predict_layers", sizes.prediction_layers)


def _has_log_multiplier(model: TextModel) -> bool:
    """Whether YaRN scales scores in place of cosine and sine, by `mscale_all_dim`."""
    rope = model.rope.full
    if model.rope.kind != "yarn" or not rope.number("mscale_all_dim", 0.0):
        return False
    if rope.number("mscale", 0.0) != rope.number("mscale_all_dim") or "attention_factor" in rope:
        model.config.refuse("yarn whose mscale is not mscale_all_dim is not supported: GGUF has no key for it")
    return True


def _omitted(model: TextModel) -> Collection[str]:
    return ("rope.scaling.attn_factor",) if _has_log_multiplier(model) else ()


def lacks(model: TextModel, layer: int) -> Collection[str]:
    """The stems that a layer may lack: those of the other way to project q, and of the other kind of feed-forward."""
    low_rank = ("attn_q_a", "attn_q_a_norm", "attn_q_b")
    q = ("attn_q",) if model.sizes.latent and model.sizes.latent.q_rank else low_rank
    return {*q, *lacks_of(has_experts)(model, layer)}


def split_keys_and_values(model: TextModel, sources: list[Source]) -> list[Source]:
    """The tensors, with the matrices of keys and of values of each head in place of those of both."""
    return [made for source in sources for made in _split(model, source)]


def _split(model: TextModel, source: Source) -> Iterator[Source]:
    latent, stem = model.sizes.latent, "attn_kv_b"
    if latent is None or f".{stem}." not in source.name:
        yield source
        return
    heads, each = range(model.sizes.heads), latent.plain_dim + latent.head_value_dim
    keys = [_transposed_rows(source, h * each, latent.plain_dim) for h in heads]
    values = [_rows(source, h * each + latent.plain_dim, latent.head_value_dim) for h in heads]
    yield stacked(source.name.replace(stem, "attn_k_b"), keys)
    yield stacked(source.name.replace(stem, "attn_v_b"), values)


def _rows(source: Source, start: int, count: int) -> Source:
    """Rows `start` … `start` + `count` - 1 of a matrix."""
    return replace(
        source, shape=(count, source.columns), rows=lambda first, last: source.rows(start + first, start + last)
    )


def _transposed_rows(source: Source, start: int, count: int) -> Source:
    """The same rows as columns. They are read whole for any of the new rows: a head's matrix is small."""
    kind = f"<u{WIDTHS[source.type]}"

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        matrix = source.rows(start, start + count).view(kind)
        return np.ascontiguousarray(matrix[:, first:last].T).view(np.uint8)

    return replace(source, shape=(source.columns, count), rows=rows)


FAMILY = Family(
    check=_check,
    sizes=_sizes,
    write=_write,
    omitted=_omitted,
    sources=split_keys_and_values,
    lacks=lacks,
)
