"""EXAONE 4: the larger model has a window in three of four layers, the smaller one has none."""

from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.windows import windowed_layers


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    keys.integer("vocab_size", model.sizes.vocab)
    if "sliding_window" in model.config:
        keys.integer("attention.sliding_window", model.config.integer("sliding_window"))
        keys.flags("attention.sliding_window_pattern", windowed_layers(model.config, every=4))


FAMILY = Family(write=_write)
