"""Cohere 2: three of four layers have a window and RoPE, the fourth has neither."""

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.windows import write_window_pattern


def _check(config: Config) -> None:
    if config.number("rotary_pct", 1.0) != 1.0 or config.flag("use_parallel_block", default=True) is False:
        config.refuse("only Cohere 2 with parallel blocks and whole heads rotated (rotary_pct) is supported")


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    keys.number("logit_scale", model.config.number("logit_scale", least=1e-9))
    keys.integer("attention.sliding_window", model.config.integer("sliding_window"))
    keys.integer("vocab_size", model.sizes.vocab)
    keys.integer("rope.dimension_count", model.sizes.head_dim[0])
    if model.rope.kind == "default":
        keys.word("rope.scaling.type", "none")
    write_window_pattern(keys, model, every=4)


FAMILY = Family(check=_check, write=_write)
