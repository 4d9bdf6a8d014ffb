"""The text model of Qwen3-VL."""

from converters.architectures.config import Config
from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    """Add how many of the first layers take features of images."""
    vision = Config(model.config.path, model.config.section("vision_config"))
    keys.integer("n_deepstack_layers", len(vision.numbers("deepstack_visual_indexes")))


FAMILY = Family(write=_write)
