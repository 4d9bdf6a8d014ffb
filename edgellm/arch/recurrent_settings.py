"""The settings of recurrent mixers, read from the metadata."""

from edgellm.arch.hyperparameters import HyperParameters
from edgellm.arch.kimi_delta import KimiDeltaSettings
from edgellm.arch.mamba1 import Mamba1Settings
from edgellm.arch.recurrent import DeltaNetSettings, MambaSettings, ShortConvSettings
from kquants.layout import MAX_TAPS

SIZE_MULTIPLE = 16
"""The values of a head, and the channels and rows of a state of Mamba-1, are a multiple of this.

The kernel of Mamba-1 reads squares of as many values. Of heads all models have such a number: another is a wrong key.
"""

STEP_NORM_EPS = "ssm.dt_b_c_rms_epsilon"
"""The key of the epsilon of Mamba-1's norms of the step, B and C; llama.cpp's converter writes none."""


def is_listed_recurrent(hyper: HyperParameters, layer: int) -> bool:
    """Whether a layer is recurrent: by `attention.recurrent_layers`; without that key, all but the last of each group.

    A group has `full_attention_interval` layers, by default 4. Layers for multi-token prediction are not.
    """
    if layer >= hyper.layer_count:
        return False
    if "attention.recurrent_layers" in hyper:
        return bool(hyper.per_layer("attention.recurrent_layers")[layer])
    interval = hyper.integer("full_attention_interval", 4)
    if interval < 1:
        key = hyper.key("full_attention_interval")
        hyper.file.fail(f"key {key} is {interval}, below 1; get another conversion of the model")
    return (layer + 1) % interval != 0


def delta_net_settings(hyper: HyperParameters, grouped: bool) -> DeltaNetSettings:
    """The sizes of a gated DeltaNet: `ssm.state_size` is that of a key, `ssm.inner_size` the values of all heads."""
    heads, key_heads = hyper.size("ssm.time_step_rank"), hyper.size("ssm.group_count")
    value_dim = _per_head(hyper, heads)
    if heads % key_heads:
        hyper.file.fail(f"{heads} heads of values cannot share {key_heads} heads of keys; get another conversion")
    return DeltaNetSettings(
        heads=heads,
        key_heads=key_heads,
        key_dim=hyper.size("ssm.state_size"),
        value_dim=value_dim,
        grouped=grouped,
        taps=_taps(hyper, "ssm.conv_kernel"),
    )


def kimi_delta_settings(hyper: HyperParameters, layer: int) -> KimiDeltaSettings:
    """The sizes of Kimi delta attention: as many heads as attention has, of `kda.head_dim` values."""
    head_dim, heads = _whole_vectors(hyper, "kda.head_dim"), hyper.heads[layer]
    if not heads:
        key = hyper.key("attention.head_count")
        hyper.file.fail(f"key {key} is 0 in layer {layer}; get another conversion of the model")
    return KimiDeltaSettings(heads, head_dim, _taps(hyper, "ssm.conv_kernel"))


def mamba1_settings(hyper: HyperParameters) -> Mamba1Settings:
    """The sizes of a Mamba-1 layer: `ssm.inner_size` is the number of channels, `ssm.time_step_rank` that of the step.

    With `ssm.dt_b_c_rms`, the values of the step, B and C are normed, with the epsilon `ssm.dt_b_c_rms_epsilon`; in
    files without that key, as llama.cpp's converter writes them, with that of the other norms.
    """
    is_normed = hyper.file.get_bool(hyper.key("ssm.dt_b_c_rms"), False)
    return Mamba1Settings(
        width=_whole_vectors(hyper, "ssm.inner_size"),
        state_dim=_whole_vectors(hyper, "ssm.state_size"),
        step_rank=hyper.size("ssm.time_step_rank"),
        taps=_taps(hyper, "ssm.conv_kernel"),
        norm_eps=hyper.number(STEP_NORM_EPS, hyper.eps, least=0.0, most=0.99) if is_normed else None,
    )


def mamba_settings(hyper: HyperParameters) -> MambaSettings:
    """The sizes of a Mamba-2 layer: `ssm.inner_size` is the number of values of all heads."""
    heads, groups = hyper.size("ssm.time_step_rank"), hyper.size("ssm.group_count")
    head_dim = _per_head(hyper, heads)
    if heads % groups:
        hyper.file.fail(f"{heads} heads cannot share {groups} groups of B and C; get another conversion of the model")
    return MambaSettings(
        heads=heads,
        head_dim=head_dim,
        groups=groups,
        state_dim=hyper.size("ssm.state_size"),
        taps=_taps(hyper, "ssm.conv_kernel"),
    )


def short_conv_settings(hyper: HyperParameters) -> ShortConvSettings:
    """The sizes of a short convolution."""
    return ShortConvSettings(hyper.width, _taps(hyper, "shortconv.l_cache"))


def _taps(hyper: HyperParameters, key: str) -> int:
    """The number of taps of a convolution over time. Raises ModelFileError for one that kernels do not compute."""
    taps = hyper.integer(key)
    if not 2 <= taps <= MAX_TAPS:
        hyper.file.fail(f"key {hyper.key(key)} is {taps}, outside 2 … {MAX_TAPS}; get another conversion of the model")
    return taps


def _whole_vectors(hyper: HyperParameters, key: str) -> int:
    """The size at a key. Raises ModelFileError for one that is not a multiple of 16."""
    size = hyper.size(key)
    if size % SIZE_MULTIPLE:
        problem = f"key {hyper.key(key)} is {size}, not a multiple of {SIZE_MULTIPLE}"
        hyper.file.fail(f"{problem}; get another conversion of the model")
    return size


def _per_head(hyper: HyperParameters, heads: int) -> int:
    """Values of each head of `ssm.inner_size`: a multiple of 16."""
    inner = hyper.size("ssm.inner_size")
    if inner % (heads * SIZE_MULTIPLE):
        wanted = f"{heads} heads of a multiple of {SIZE_MULTIPLE} values"
        hyper.file.fail(f"key {hyper.key('ssm.inner_size')} is {inner}, not {wanted}; get another conversion")
    return inner // heads
