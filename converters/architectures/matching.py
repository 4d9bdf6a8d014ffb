"""The tensors of a checkpoint, each matched to those of the GGUF file that it becomes, before any is read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from converters.architectures.families.family import Family
from converters.architectures.layouts import CheckpointLayout, TensorPlace
from converters.architectures.model import TextModel
from converters.architectures.prediction import is_apart, numbered
from converters.architectures.unneeded import without_unneeded
from converters.architectures.wanted import Wanted, WantedTensor
from edgellm.arch.tensor_names import OUTPUT, FusedTensor
from edgellm.fmt import printable


@dataclass(frozen=True)
class Origin:
    """Where a GGUF tensor comes from: one tensor of the checkpoint, or parts, or a tensor that also holds others.

    `names` are the checkpoint's names by the number of the part, or that of one tensor at 0. The tensor is number
    `index` of those that the `fused` one holds.
    """

    names: dict[int, str]
    in_parts: bool
    fused: FusedTensor | None
    index: int

    def clash(self, part: int | None) -> str | None:
        """The tensor that holds what another one would hold as this part, or as a whole; None if there is none."""
        if self.in_parts and part is not None:
            return self.names.get(part)
        return next(iter(self.names.values()))


Origins = Mapping[str, Origin]
"""By GGUF name, in the order of the file."""


def match(model: TextModel, family: Family, layout: CheckpointLayout, wanted: Wanted) -> Origins:
    """The origin of each tensor of the file, all of the wanted shapes. Raises ModelFileError."""
    found: dict[str, Origin] = {}
    checkpoint = model.checkpoint
    first_predicting = model.sizes.layer_count - model.sizes.prediction_layers
    for name in _names(model, family):
        apart = family.separate_prediction and is_apart(name)
        place = layout.place(f"{layout.prefix}{numbered(name, first_predicting)}" if apart else name)
        if checkpoint.is_zero_bias(name) and not (place and _is_required(place, wanted)):
            continue
        if place is None or not all(_is_wanted(wanted.get(each), place.part) for each in place.names):
            what = f"tensor {printable(name)} has no place in this {model.facts.name} model"
            model.config.fail(f"{what}, and what it does is not known here; choose another checkpoint")
        if other := next((found[each].clash(place.part) for each in place.names if each in found), None):
            both = f"tensors {printable(other)} and {printable(name)} hold the same weights"
            model.config.fail(f"{both}; get another copy of the checkpoint")
        _check_shape(model, family, name, place, wanted)
        for index, each in enumerate(place.names):
            origin = found.pop(each, Origin({}, place.part is not None, place.fused, index))
            origin.names[place.part or 0] = name
            found[each] = origin  # at the place of its last part
    _check_whole(model, found, wanted)
    _check_layers(model, found, wanted)
    return found


def _is_wanted(tensor: WantedTensor | None, part: int | None) -> bool:
    """Whether the model has a tensor, with as many parts if this is one of them."""
    return tensor is not None and (part is None or part < tensor.shape[0])


def _is_required(place: TensorPlace, wanted: Wanted) -> bool:
    """Whether the model cannot do without the tensors at a place."""
    return any(each in wanted and not wanted[each].optional for each in place.names)


def _check_shape(model: TextModel, family: Family, name: str, place: TensorPlace, wanted: Wanted) -> None:
    shape, asked = model.checkpoint.tensors[name].shape, _asked(place, wanted)
    is_padded = place.name.split(".")[0] in family.padded and shape[1:] == asked[1:] and shape[0] <= asked[0]
    if shape != asked and not is_padded:
        shapes = f"{list(shape)}, not {list(asked)} as config.json asks"
        model.config.fail(f"tensor {printable(name)} has shape {shapes}; get another copy of the checkpoint")


def _asked(place: TensorPlace, wanted: Wanted) -> tuple[int, ...]:
    """The shape that a tensor of the checkpoint must have."""
    tensor = wanted[place.names[0]]
    shape = tensor.shape
    if place.fused is None:
        return (tensor.checkpoint_shape or shape) if place.part is None else shape[1:]
    if not place.fused.stacked:
        return (shape[0] * len(place.names), *shape[1:])
    experts, rows, *columns = shape
    fused = (rows * len(place.names), *columns)
    return (experts, *(reversed(fused) if place.fused.transposed else fused))


def _check_whole(model: TextModel, found: Origins, wanted: Wanted) -> None:
    """Refuse a checkpoint without a tensor of the model, or without some of its parts."""
    for name, tensor in wanted.items():
        if name not in found:
            if not tensor.optional:
                model.config.fail(f"the checkpoint has no tensor for {name} of GGUF; get another copy of it")
            continue
        names, count = found[name].names, tensor.shape[0]
        if found[name].in_parts and len(names) < count:
            lacking = next(i for i in range(count) if i not in names)
            problem = f"the checkpoint has {len(names)} of {count} parts of {name}, and lacks number {lacking}"
            model.config.fail(f"{problem}; get another copy of it")


def _check_layers(model: TextModel, found: Origins, wanted: Wanted) -> None:
    """Refuse a checkpoint in which some layers have an optional tensor, such as a bias, and others lack it."""
    layers: dict[str, list[str]] = {}
    for name in (name for name, tensor in wanted.items() if tensor.in_all_layers):
        layers.setdefault(name.split(".", 2)[2], []).append(name)
    for names in layers.values():
        lacking = [name for name in names if name not in found]
        if lacking and len(lacking) < len(names):
            problem = f"the checkpoint has no tensor for {lacking[0]} of GGUF, which other layers have"
            model.config.fail(f"{problem}; get another copy of it")


def _names(model: TextModel, family: Family) -> Iterator[str]:
    """The tensors of the checkpoint that the file needs, by file and name."""
    tensors = model.checkpoint.tensors
    in_order = sorted(tensors, key=lambda name: (tensors[name].file.name, name))
    drops_output = family.drops_tied_output and model.config.flag("tie_word_embeddings")
    predicting = model.config.integer("num_nextn_predict_layers", 0, least=0)
    apart = {name for name in in_order if family.separate_prediction and is_apart(name)}
    others = [name for name in in_order if name not in apart]
    needed = apart.union(without_unneeded(others, model.checkpoint.path, model.sizes.layer_count, predicting))
    for name in filter(needed.__contains__, in_order):
        is_output = drops_output and name.endswith(f"{OUTPUT.hugging_face}.weight")
        if not is_output and not name.endswith(family.parameters):
            yield name
