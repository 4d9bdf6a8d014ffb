"""How far each op of a program reaches: into a tensor, and into a row of a buffer."""

from collections.abc import Iterator
from typing import Any

from edgellm.engine.program import Buffer, Op, Program
from edgellm.gguf import Tensor
from kquants import records
from kquants.kv_layout import layer_page_bytes, padded_head_dim, partial_bytes
from kquants.layout import quantized_bytes, super_quantized_bytes


def _reach(given: Any) -> dict[str, int]:
    """Bytes of each argument that an op touches: of a tensor, or of each row of a buffer."""
    n = 4 * getattr(given, "n", 0)
    quantized = {"q8": quantized_bytes(n // 4), "super_q8": super_quantized_bytes(n // 4)}
    match given:
        case records.EmbedOp():
            return {"x": 4 * given.columns}
        case records.NormOp() | records.QuantizeOp():
            return {"x": n, "h": n, "weight": n, "bias": n} | quantized
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
            return {"x": n, "gate": n}
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
            return {"w": given.rows * given.row_bytes, "y": 4 * given.rows}
        case records.RopeStoreOp():
            keys, values = 4 * given.key_dim, 4 * given.value_dim
            return {"q": given.heads * keys, "k": given.kv_heads * keys, "v": given.kv_heads * values}
        case records.AttentionOp():
            sizes = {"q": 4 * given.heads * given.key_dim, "out": 4 * given.heads * given.value_dim}
            partials = given.heads * partial_bytes(padded_head_dim(given.value_dim))
            return sizes | {"sinks": 4 * given.heads, "partials": partials}
    assert isinstance(given, records.KeepOutputsOp)
    return {"x": given.x_bytes}


def _page_end(given: Any, kv_type: str) -> int:
    """Where the keys and values of an op end in a page."""
    return int(given.page_offset) + layer_page_bytes(given.kv_heads, given.key_dim, given.value_dim, kv_type)


def _wrong(op: Op, program: Program, kv_type: str) -> Iterator[str]:
    given = op.arguments
    for name, reach in _reach(given).items():
        argument = getattr(given, name, None)
        room = argument.nbytes if isinstance(argument, Tensor) else getattr(argument, "row_bytes", reach)
        if isinstance(argument, Tensor | Buffer) and reach > room:
            yield f"{reach} bytes of {name}, which has {room}"
    stores = isinstance(given, records.RopeStoreOp) and given.k is not None
    if stores or isinstance(given, records.AttentionOp):
        end, room = _page_end(given, kv_type), program.page_bytes[given.kv_group]  # type: ignore[union-attr]
        if end > room:
            yield f"a page up to {end}, which has {room} bytes"
    if isinstance(given, records.RopeStoreOp) and given.rope_dim > given.key_dim:
        yield f"{given.rope_dim} rotated values of {given.key_dim}"


def out_of_bounds(program: Program, kv_type: str) -> Iterator[str]:
    """The ops that reach behind a tensor, a row of a buffer or a page."""
    for i, op in enumerate(program.ops):
        yield from (f"op {i}, {op.kernel}: {problem}" for problem in _wrong(op, program, kv_type))
