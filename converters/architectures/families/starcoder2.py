"""StarCoder2: readers give a file without a window the one of published models."""

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel

_PUBLISHED = 4096


def _check(config: Config) -> None:
    if not config.flag("use_bias", default=True):
        config.refuse("StarCoder2 without biases (use_bias) is not supported")


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add the window unless it is the one that readers assume; 0 stands for none, or one as long as the context."""
    context = model.sizes.context_length
    window = model.config.integer("sliding_window") if "sliding_window" in model.config else 0
    effective, assumed = (n if n < context else 0 for n in (window, _PUBLISHED))
    if effective != assumed:
        keys.integer("attention.sliding_window", effective)


FAMILY = Family(check=_check, write=_write)
