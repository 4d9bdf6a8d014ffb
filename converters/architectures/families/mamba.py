"""Mamba-1: recurrent mixers alone; in Falcon-Mamba with norms of what the scan reads.

llama.cpp's converter gives all of them a context of 2^20 tokens.
"""

from converters.architectures.biases import check_no_biases
from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.families.mamba2 import KEY_ORDER, keys_of_attention, sizes_of_mixers
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.recurrent import check_by_flag, decay_rates
from converters.architectures.sizes import MAX_WIDTH, CheckpointSizes
from converters.tensors import Source
from edgellm.arch.hyperparameters import MAX_HEAD_DIM
from edgellm.arch.mamba1 import Mamba1Settings
from edgellm.arch.recurrent_settings import SIZE_MULTIPLE, STEP_NORM_EPS
from kquants.layout import MAX_TAPS

_MOST_STEP_VALUES = 1 << 12
_EPS, _STEP_EPS = "layer_norm_epsilon", "mixer_rms_eps"


def _check(config: Config) -> None:
    check_no_biases(config, ("use_bias",))


def _sizes(config: Config) -> CheckpointSizes:
    width = config.integer("hidden_size", most=MAX_WIDTH)
    return sizes_of_mixers(config, width, _read_settings(config, width))


def _read_settings(config: Config, width: int) -> Mamba1Settings:
    """The sizes of a layer, for hidden states of `width` values. Raises ModelFileError and UnsupportedModelError."""
    settings = Mamba1Settings(
        width=config.integer("expand", most=1 << 8) * width,
        state_dim=config.integer("state_size", most=MAX_HEAD_DIM),
        step_rank=_step_rank(config, width),
        taps=config.integer("conv_kernel", least=2, most=MAX_TAPS),
        norm_eps=config.number(_STEP_EPS) if _STEP_EPS in config else None,
    )
    for what, size in (("channels", settings.width), ("rows of the state", settings.state_dim)):
        if size % SIZE_MULTIPLE:
            config.refuse(f"{size} {what} of Mamba-1 are not supported, only multiples of {SIZE_MULTIPLE}")
    return settings


def _step_rank(config: Config, width: int) -> int:
    """The values that the step is projected from: "auto" is a 16th of `width`, rounded up."""
    key = "time_step_rank"
    is_auto = config.is_text(key) and config.word(key, "") == "auto"
    return -(-width // 16) if is_auto else config.integer(key, -(-width // 16), most=_MOST_STEP_VALUES)


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    settings = model.sizes.recurrent_settings
    assert isinstance(settings, Mamba1Settings), "read by _sizes"
    keys.integer("ssm.conv_kernel", settings.taps)
    keys.integer("ssm.inner_size", settings.width)
    keys.integer("ssm.state_size", settings.state_dim)
    keys.integer("ssm.time_step_rank", settings.step_rank)
    keys.flag("ssm.dt_b_c_rms", settings.norm_eps is not None)
    if settings.norm_eps is not None and settings.norm_eps != model.config.number(_EPS):
        keys.number(STEP_NORM_EPS, settings.norm_eps)


def _sources(model: TextModel, found: list[Source]) -> list[Source]:
    check_by_flag(model, found, "ssm_conv1d.bias", "use_conv_bias", model.sizes.layer_count)
    return decay_rates(model, found)


FAMILY = Family(
    check=_check,
    sizes=_sizes,
    write=_write,
    sources=_sources,
    order=(*KEY_ORDER[:-1], "ssm.dt_b_c_rms", STEP_NORM_EPS, KEY_ORDER[-1]),
    omitted=keys_of_attention,
    drops_tied_output=True,
)
