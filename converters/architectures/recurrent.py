"""Recurrent mixers of checkpoints: their keys in a GGUF file, and the tensors whose values change."""

from collections.abc import Iterable

from converters.architectures.keys import ArchitectureKeys
from converters.architectures.sources import negative_exp
from converters.tensors import Source
from edgellm.arch.recurrent import DeltaNetSettings, MambaSettings

SSM_KEYS = ("conv_kernel", "state_size", "group_count", "inner_size", "time_step_rank")
"""The keys of Mamba-2 and gated DeltaNet below `ssm.`; llama.cpp's converter writes them in various orders."""


def write_ssm(
    keys: ArchitectureKeys, settings: DeltaNetSettings | MambaSettings, order: Iterable[str] = SSM_KEYS
) -> None:
    """Add the keys `ssm.*` of the recurrent layers, which all have the same settings."""
    match settings:
        case DeltaNetSettings():
            state, groups, inner = settings.key_dim, settings.key_heads, settings.value_width
        case MambaSettings():
            state, groups, inner = settings.state_dim, settings.groups, settings.inner_width
    values = dict(zip(SSM_KEYS, (settings.taps, state, groups, inner, settings.heads), strict=True))
    for name in order:
        keys.integer(f"ssm.{name}", values[name])


def decay_rates(sources: Iterable[Source]) -> list[Source]:
    """The tensors with `ssm_a` as GGUF has it: -exp(A_log) of the checkpoint."""
    return [negative_exp(source) if source.name.endswith(".ssm_a") else source for source in sources]
