"""How far the ops of recurrent layers reach: into a row of a buffer, a tensor, and a state page."""

from typing import Any

from kquants import records
from kquants.layout import STATE_COLUMNS, quantized_bytes, super_quantized_bytes

RECURRENT_OPS = (
    records.ChannelDeltaInputsOp,
    records.ChannelDeltaRuleOp,
    records.ConvOp,
    records.DeltaInputsOp,
    records.DeltaRuleOp,
    records.MambaInputsOp,
    records.MambaOp,
    records.SelectiveScanOp,
    records.GatedNormOp,
    records.SplitGateOp,
)


def reach_of_recurrent(given: Any) -> dict[str, int]:
    """Bytes of each argument that an op touches: of a tensor, or of each row of a buffer."""
    match given:
        case records.ConvOp():
            n = 4 * given.channels
            return dict.fromkeys(("x", "bias", "factor", "gate", "y"), n) | {"weight": n * given.taps}
        case records.DeltaInputsOp():
            last = (given.heads - 1) // given.group * given.group_stride + (given.heads - 1) % given.group + 1
            return {
                "qkv": 8 * given.key_heads * given.key_dim,
                "alpha": given.alpha_offset + 4 * last,
                "beta": 4 * last,
                "gates": 8 * given.heads,
            } | dict.fromkeys(("a", "dt_bias"), 4 * given.heads)
        case records.DeltaRuleOp():
            values = 4 * given.heads * given.value_dim
            return {"qkv": 8 * given.key_heads * given.key_dim + values, "gates": 8 * given.heads, "y": values}
        case records.ChannelDeltaInputsOp() | records.ChannelDeltaRuleOp():
            rows = ("q", "k", "v", "decay", "decayed_k", "y", "dt_bias")
            sizes = dict.fromkeys(("a", "beta"), 4 * given.heads)
            return sizes | dict.fromkeys(rows, 4 * given.heads * given.head_dim)
        case records.MambaInputsOp():
            return {"gates": 8 * given.heads} | dict.fromkeys(("dt", "dt_bias", "a"), 4 * given.heads)
        case records.MambaOp():
            values = 4 * given.heads * given.head_dim
            xbc = values + 8 * given.groups * given.state_dim
            return {"xbc": xbc, "gates": 8 * given.heads, "d": 4 * given.heads, "y": values}
        case records.SelectiveScanOp():
            sizes = dict.fromkeys(("x", "dt", "dt_bias", "d", "y"), 4 * given.channels)
            return sizes | {"bc": 8 * given.state_dim, "a": 4 * given.channels * given.state_dim}
        case records.GatedNormOp():
            n = given.groups * given.group_dim
            weight = 4 * (n if given.weight_stride else given.group_dim)
            sizes = {"weight": weight, "q8": quantized_bytes(n), "super_q8": super_quantized_bytes(n)}
            return dict.fromkeys(("x", "z", "h"), 4 * n) | sizes
    assert isinstance(given, records.SplitGateOp)
    n = 4 * given.heads * given.head_dim
    return {"x": 2 * n, "q": n, "gate": n}


def state_end(given: Any) -> int:
    """Where the state of an op ends in a page; 0 for an op without one."""
    match given:
        case records.ConvOp():
            return int(given.state_offset) + (given.taps - 1) * 64 * -(-given.channels // 16)
        case records.DeltaRuleOp():
            return int(given.state_offset) + given.heads * _matrix_bytes(given.key_dim, given.value_dim)
        case records.ChannelDeltaRuleOp():
            return int(given.state_offset) + given.heads * _matrix_bytes(given.head_dim, given.head_dim)
        case records.MambaOp():
            return int(given.state_offset) + given.heads * _matrix_bytes(given.state_dim, given.head_dim)
        case records.SelectiveScanOp():
            return int(given.state_offset) + _matrix_bytes(given.state_dim, given.channels)
    return 0


def _matrix_bytes(rows: int, columns: int) -> int:
    return 4 * rows * -(-columns // STATE_COLUMNS) * STATE_COLUMNS
