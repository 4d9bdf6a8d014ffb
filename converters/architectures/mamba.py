"""Mamba-2 layers of checkpoints: their sizes, and the variants for which GGUF has no keys."""

from collections.abc import Iterable
from typing import NamedTuple

from converters.architectures.biases import check_no_biases
from converters.architectures.config import Config
from converters.architectures.model import TextModel
from converters.architectures.recurrent import check_by_flag, check_head_dim, decay_rates
from converters.architectures.sizes import MAX_HEADS, MAX_WIDTH
from converters.tensors import Source
from edgellm.arch.hyperparameters import MAX_HEAD_DIM
from edgellm.arch.recurrent import MambaSettings
from kquants.layout import MAX_TAPS


class MambaKeys(NamedTuple):
    """The keys of config.json for the sizes of Mamba-2, by the names of `MambaSettings`."""

    heads: str
    head_dim: str
    groups: str
    state_dim: str
    taps: str


PREFIXED_KEYS = MambaKeys("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")
"""Those of Granite 4 and Falcon-H1, whose attention has keys without the prefix."""


def check_mamba(config: Config, bias_keys: Iterable[str]) -> None:
    """Refuse projections with biases, by the flags `bias_keys`, and limits of the time step."""
    check_no_biases(config, bias_keys)
    key = "time_step_limit"
    if not config.is_unlimited(key):
        config.refuse(f"limits of the time step ({key}) are not supported, only those of 0 and infinity")


def read_mamba(config: Config, keys: MambaKeys, inner: int | None = None) -> MambaSettings:
    """The sizes of Mamba-2 layers with `inner` values, or as many as their heads have. Raises ModelFileError."""
    heads = config.integer(keys.heads, most=MAX_HEADS)
    is_auto = config.is_text(keys.head_dim) and config.word(keys.head_dim, "") == "auto"
    by_itself = inner is not None and (is_auto or keys.head_dim not in config)
    head_dim = inner // heads if inner is not None and by_itself else config.integer(keys.head_dim, most=MAX_WIDTH)
    settings = MambaSettings(
        heads=heads,
        head_dim=head_dim,
        groups=config.integer(keys.groups, most=MAX_HEADS),
        state_dim=config.integer(keys.state_dim, most=MAX_HEAD_DIM),
        taps=config.integer(keys.taps, least=2, most=MAX_TAPS),
    )
    if settings.inner_width != (inner or settings.inner_width):
        config.fail(f"Mamba-2 layers of {inner} values cannot have {heads} heads of {head_dim}; correct it")
    if heads % settings.groups:
        config.fail(f"{heads} heads of Mamba-2 cannot share {settings.groups} groups of B and C; correct it")
    check_head_dim(config, head_dim)
    return settings


def mamba_sources(model: TextModel, found: list[Source], bias_key: str = "use_conv_bias") -> list[Source]:
    """The tensors as GGUF has them. Raises ModelFileError for biases of convolutions unlike the flag `bias_key`."""
    layers = sum(isinstance(each, MambaSettings) for each in model.sizes.recurrent)
    check_by_flag(model, found, "ssm_conv1d.bias", bias_key, layers)
    return decay_rates(model, found)
