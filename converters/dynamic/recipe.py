"""The recipe `dynamic`: measures what each tensor costs the model, and gives bits to those that need them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from converters.dynamic.allocation import Choice, allocate
from converters.dynamic.candidates import Candidate, candidates, types_for
from converters.dynamic.losses import Losses
from converters.dynamic.settings import DynamicSettings
from converters.header import EncodedMetadata, layout_file
from converters.importance.apply import with_importance
from converters.quant_mixes import QUANT_MIXES
from converters.quant_mixes.assign import KEPT
from converters.quant_mixes.overrides import deciding_overrides
from converters.quant_mixes.unquantized import is_quantized
from converters.row_converter import RowConverter
from converters.tensors import PlannedTensor
from edgellm.arch import describe
from edgellm.arch.description import tensors_in
from edgellm.errors import OptionError
from edgellm.gguf import GGUFFile
from edgellm.gguf.imatrix import Imatrix
from kquants.ggml import NAMED_TYPES

BASE_MIX = "Q4_K_M"
"""The mix whose types tensors have before, and keep if they are not quantized or not computed with."""

_PROBES = ("Q3_K", "Q4_0")
"""The type in which the loss of a tensor is measured, by its columns: the first of these that it may get. Its errors
are large enough to be seen, and small enough for the loss to grow as they do."""

_ALIGNMENT = 32
"""Bytes, at most, between two tensors of a file."""


def dynamic_tensors(
    file: GGUFFile,
    pairs: EncodedMetadata,
    tensors: Sequence[PlannedTensor],
    overrides: Sequence[tuple[str, str]],
    imatrix: Imatrix | None,
    settings: DynamicSettings,
    threads: int | None,
) -> list[PlannedTensor]:
    """The tensors with the types for which the model loses least within the limit.

    `tensors` have the types of BASE_MIX, and those of `overrides`. Those named there keep them, as do tensors that no
    mix quantizes, and those that edgellm does not compute with, such as layers for multi-token prediction. The experts
    of a layer are one tensor, and get one type. `pairs` are the metadata of the new file.

    The loss of a tensor is measured in one type: the KL divergence from the model itself on the text. In other types it
    is taken to grow with the squared error of the weights. Where the largest types fit, nothing is measured. Raises
    OptionError if the limit is too small, ModelFileError for weights that are NaN or Inf, and what opening the model
    and reading the text raise.
    """
    weighted = with_importance(tensors, imatrix) if imatrix else tensors
    free = free_tensors(file, weighted, overrides)
    room = _room(pairs, tensors, free, settings)
    largest = {tensor.source.name: max(_possible(tensor), key=lambda each: each.nbytes) for tensor in free}
    if sum(each.nbytes for each in largest.values()) <= room:
        types = {name: each.type for name, each in largest.items()}
    else:
        chosen = allocate(_measured(file, free, settings, threads), room)
        types = {name: NAMED_TYPES[choice.type] for name, choice in chosen.items()}
    return [
        replace(tensor, type=types[name], note="") if (name := tensor.source.name) in types else tensor
        for tensor in tensors
    ]


def _possible(tensor: PlannedTensor) -> list[PlannedTensor]:
    """The tensor in each type that it may get."""
    return [replace(tensor, type=kind) for kind in types_for(tensor)]


def _measured(
    file: GGUFFile, free: Sequence[PlannedTensor], settings: DynamicSettings, threads: int | None
) -> dict[str, list[Choice]]:
    """The choices for each tensor by its name."""
    losses = Losses(file, settings, threads)
    possible = [each for tensor in free for each in _possible(tensor)]
    converter, choices = RowConverter(possible, settings.compiling), dict[str, list[Choice]]()
    for done, tensor in enumerate(free):
        settings.measuring(done, len(free))
        choices[tensor.source.name] = _choices(tensor, converter, losses)
    settings.measuring(len(free), len(free))
    return choices


def nearest_mix(tensors: Sequence[PlannedTensor]) -> str:
    """The mix whose type most bytes have: `general.file_type` has no number for types of any kind."""
    nbytes = Counter[str]()
    for tensor in tensors:
        nbytes[tensor.type.name] += tensor.nbytes
    types = {mix.type: name for name, mix in reversed(QUANT_MIXES.items())}
    return next((types[name] for name, _ in nbytes.most_common() if name in types), BASE_MIX)


def free_tensors(
    file: GGUFFile, tensors: Sequence[PlannedTensor], overrides: Sequence[tuple[str, str]]
) -> list[PlannedTensor]:
    """The tensors whose types `dynamic_tensors` chooses. Raises as `edgellm.arch.describe` if edgellm cannot run it."""
    used = {tensor.stored_name for tensor in tensors_in(describe(file))}
    found = [tensor for tensor in tensors if is_quantized(tensor.source)]
    named = deciding_overrides([tensor.source.name for tensor in found], overrides)
    can_change = (tensor for tensor in found if tensor.source.type not in KEPT and tensor.source.name in used)
    return [tensor for tensor in can_change if tensor.source.name not in named]


def _room(
    pairs: EncodedMetadata,
    tensors: Sequence[PlannedTensor],
    free: Sequence[PlannedTensor],
    settings: DynamicSettings,
) -> int:
    """The bytes for the tensors that are free. Raises OptionError if even their smallest types take more."""
    fixed = sum(tensor.nbytes for tensor in tensors) - sum(tensor.nbytes for tensor in free)
    others = len(layout_file(pairs, tensors).header) + _ALIGNMENT * len(tensors)
    weights = sum(tensor.weights for tensor in tensors)
    room = settings.room(weights, others) - fixed
    smallest = sum(min(each.nbytes for each in _possible(tensor)) for tensor in free)
    if smallest > room:
        least = settings.least(smallest + fixed, weights, others)
        raise OptionError(f"--type dynamic makes no file of this model that is so small; allow {least} at least")
    return room


def _choices(tensor: PlannedTensor, converter: RowConverter, losses: Losses) -> list[Choice]:
    found = candidates(tensor, converter)
    probe = _probe(found)
    if not probe.error:  # all weights are 0, or the type is exact
        return [Choice(each.type.name, each.nbytes, 0.0) for each in found]
    per_error = losses.of(replace(tensor, type=probe.type), converter) / probe.error
    return [Choice(each.type.name, each.nbytes, each.error * per_error) for each in found]


def _probe(found: Sequence[Candidate]) -> Candidate:
    return next((each for name in _PROBES for each in found if each.type.name == name), found[0])
