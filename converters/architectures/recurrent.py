"""Recurrent mixers of checkpoints: which layers have them, their keys in a GGUF file, tensors whose values change."""

from collections.abc import Iterable, Sequence

from converters.architectures.config import Config
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import CheckpointSizes, given_key, layer_count
from converters.architectures.sources import negative_exp
from converters.tensors import Source
from edgellm.arch.recurrent import DeltaNetSettings, MambaSettings
from edgellm.arch.recurrent_settings import SIZE_MULTIPLE

SSM_KEYS = ("conv_kernel", "state_size", "group_count", "inner_size", "time_step_rank")
"""The keys of Mamba-2 and gated DeltaNet below `ssm.`; llama.cpp's converter writes them in various orders."""

LINEAR_OR_FULL = ("linear_attention",), ("full_attention",)
"""The names of kinds of layers, recurrent and with attention, in most checkpoints."""

_LISTS = ("layer_types", "layers_block_type")
"""The keys that list the kinds of layers; the classes of Granite 4 in transformers take the second for the first."""


def listed_layers(config: Config, recurrent: Sequence[str], attention: Sequence[str]) -> list[bool] | None:
    """Whether each layer is recurrent, by the list of kinds in config.json; None where it has none.

    `recurrent` and `attention` are the names of both kinds. Raises ModelFileError.
    """
    key, layers = given_key(config, _LISTS), layer_count(config)
    kinds = config.names(key)
    if kinds and (len(kinds) != layers or {*kinds} - {*recurrent, *attention}):
        config.fail(f"{key} must have {recurrent[0]} or {attention[0]} for each of {layers} layers; correct it")
    return [kind in recurrent for kind in kinds] or None


def check_head_dim(config: Config, head_dim: int) -> None:
    """Refuse heads whose number of values readers of the GGUF file would refuse. Raises UnsupportedModelError."""
    if head_dim % SIZE_MULTIPLE:
        problem = f"heads of recurrent layers with {head_dim} values are not supported"
        config.refuse(f"{problem}, only multiples of {SIZE_MULTIPLE}")


def check_by_flag(model: TextModel, found: Iterable[Source], tensor: str, key: str, layers: int) -> None:
    """Check how many layers have a tensor: `layers` of them where the flag `key` of config.json is true, else none.

    `tensor` is its GGUF name within a layer. GGUF has no such flag: readers go by the tensors. Raises ModelFileError.
    """
    wanted = layers if model.config.flag(key) else 0
    count = sum(source.name.endswith(f".{tensor}") for source in found)
    if count != wanted:
        what = f"{count} layers have {tensor} of GGUF, and by {key} {wanted} should"
        model.config.fail(f"{what}; get another copy of the checkpoint")


def write_ssm(keys: ArchitectureKeys, sizes: CheckpointSizes, order: Iterable[str] = SSM_KEYS) -> None:
    """Add the keys `ssm.*` of layers of gated DeltaNet or Mamba-2, if there are any."""
    settings = sizes.recurrent_settings
    match settings:
        case DeltaNetSettings():
            state, groups, inner = settings.key_dim, settings.key_heads, settings.value_width
        case MambaSettings():
            state, groups, inner = settings.state_dim, settings.groups, settings.inner_width
        case _:
            return
    values = dict(zip(SSM_KEYS, (settings.taps, state, groups, inner, settings.heads), strict=True))
    for name in order:
        keys.integer(f"ssm.{name}", values[name])


def decay_rates(model: TextModel, sources: Iterable[Source]) -> list[Source]:
    """The tensors with `ssm_a` as GGUF has it: -exp(A_log) of the checkpoint."""
    return [negative_exp(source) if source.name.endswith(".ssm_a") else source for source in sources]
