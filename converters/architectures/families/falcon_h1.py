"""Falcon-H1: attention and Mamba-2 in each layer. Multipliers, for which GGUF has no keys, become part of weights."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.families.mamba2 import KEY_ORDER, write_mamba
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.mamba import PREFIXED_KEYS, check_mamba, mamba_sources, read_mamba
from converters.architectures.model import TextModel
from converters.architectures.recurrent import check_by_flag
from converters.architectures.sizes import MAX_WIDTH, CheckpointSizes, read_sizes
from converters.architectures.sources import rows_scaled
from converters.tensors import Source
from edgellm.arch.recurrent import MambaSettings

_BIASES = ("attention_bias", "mlp_bias", "mamba_proj_bias", "projectors_bias")


def _check(config: Config) -> None:
    check_mamba(config, _BIASES)
    if config.flag("mamba_rms_norm") and config.flag("mamba_norm_before_gate", default=True):
        config.refuse("a norm of Mamba-2 before its gate (mamba_norm_before_gate) is not supported: GGUF has no key")


def _sizes(config: Config) -> CheckpointSizes:
    sizes = read_sizes(config)
    inner = config.integer("mamba_expand", most=1 << 8) * sizes.width
    if "mamba_d_ssm" not in config.nulls:
        inner = config.integer("mamba_d_ssm", most=MAX_WIDTH)
    return replace(sizes, recurrent=(read_mamba(config, PREFIXED_KEYS, inner),) * sizes.layer_count)


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    write_mamba(keys, model)
    keys.integer("vocab_size", model.sizes.vocab)


def _sources(model: TextModel, found: list[Source]) -> list[Source]:
    """The tensors times their multipliers; tied embeddings get an output matrix where its multiplier is another."""
    check_by_flag(model, found, "ssm_norm.weight", "mamba_rms_norm", model.sizes.layer_count)
    factors, made = _factors(model), mamba_sources(model, found, "mamba_conv_bias")
    embedding = next(source for source in made if source.name == "token_embd.weight")
    is_same = factors["token_embd"] == factors["output"]
    if not is_same and all(source.name != "output.weight" for source in made):
        made.insert(made.index(embedding), replace(embedding, name="output.weight"))
    return [_scaled(source, model, factors) for source in made]


def _factors(model: TextModel) -> dict[str, list[float]]:
    """The multipliers of tensors by their GGUF stems; a weight is rounded after each of them, as in llama.cpp."""
    config = model.config
    attention_in = config.number("attention_in_multiplier")
    gate, down = _multipliers(config, "mlp_multipliers", 2)
    return {
        "token_embd": [config.number("embedding_multiplier")],
        "output": [config.number("lm_head_multiplier")],
        "attn_q": [attention_in],
        "attn_k": [config.number("key_multiplier"), attention_in],
        "attn_v": [attention_in],
        "attn_output": [config.number("attention_out_multiplier")],
        "ffn_gate": [gate],
        "ffn_down": [down],
        "ssm_in": [config.number("ssm_in_multiplier")],
        "ssm_out": [config.number("ssm_out_multiplier")],
    }


def _multipliers(config: Config, key: str, count: int) -> list[float]:
    """The list of multipliers at a key, by default each 1. Raises ModelFileError for a list of another length."""
    values = config.numbers(key) or [1.0] * count
    if len(values) != count:
        config.fail(f"{key} has {len(values)} multipliers, not {count}; correct it")
    return values


def _scaled(source: Source, model: TextModel, factors: dict[str, list[float]]) -> Source:
    """A tensor times its multipliers; the same one where all of them are 1."""
    stem = source.name.split(".")[-2] if "." in source.name else source.name
    by_row = [np.full(source.row_count, factor, np.float32) for factor in factors.get(stem, [])]
    if stem == "ssm_in":
        by_row.append(_ssm_rows(model))
    return rows_scaled(source, by_row) if any((each != 1).any() for each in by_row) else source


def _ssm_rows(model: TextModel) -> NDArray[np.float32]:
    """The multiplier of each row of the projection to z, x, B, C and the time step."""
    settings = model.sizes.recurrent_settings
    assert isinstance(settings, MambaSettings)
    shared = settings.groups * settings.state_dim
    counts: Sequence[int] = (settings.inner_width, settings.inner_width, shared, shared, settings.heads)
    return np.repeat(np.array(_multipliers(model.config, "ssm_multipliers", 5), np.float32), counts)


FAMILY = Family(
    check=_check,
    sizes=_sizes,
    write=_write,
    sources=_sources,
    order=(
        *KEY_ORDER,
        *("vocab_size", "attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.freq_base"),
    ),
)
