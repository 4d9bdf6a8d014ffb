"""Hunyuan without experts: the base of RoPE is scaled by alpha."""

from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel

_PUBLISHED = (32768, 262144)
_CONTEXT = 262144
"""The context of published models with alpha; config.json of some says 32768."""


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    rope = model.rope.full
    if model.rope.kind != "dynamic" or not rope.number("alpha", 0.0):
        return
    dims = model.sizes.head_dim[0]
    if dims < 4:
        model.config.fail(f"heads of {dims} dimensions with alpha are impossible; correct it")
    # NTK-aware scaling with a fixed factor, as transformers computes it (modeling_hunyuan_v1_dense.py).
    keys.number("rope.freq_base", model.rope.base * rope.number("alpha") ** (dims / (dims - 2)))
    keys.word("rope.scaling.type", "none")
    keys.number("rope.scaling.factor", 1.0)
    if model.sizes.context_length in _PUBLISHED and model.rope.base == 10000.0:
        keys.integer("rope.scaling.original_context_length", _CONTEXT)
        keys.integer("context_length", _CONTEXT)


FAMILY = Family(write=_write, drops_tied_output=True)
