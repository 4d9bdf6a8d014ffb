"""Qwen3-Next: as `qwen35moe`, but heads keep their order, and checkpoints have q, k, v and z in one matrix.

It holds for each key head its rows of q and k, then those of v and z of the heads of values that share it.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from converters.architectures.config import Config
from converters.architectures.experts import check_normalized, write_expert_widths
from converters.architectures.families import qwen35
from converters.architectures.families.qwen3moe import check_all_layers_have_experts
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.recurrent import decay_rates
from converters.architectures.sizes import CheckpointSizes, read_sizes_with_experts
from converters.architectures.sources import reordered_rows
from converters.tensors import Source
from edgellm.arch.recurrent import DeltaNetSettings


def _check(config: Config) -> None:
    qwen35.check(config)
    check_all_layers_have_experts(config)
    check_normalized(config)


def _sizes(config: Config) -> CheckpointSizes:
    return qwen35.with_delta_net(config, read_sizes_with_experts(config), grouped=True)


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    write_expert_widths(keys, model)
    qwen35.write_delta_net(keys, model)


def _sources(model: TextModel, found: list[Source]) -> list[Source]:
    """The tensors as GGUF has them: rates of decay, norms, and two matrices in place of that of q, k, v and z."""
    made, settings = qwen35.norms_plus_one(decay_rates(model, found)), qwen35.delta_net(model)
    return [part for source in made for part in _split(source, settings)] if settings else made


def _split(source: Source, settings: DeltaNetSettings) -> Iterator[Source]:
    """For the matrix of q, k, v and z that of q, k and v and that of z; any other tensor as it is."""
    if not source.name.endswith(".ssm_in.weight"):
        yield source
        return
    keys, values = settings.key_dim, settings.heads // settings.key_heads * settings.value_dim
    rows = np.arange(source.row_count).reshape(settings.key_heads, -1)
    q, k, v, z = np.split(rows, np.cumsum((keys, keys, values)), axis=1)
    qkv = np.concatenate([q.reshape(-1), k.reshape(-1), v.reshape(-1)])
    for stem, order in (("attn_qkv", qkv), ("attn_gate", z.reshape(-1))):
        yield reordered_rows(replace(source, name=source.name.replace("ssm_in", stem)), order)


FAMILY = replace(qwen35.FAMILY, check=_check, sizes=_sizes, write=_write, sources=_sources)
