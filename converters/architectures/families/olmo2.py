"""OLMo 2 has no windows; OLMo 3 has them in three of four layers, whose RoPE is not scaled."""

from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.architectures.windows import windowed_layers


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    if "sliding_window" in model.config:
        keys.integer("attention.sliding_window", model.config.integer("sliding_window"))
        keys.flags("attention.sliding_window_pattern", windowed_layers(model.config, every=4))


FAMILY = Family(write=_write)
