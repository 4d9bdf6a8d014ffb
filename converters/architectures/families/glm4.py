"""GLM-4 of 2025: heads are rotated in part."""

from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    keys.integer("rope.dimension_count", int(model.sizes.head_dim[0] * model.rope.rotary_fraction))


FAMILY = Family(write=_write, partial_rotary=True)
