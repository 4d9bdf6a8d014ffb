"""The recipe `dynamic`: measures what each tensor costs the model, and gives bits to those that need them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from converters.dynamic.allocation import Choice, allocate
from converters.dynamic.candidates import Candidate, candidates
from converters.dynamic.losses import Losses
from converters.dynamic.settings import DynamicSettings
from converters.header import EncodedMetadata, layout_file
from converters.importance.apply import with_importance
from converters.quant_mixes import QUANT_MIXES
from converters.quant_mixes.assign import KEPT
from converters.quant_mixes.overrides import deciding_overrides
from converters.quant_mixes.unquantized import is_quantized
from converters.tensors import PlannedTensor
from edgellm.errors import OptionError
from edgellm.fmt import size
from edgellm.gguf import GGUFFile
from edgellm.gguf.imatrix import Imatrix
from kquants.ggml import NAMED_TYPES

BASE_MIX = "Q4_K_M"
"""The mix whose types tensors have before, and keep if they are not quantized."""

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
    mix quantizes. `pairs` are the metadata of the new file.

    The loss of a tensor is measured in one type: the KL divergence from the model itself on the text. In other types it
    is taken to grow with the squared error of the weights. Raises OptionError if the limit is too small, and what
    opening the model and reading the text raise.
    """
    weighted = with_importance(tensors, imatrix) if imatrix else tensors
    free = _free(weighted, overrides)
    losses, choices = Losses(file, settings.text, threads), dict[str, list[Choice]]()
    for done, tensor in enumerate(free):
        settings.measuring(done, len(free))
        choices[tensor.source.name] = _choices(tensor, losses)
    settings.measuring(len(free), len(free))
    chosen = allocate(choices, _room(pairs, tensors, choices, settings))
    return [
        replace(tensor, type=NAMED_TYPES[chosen[name].type], note="")
        if (name := tensor.source.name) in chosen
        else tensor
        for tensor in tensors
    ]


def nearest_mix(tensors: Sequence[PlannedTensor]) -> str:
    """The mix whose type most bytes have: `general.file_type` has no number for types of any kind."""
    nbytes = Counter[str]()
    for tensor in tensors:
        nbytes[tensor.type.name] += tensor.nbytes
    types = {mix.type: name for name, mix in reversed(QUANT_MIXES.items())}
    return next((types[name] for name, _ in nbytes.most_common() if name in types), BASE_MIX)


def _free(tensors: Sequence[PlannedTensor], overrides: Sequence[tuple[str, str]]) -> list[PlannedTensor]:
    """The tensors whose types are chosen here."""
    found = [tensor for tensor in tensors if is_quantized(tensor.source) and tensor.source.type not in KEPT]
    named = deciding_overrides([tensor.source.name for tensor in found], overrides)
    return [tensor for tensor in found if tensor.source.name not in named]


def _room(
    pairs: EncodedMetadata,
    tensors: Sequence[PlannedTensor],
    choices: dict[str, list[Choice]],
    settings: DynamicSettings,
) -> int:
    """The bytes for the tensors that are free. Raises OptionError if even the smallest choices take more."""
    fixed = sum(tensor.nbytes for tensor in tensors if tensor.source.name not in choices)
    others = len(layout_file(pairs, tensors).header) + _ALIGNMENT * len(tensors)
    room = settings.room(sum(t.source.row_count * t.source.columns for t in tensors), others) - fixed
    smallest = sum(min(choice.nbytes for choice in of) for of in choices.values())
    if smallest > room:
        least = size(smallest + fixed + others)
        raise OptionError(f"the smallest file that --type dynamic makes of this model has {least}; allow at least that")
    return room


def _choices(tensor: PlannedTensor, losses: Losses) -> list[Choice]:
    found = candidates(tensor)
    probe = _probe(found)
    if not probe.error:  # all weights are 0, or the type is exact
        return [Choice(each.type.name, each.nbytes, 0.0) for each in found]
    per_error = losses.of(tensor, probe.type) / probe.error
    return [Choice(each.type.name, each.nbytes, each.error * per_error) for each in found]


def _probe(found: Sequence[Candidate]) -> Candidate:
    return next((each for name in _PROBES for each in found if each.type.name == name), found[0])
