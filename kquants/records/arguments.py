"""The arguments of any kernel, and their words in the record of an op."""

import struct
from typing import Any

from kquants.records.activations import ActivationOp, SigmoidGateOp, SoftCapOp, SoftplusGateOp, TopActivationsOp
from kquants.records.attention import AttentionOp, RopeStoreOp
from kquants.records.experts import CombineOp, GatherOp, PlanOp, ReadAheadOp, RouteOp
from kquants.records.header import FIRST_ARGUMENT, OP_WORDS, OpHeader
from kquants.records.latent import HeadGroupsOp, JoinHeadsOp, SplitHeadsOp
from kquants.records.matmul import MatmulOp
from kquants.records.microbenchmark import Int8PeakOp, ReadSumOp
from kquants.records.norms import AddNormOp, HeadNormOp, NormOp
from kquants.records.recurrent import (
    ChannelDeltaInputsOp,
    ChannelDeltaRuleOp,
    ConvOp,
    DeltaInputsOp,
    DeltaRuleOp,
    GatedNormOp,
    MambaInputsOp,
    MambaOp,
    SelectiveScanOp,
    SplitGateOp,
)
from kquants.records.rows import AddBiasOp, AddScaledOp, EmbedOp, KeepOutputsOp, QuantizeOp, SquareSumsOp
from kquants.records.streams import CorrectStreamsOp, MatchMagnitudeOp, PredictStreamsOp

Arguments = (
    EmbedOp
    | NormOp
    | AddNormOp
    | AddScaledOp
    | HeadNormOp
    | KeepOutputsOp
    | AddBiasOp
    | QuantizeOp
    | SquareSumsOp
    | ActivationOp
    | SigmoidGateOp
    | SoftplusGateOp
    | SoftCapOp
    | TopActivationsOp
    | MatchMagnitudeOp
    | PredictStreamsOp
    | CorrectStreamsOp
    | MatmulOp
    | RouteOp
    | PlanOp
    | ReadAheadOp
    | GatherOp
    | CombineOp
    | RopeStoreOp
    | SplitHeadsOp
    | HeadGroupsOp
    | JoinHeadsOp
    | AttentionOp
    | ConvOp
    | ChannelDeltaInputsOp
    | ChannelDeltaRuleOp
    | DeltaInputsOp
    | DeltaRuleOp
    | MambaInputsOp
    | MambaOp
    | SelectiveScanOp
    | GatedNormOp
    | SplitGateOp
    | ReadSumOp
    | Int8PeakOp
)
"""The arguments of a kernel."""


def are_floats(record: type[Any]) -> list[bool]:
    """For each field of a record whether it is a float."""
    return [annotation is float for annotation in record.__annotations__.values()]


def record_of_op(header: OpHeader, arguments: Arguments) -> list[int]:
    """The words of an op's record; all arguments are numbers by now."""
    fields = zip(arguments, are_floats(type(arguments)), strict=True)
    words = [*header, *(_float32_bits(word) if is_float else word for word, is_float in fields)]
    return words + [0] * (OP_WORDS - len(words))


def _float32_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


assert all(FIRST_ARGUMENT + len(kind._fields) <= OP_WORDS for kind in Arguments.__args__), "a record is too long"
