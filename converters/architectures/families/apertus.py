"""Apertus: the parameters of xIELU are tensors in checkpoints and arrays in GGUF's metadata."""

from converters.architectures.families.family import Family
from converters.architectures.keys import ArchitectureKeys
from converters.architectures.model import TextModel
from converters.tensors import MetadataValue

_PARAMETERS = ("alpha_n", "alpha_p", "beta", "eps")
_STEM = "mlp.act_fn."


def _write(keys: ArchitectureKeys, model: TextModel) -> None:
    for name in _PARAMETERS:
        keys.plain(f"xielu.{name}", MetadataValue("f32", _of_layers(model, f"{_STEM}{name}")))


def _of_layers(model: TextModel, stem: str) -> list[float]:
    """The value of a parameter in each layer. Raises ModelFileError."""
    names = {}
    for name in model.checkpoint.tensors:
        if name.endswith(f".{stem}"):
            names[name.removesuffix(f".{stem}").rpartition(".")[2]] = name
    missing = next((i for i in range(model.sizes.layer_count) if str(i) not in names), None)
    if missing is not None:
        model.config.fail(f"the checkpoint has no {stem} in layer {missing}; get another copy of it")
    return [model.checkpoint.number(names[str(i)]) for i in range(model.sizes.layer_count)]


FAMILY = Family(
    write=_write,
    leading=tuple(f"xielu.{name}" for name in _PARAMETERS),
    parameters=tuple(f"{_STEM}{name}" for name in _PARAMETERS),
)
