"""What plan and report say of a checkpoint whose weights are quantized already."""

from collections.abc import Iterable, Sequence

from converters.checkpoint import Checkpoint
from converters.quant_mixes.sufficient import smaller_mix
from converters.tensors import ExactRows, PlannedTensor, Source, exact_source
from edgellm.fmt import printable

_EXACT = ("Q4_0", "Q8_0")
"""Mixes that hold many integers exactly, of up to 4 bits and of 8."""


def quantization_note(
    checkpoint: Checkpoint, mix: str, sources: Sequence[Source], tensors: Iterable[PlannedTensor]
) -> str:
    """A line for the mix `mix`, with which `sources` become `tensors`; "" if there is nothing to say."""
    found = checkpoint.quantization
    if found is None:
        unused = (
            f"the checkpoint's settings of a quantization ({printable(checkpoint.unused_method)}) are for none of its"
        )
        return f"{unused} weights, which are all floats" if checkpoint.unused_method else ""
    note = f"the checkpoint is quantized already, by {found.words}, so the new file is at best that good"
    exact = [source for source in sources if isinstance(source.rows, ExactRows)]
    planned = {tensor.source.name: tensor.source.type for tensor in tensors}
    if exact and all(planned[source.name] != source.type for source in exact):
        kinds = sorted({planned[source.name] for source in exact})
        return f"{note}; {' and '.join(kinds)} {'holds' if len(kinds) == 1 else 'hold'} its weights exactly"
    holding = next((kind for kind in _EXACT if exact and exact_source(exact[0], kind).type == kind), None)
    if holding:
        return f"{note}; --type {holding} holds its weights exactly"
    enough = smaller_mix(mix, found.bits)
    return f"{note}; --type {enough} is large enough for it" if enough else note
