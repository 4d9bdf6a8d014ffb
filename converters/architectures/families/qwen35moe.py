"""Qwen3.5 with experts, as `qwen35`. Checkpoints have no width of feed-forwards."""

from collections.abc import Collection
from dataclasses import replace

from converters.architectures.config import Config
from converters.architectures.experts import write_expert_widths
from converters.architectures.families import qwen35
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.sizes import CheckpointSizes, read_sizes_with_experts


def _sizes(config: Config) -> CheckpointSizes:
    return qwen35.with_delta_net(config, read_sizes_with_experts(config, has_feed_forwards=False), grouped=False)


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    write_expert_widths(keys, model)
    qwen35.write(keys, model)


def without_dense_width(model: TextModel) -> Collection[str]:
    """Omit the width of feed-forwards where config.json has none: all layers have experts."""
    return () if model.config.given("intermediate_size") else ("feed_forward_length",)


FAMILY = replace(qwen35.FAMILY, sizes=_sizes, write=_write, omitted=without_dense_width)
