"""How far each op of a program reaches: into a tensor, and into a row of a buffer."""

from collections.abc import Iterator, Mapping
from typing import Any

from edgellm.engine.program import Buffer, Op, Program
from edgellm.gguf import Tensor
from kquants import records
from kquants.kv_layout import layer_page_bytes, padded_head_dim, partial_bytes
from kquants.layout import quantized_bytes, super_quantized_bytes
from support.recurrent_extents import RECURRENT_OPS, reach_of_recurrent, state_end


def _reach(kernel: str, given: Any) -> dict[str, int]:
    """Bytes of each argument that an op touches: of a tensor, or of each row of a buffer."""
    n = 4 * getattr(given, "n", 0)
    quantized = {"q8": quantized_bytes(n // 4), "super_q8": super_quantized_bytes(n // 4)}
    if isinstance(given, RECURRENT_OPS):
        return reach_of_recurrent(given)
    match given:
        case records.EmbedOp():
            return {"x": 4 * given.columns}
        case records.NormOp() | records.QuantizeOp():
            return {"x": n, "h": n, "weight": n, "bias": n} | quantized
        case records.SquareSumsOp():
            return {"x": n, "sums": 2 * n}
        case records.AddNormOp() | records.AddScaledOp() | records.SoftCapOp() | records.TopActivationsOp():
            return {"x": n, "y": n, "weight": n, "bias": n}
        case records.HeadNormOp():
            whole = 4 * given.heads * given.head_dim
            return {"x": whole, "y": whole, "weight": whole if given.weight_stride else 4 * given.head_dim}
        case records.AddBiasOp():
            return {"y": n, "bias": n}
        case records.ActivationOp():
            return {"gate": n, "up": given.up_offset + n} | quantized
        case records.SigmoidGateOp():
            return {"x": n, "gate": 4 if kernel == "scale_by_sigmoid" else n}
        case records.SoftplusGateOp():
            return {"x": n, "gate": n // given.group}
        case records.MatchMagnitudeOp():
            return {"x": n, "y": n, "to": n}
        case records.PredictStreamsOp() | records.CorrectStreamsOp():
            sizes = {
                "coefficients": 256 if isinstance(given, records.PredictStreamsOp) else 64,
                "scale": n,
                "routed": 16,
            }
            return dict.fromkeys(("x", "x_1", "x_2", "x_3", "predicted", "scaled"), n) | sizes
        case records.MatmulOp():
            return {"w": given.rows * given.row_bytes, "y": 4 * given.rows, "bias": 4 * given.rows}
        case records.ReadAheadOp():
            return {"w": given.matrix_bytes}
        case records.RouteOp() | records.PlanOp() | records.GatherOp() | records.CombineOp():
            return _reach_of_routing(given) | {"x": n, "y": n, "h": n} | quantized
        case records.RopeStoreOp():
            keys, values = 4 * given.key_dim, 4 * given.value_dim
            return {"q": given.heads * keys, "k": given.kv_heads * keys, "v": given.kv_heads * values}
        case records.AttentionOp():
            heads = 1 if given.has_slots else given.heads
            sizes = {"q": 4 * heads * given.key_dim, "out": 4 * heads * given.value_dim}
            partials = given.heads * partial_bytes(padded_head_dim(given.value_dim))
            return sizes | {"sinks": 4 * given.heads, "partials": partials}
        case records.SplitHeadsOp() | records.HeadGroupsOp() | records.JoinHeadsOp():
            return _reach_of_heads(given)
    assert isinstance(given, records.KeepOutputsOp)
    return {"x": given.x_bytes}


def _reach_of_routing(given: Any) -> dict[str, int]:
    """Bytes of each row of what experts have for each choice, and of what a router has for each expert."""
    of_choices = dict.fromkeys(("chosen", "weights", "choices", "slots"), 4 * given.used)
    experts = getattr(given, "experts", 0)
    of_experts = dict.fromkeys(("logits", "selection_bias", "expert_scales"), 4 * experts)
    return of_choices | of_experts | {"groups": records.group_list_bytes(experts)}


def _reach_of_heads(given: Any) -> dict[str, int]:
    """Bytes of each row, or slot, of the heads of latent attention."""
    if isinstance(given, records.HeadGroupsOp):
        return {"groups": records.group_list_bytes(given.heads)}
    if isinstance(given, records.SplitHeadsOp):
        n, head = given.plain_dim, 4 * (given.plain_dim + given.shared_dim)
        sizes = {"q": given.heads * head, "plain": 4 * n, "queries": 4 * (given.rope_first + given.shared_dim)}
    else:
        n = given.heads * given.head_dim
        sizes = {"x": 4 * given.head_dim, "h": 4 * n}
    return sizes | {"q8": quantized_bytes(n), "super_q8": super_quantized_bytes(n)}


def _slots(op: Op, name: str) -> int:
    """Rows of a buffer for each row of the op's own."""
    match op.arguments:
        case records.SplitHeadsOp():
            return 1 if name == "q" else op.slots
        case records.JoinHeadsOp():
            return op.arguments.heads if name == "x" else 1
        case records.AttentionOp():
            return op.arguments.heads if op.arguments.has_slots else 1
        case records.GatherOp():
            return op.slots if name in ("h", "q8", "super_q8") else 1
        case records.CombineOp():
            return op.arguments.used if name == "y" else 1
    return op.slots


def _wrong_slots(op: Op, experts: dict[Buffer, int], tensors: Mapping[str, Tensor]) -> Iterator[str]:
    """Buffers with other slots than the op, and stacks of other matrices than experts.

    `experts` are the matrices of each list of groups: as many as experts, or heads.
    """
    given: Any = op.arguments
    for name, argument in given._asdict().items():
        if isinstance(argument, Buffer) and argument.rows is None and argument.slots != _slots(op, name):
            yield f"{argument.slots} slots of {name}, of which it uses {_slots(op, name)}"
    if isinstance(given, records.GatherOp) and given.used != op.slots:
        yield f"{op.slots} slots for {given.used} experts of a row"
    if isinstance(given, records.SplitHeadsOp) and given.heads != op.slots:
        yield f"{op.slots} slots for {given.heads} heads of a row"
    of_groups = isinstance(given, records.MatmulOp | records.ReadAheadOp | records.SquareSumsOp)
    groups = (given.groups or None) if of_groups else None
    if groups != op.units_factor or (isinstance(given, records.MatmulOp) and op.slots > 1 and not groups):
        yield "units, slots and groups that do not belong together"
    if isinstance(given, records.SquareSumsOp):
        matrices, sums, counts = experts[groups] if groups else 1, given.sums, given.counts
        if not isinstance(sums, Buffer) or sums.rows != matrices or getattr(counts, "row_bytes", 0) != 8 * matrices:
            yield f"sums of {matrices} matrices in buffers of others"
    if isinstance(given, records.MatmulOp | records.ReadAheadOp) and given.groups:
        others = list[tuple[Any, int]]()
        if isinstance(given, records.MatmulOp):
            others = [(given.bias, given.bias_bytes), (given.factors, 4)]
        for first, stride in ((given.w, given.matrix_bytes), *others):
            stack = tensors[first.name.split("[")[0]] if first else None
            end = experts[given.groups] * stride
            if stack and end != stack.nbytes:
                yield f"{end} bytes of {stack.name}, which has {stack.nbytes}"


def _page_end(given: Any, kv_type: str) -> int:
    """Where the keys and values of an op end in a page."""
    values = 0 if getattr(given, "has_slots", 0) else given.value_dim  # latent attention finds them in the keys
    return int(given.page_offset) + layer_page_bytes(given.kv_heads, given.key_dim, values, kv_type)


def _wrong(op: Op, program: Program, kv_type: str) -> Iterator[str]:
    given = op.arguments
    for name, reach in _reach(op.kernel, given).items():
        argument = getattr(given, name, None)
        room = argument.nbytes if isinstance(argument, Tensor) else getattr(argument, "row_bytes", reach)
        if isinstance(argument, Tensor | Buffer) and reach > room:
            yield f"{reach} bytes of {name}, which has {room}"
    stores = isinstance(given, records.RopeStoreOp) and given.k is not None
    if stores or isinstance(given, records.AttentionOp):
        end, room = _page_end(given, kv_type), program.page_bytes[given.kv_group]  # type: ignore[union-attr]
        if end > room:
            yield f"a page up to {end}, which has {room} bytes"
    if (end := state_end(given)) > program.state_bytes:
        yield f"a state page up to {end}, which has {program.state_bytes} bytes"
    if isinstance(given, records.RopeStoreOp) and given.rope_first + given.rope_dim > given.key_dim:
        yield f"{given.rope_dim} rotated values of {given.key_dim}"


def out_of_bounds(program: Program, kv_type: str, tensors: Mapping[str, Tensor]) -> Iterator[str]:
    """The ops that reach behind a tensor, a row of a buffer, the last of its slots, or a page.

    `tensors` are those of the file, of which the program has parts.
    """
    experts: dict[Buffer, int] = {}
    for i, op in enumerate(program.ops):
        if isinstance(op.arguments, records.PlanOp):
            experts[op.arguments.groups] = op.arguments.experts
        elif isinstance(op.arguments, records.HeadGroupsOp):
            experts[op.arguments.groups] = op.arguments.heads
        problems = (*_wrong(op, program, kv_type), *_wrong_slots(op, experts, tensors))
        yield from (f"op {i}, {op.kernel}: {problem}" for problem in problems)
