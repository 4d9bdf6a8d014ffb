"""Arguments of activation functions, gates and soft caps."""

from typing import NamedTuple

from kquants.records.header import Word


class ActivationOp(NamedTuple):
    """gate = f(gate) · up, or f(gate) where up is null; the kernel's name says which function f is.

    The result goes to gate, or, where q8 or super_q8 is not null, to these instead. The parameters are xIELU's α_p,
    α_n, β and eps, or the limit and alpha of the clamped SwiGLU, in this order: f is min(gate, limit) ·
    sigmoid(alpha · min(gate, limit)), and in place of up stands min(max(up, -limit), limit) + 1.
    """

    gate: Word
    gate_bytes: Word
    up: Word
    up_bytes: Word
    up_offset: Word
    """Bytes from the start of a row of up to its first value."""
    n: Word
    q8: Word
    super_q8: Word
    parameter_0: float
    parameter_1: float
    parameter_2: float
    parameter_3: float


class SigmoidGateOp(NamedTuple):
    """x = x · sigmoid(gate), over n values; for `scale_by_sigmoid` gate has one value for all of them."""

    x: Word
    x_bytes: Word
    gate: Word
    gate_bytes: Word
    n: Word


class SoftplusGateOp(NamedTuple):
    """x = x · softplus(gate), over n values; each value of gate is for `group` values of x, which divides n."""

    x: Word
    x_bytes: Word
    gate: Word
    gate_bytes: Word
    n: Word
    group: Word


class SoftCapOp(NamedTuple):
    """y = cap · tanh(y / cap) over n values, in place."""

    y: Word
    y_bytes: Word
    n: Word
    cap: float


class TopActivationsOp(NamedTuple):
    """x = max(x - m, 0) with m = mean(x) + deviations · std(x), over the n values of a row."""

    x: Word
    x_bytes: Word
    n: Word
    deviations: float
