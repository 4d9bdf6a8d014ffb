"""StarCoder2: readers give a file without a window the one of published models."""

from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel

_PUBLISHED = 4096


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add the window unless it has no effect, or is the published one; 0 stands for none."""
    window = model.config.integer("sliding_window") if "sliding_window" in model.config else 0
    if model.sizes.context_length > (window or _PUBLISHED) and window != _PUBLISHED:
        keys.integer("attention.sliding_window", window)


FAMILY = Family(write=_write)
