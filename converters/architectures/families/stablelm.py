"""StableLM: heads are rotated in part; keys in an order of their own."""

from converters.architectures.families.family import Family
from converters.architectures.families.gemma import ORDER, usual_base
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    keys.integer("rope.dimension_count", int(model.rope.rotary_fraction * model.sizes.head_dim[0]))
    keys.flag("use_parallel_residual", model.config.flag("use_parallel_residual"))


FAMILY = Family(
    write=_write,
    order=(*ORDER[:4], "rope.dimension_count", *ORDER[4:], "use_parallel_residual"),
    omitted=usual_base,
    partial_rotary=True,
)
