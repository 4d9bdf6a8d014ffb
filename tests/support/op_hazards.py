"""What each op of a program reads and writes, and the ops that lack a barrier."""

from collections.abc import Iterator

from edgellm.engine.program import Op, Program
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
    records.ActivationOp: ("gate", "q8", "super_q8"),
    records.SigmoidGateOp: ("x",),
    records.SoftCapOp: ("y",),
    records.TopActivationsOp: ("x",),
    records.MatchMagnitudeOp: ("to",),
    records.PredictStreamsOp: ("x", "x_1", "x_2", "x_3", "predicted"),
    records.CorrectStreamsOp: ("x", "x_1", "x_2", "x_3", "scaled"),
    records.MatmulOp: ("y",),
    records.RopeStoreOp: ("q", "k"),
    records.AttentionOp: ("out", "partials"),
}
"""The arguments that an op writes; it may read all."""


def _written(op: Op) -> set[object]:
    found = {getattr(op.arguments, name) for name in _WRITTEN[type(op.arguments)]} - {None}
    return found | _pages(op) if isinstance(op.arguments, records.RopeStoreOp) else found


def _touched(op: Op) -> set[object]:
    """The buffers and tensors that an op reads or writes, and the layer's part of the pages."""
    found = {each for each in op.arguments if each is not None and not isinstance(each, int | float)}
    return found | _pages(op)


def _pages(op: Op) -> set[object]:
    given = op.arguments
    if isinstance(given, records.RopeStoreOp) and given.k is None:
        return set()
    if isinstance(given, records.RopeStoreOp | records.AttentionOp):
        return {(given.kv_group, given.page_offset)}
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
