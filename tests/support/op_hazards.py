"""What each op of a program reads and writes: the ops that lack a barrier, and those that read rows of others."""

from collections.abc import Iterator

from edgellm.engine.program import Buffer, Op, Program
from kquants import records

_WRITTEN: dict[type, tuple[str, ...]] = {
    records.EmbedOp: ("x",),
    records.NormOp: ("h", "q8", "super_q8"),
    records.AddNormOp: ("x",),
    records.AddScaledOp: ("x",),
    records.HeadNormOp: ("y",),
    records.KeepOutputsOp: ("x",),
    records.AddBiasOp: ("y",),
    records.QuantizeOp: ("q8", "super_q8"),
    records.SquareSumsOp: ("sums", "counts"),
    records.ActivationOp: ("gate", "q8", "super_q8"),
    records.SigmoidGateOp: ("x",),
    records.SoftplusGateOp: ("x",),
    records.SoftCapOp: ("y",),
    records.TopActivationsOp: ("x",),
    records.MatchMagnitudeOp: ("to",),
    records.PredictStreamsOp: ("x", "x_1", "x_2", "x_3", "predicted"),
    records.CorrectStreamsOp: ("x", "x_1", "x_2", "x_3", "scaled"),
    records.MatmulOp: ("y",),
    records.RouteOp: ("chosen", "weights"),
    records.PlanOp: ("groups", "choices", "slots"),
    records.ReadAheadOp: (),
    records.GatherOp: ("h", "q8", "super_q8"),
    records.CombineOp: ("x",),
    records.RopeStoreOp: ("q", "k"),
    records.SplitHeadsOp: ("plain", "q8", "super_q8", "queries"),
    records.HeadGroupsOp: ("groups",),
    records.JoinHeadsOp: ("h", "q8", "super_q8"),
    records.AttentionOp: ("out", "partials"),
    records.ChannelDeltaInputsOp: ("q", "k", "decay", "decayed_k", "beta"),
    records.ChannelDeltaRuleOp: ("y",),
    records.ConvOp: ("y",),
    records.DeltaInputsOp: ("qkv", "gates"),
    records.DeltaRuleOp: ("y",),
    records.MambaInputsOp: ("gates",),
    records.MambaOp: ("y",),
    records.SelectiveScanOp: ("y",),
    records.GatedNormOp: ("h", "q8", "super_q8"),
    records.SplitGateOp: ("q", "gate"),
}
"""The arguments that an op writes; it may read all."""


_WITH_STATE = (
    *(records.ChannelDeltaRuleOp, records.ConvOp, records.DeltaRuleOp, records.MambaOp),
    records.SelectiveScanOp,
)
"""Ops that read and write the state of a layer."""


def _written(op: Op) -> set[object]:
    found = {getattr(op.arguments, name) for name in _WRITTEN[type(op.arguments)]} - {None}
    return found | _pages(op) if isinstance(op.arguments, (records.RopeStoreOp, *_WITH_STATE)) else found


def _touched(op: Op) -> set[object]:
    """The buffers and tensors that an op reads or writes, and the layer's part of the pages of KV and of states."""
    found = {each for each in (*op.arguments, op.units_factor) if each is not None}
    return {each for each in found if not isinstance(each, int | float)} | _pages(op)


def _pages(op: Op) -> set[object]:
    given = op.arguments
    if isinstance(given, records.RopeStoreOp) and given.k is None:
        return set()
    if isinstance(given, records.RopeStoreOp | records.AttentionOp):
        return {(given.kv_group, given.page_offset)}
    if isinstance(given, _WITH_STATE):
        return {(given.state_group, given.state_offset)}
    return set()


def ops_without_barrier(program: Program) -> Iterator[str]:
    """The ops without a barrier that touch what an op since the last barrier writes, or write what one touches."""
    written, touched = set[object](), set[object]()
    for i, op in enumerate(program.ops):
        if op.barrier:
            written, touched = set(), set()
        elif _touched(op) & written or _written(op) & touched:
            yield f"op {i}, {op.kernel}"
        written |= _written(op)
        touched |= _touched(op)


def ops_that_mix_rows(program: Program) -> Iterator[str]:
    """The ops on rows of wanted logits that read a buffer with all rows: one that was written before, and not kept."""
    of_outputs: dict[object, bool] = {}
    for i, op in enumerate(program.ops):
        given = op.arguments
        if not isinstance(given, records.KeepOutputsOp):
            of_all = {given.q} if isinstance(given, records.AttentionOp) and not given.q_outputs else set()
            for buffer in (_touched(op) - _written_whole(op)) & of_outputs.keys():
                if of_outputs[buffer] != (op.outputs and buffer not in of_all):
                    yield f"op {i}, {op.kernel}"
        of_outputs |= {each: op.outputs for each in _written(op) if isinstance(each, Buffer)}


def _written_whole(op: Op) -> set[object]:
    """The buffers that an op writes without reading them."""
    given = op.arguments
    match given:
        case records.EmbedOp():
            return {given.x}
        case records.NormOp() | records.QuantizeOp() | records.GatedNormOp() | records.SplitGateOp():
            return _written(op) - {given.x}
        case records.ChannelDeltaInputsOp():
            return {given.decayed_k}
        case records.ChannelDeltaRuleOp() | records.ConvOp() | records.DeltaRuleOp():
            return {given.y}
        case records.MambaOp() | records.SelectiveScanOp():
            return {given.y}
        case records.DeltaInputsOp() | records.MambaInputsOp():
            return {given.gates}
        case records.ActivationOp():
            return {given.q8, given.super_q8}
        case records.HeadNormOp():
            return {given.y} - {given.x}
        case records.MatchMagnitudeOp():
            return {given.to} - {given.y}
        case records.PredictStreamsOp():
            return {given.predicted}
        case records.CorrectStreamsOp():
            return {given.scaled}
        case records.MatmulOp(accumulate=0):
            return {given.y}
        case records.RouteOp() | records.PlanOp() | records.GatherOp():
            return _written(op)
        case records.SplitHeadsOp() | records.HeadGroupsOp() | records.JoinHeadsOp():
            return _written(op)
        case records.CombineOp(accumulate=0):
            return {given.x}
        case records.AttentionOp():
            return _written(op) if op.kernel != "attention_merge" else set()
    return set()
