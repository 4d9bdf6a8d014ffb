"""Mamba-2 layers of checkpoints: their sizes, and the variants for which GGUF has no keys."""

from collections.abc import Iterable

from converters.architectures.config import Config
from edgellm.arch.hyperparameters import MAX_HEAD_DIM
from edgellm.arch.recurrent import MambaSettings
from kquants.layout import MAX_TAPS

MAX_INNER = 1 << 20
_MAX_HEADS = 1 << 12
_HEAD_DIM = "mamba_d_head"


def check_mamba(config: Config, bias_keys: Iterable[str]) -> None:
    """Refuse projections with biases, by the flags `bias_keys`, and limits of the time step."""
    for key in bias_keys:
        if config.flag(key):
            config.refuse(f"biases of projections ({key}) are not supported for this architecture")
    key = "time_step_limit"
    if not config.is_unlimited(key):
        config.refuse(f"limits of the time step ({key}) are not supported, only those of 0 and infinity")


def prefixed_mamba(config: Config, inner: int) -> MambaSettings:
    """The sizes by the keys `mamba_n_heads` and so on, of layers with `inner` values. Raises ModelFileError."""
    heads = config.integer("mamba_n_heads", most=_MAX_HEADS)
    is_auto = config.is_text(_HEAD_DIM) and config.word(_HEAD_DIM, "") == "auto"
    by_itself = is_auto or _HEAD_DIM not in config
    return checked(
        config,
        MambaSettings(
            heads=heads,
            head_dim=inner // heads if by_itself else config.integer(_HEAD_DIM, most=MAX_INNER),
            groups=config.integer("mamba_n_groups", most=_MAX_HEADS),
            state_dim=config.integer("mamba_d_state", most=MAX_HEAD_DIM),
            taps=config.integer("mamba_d_conv", least=2, most=MAX_TAPS),
        ),
        inner,
    )


def plain_mamba(config: Config, inner: int) -> MambaSettings:
    """The sizes by the keys `num_heads` and so on, of layers with `inner` values. Raises ModelFileError."""
    return checked(
        config,
        MambaSettings(
            heads=config.integer("num_heads", most=_MAX_HEADS),
            head_dim=config.integer("head_dim", most=MAX_INNER),
            groups=config.integer("n_groups", most=_MAX_HEADS),
            state_dim=config.integer("state_size", most=MAX_HEAD_DIM),
            taps=config.integer("conv_kernel", least=2, most=MAX_TAPS),
        ),
        inner,
    )


def checked(config: Config, settings: MambaSettings, inner: int) -> MambaSettings:
    """The settings. Raises ModelFileError where they contradict each other."""
    heads, head_dim = settings.heads, settings.head_dim
    if settings.inner_width != inner:
        config.fail(f"Mamba-2 layers of {inner} values cannot have {heads} heads of {head_dim}; correct it")
    if heads % settings.groups:
        config.fail(f"{heads} heads of Mamba-2 cannot share {settings.groups} groups of B and C; correct it")
    return settings
