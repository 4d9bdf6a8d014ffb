"""The ops of Kimi delta attention."""

from typing import NamedTuple

from edgellm.arch.blocks import Linear
from edgellm.arch.kimi_delta import KimiDelta
from edgellm.engine.activations import MatmulInput, float_buffer
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer
from edgellm.engine.recurrent_parts import GatedNorm, RecurrentParts, StatePlace, rows_of
from kquants import records
from kquants.layout import STATE_COLUMNS

_EPS = 1e-6
"""The epsilon of the unit length of q and k, in the models' own code and in transformers; GGUF has no key for it."""


class _Rows(NamedTuple):
    """What the delta rule reads of a row, and what it writes, y: buffers of the same width."""

    q: Buffer
    k: Buffer
    v: Buffer
    decay: Buffer
    decayed_k: Buffer
    y: Buffer

    @classmethod
    def of(cls, width: int) -> "_Rows":
        return cls(*(float_buffer(f"recurrent_{each}", width) for each in cls._fields))


class KimiDeltaOps:
    """Appends the ops of layers of Kimi delta attention to a program."""

    def __init__(self, ops: OpWriter) -> None:
        self._ops, self._parts = ops, RecurrentParts(ops)

    def compute(self, mixer: KimiDelta, h: MatmulInput, place: StatePlace) -> MatmulInput:
        """What the layer's output matrix reads; see `edgellm.engine.recurrent_ops.RecurrentOps.compute`."""
        rows, raw = _Rows.of(mixer.width), [float_buffer(f"conv_input_{each}", mixer.width) for each in "qkv"]
        gate, beta = float_buffer("z", mixer.width), float_buffer("beta", mixer.heads)
        decay_a, gate_a = (MatmulInput.named(name, mixer.head_dim) for name in ("decay_a", "gate_a"))
        projections = zip((mixer.q, mixer.k, mixer.v), raw, strict=True)
        low_rank = (mixer.decay_a, decay_a.f32), (mixer.gate_a, gate_a.f32)
        self._ops.linear(h, *projections, *low_rank, (mixer.beta, beta))
        self._project(decay_a, mixer.decay_b, rows.decay)
        self._project(gate_a, mixer.gate_b, gate)
        for conv, x, y in zip((mixer.q_conv, mixer.k_conv, mixer.v_conv), raw, rows[:3], strict=True):
            self._parts.conv(conv, x, y, place)
            place = place.behind(conv.state_bytes)
        self._inputs(mixer, rows, beta)
        self._delta_rule(mixer, rows, beta, place)
        norm = GatedNorm(mixer.output_norm, mixer.heads, silu=False)
        return self._parts.gated_norm(norm, rows.y, gate, mixer.output)

    def _project(self, x: MatmulInput, projection: Linear, y: Buffer) -> None:
        """The second matrix of a low-rank projection: y = projection(x)."""
        self._ops.quantize(x, [projection])
        self._ops.linear(x, (projection, y))

    def _inputs(self, mixer: KimiDelta, rows: _Rows, beta: Buffer) -> None:
        arguments = records.ChannelDeltaInputsOp(
            q=rows.q,
            k=rows.k,
            decay=rows.decay,
            decayed_k=rows.decayed_k,
            row_bytes=rows.q.row_bytes,
            heads=mixer.heads,
            head_dim=mixer.head_dim,
            eps=_EPS,
            a=mixer.a,
            dt_bias=mixer.dt_bias,
            **rows_of(beta=beta),
        )
        self._ops.add("channel_delta_inputs", arguments, per_row=mixer.heads + -(-mixer.heads // 16))

    def _delta_rule(self, mixer: KimiDelta, rows: _Rows, beta: Buffer, place: StatePlace) -> None:
        arguments = records.ChannelDeltaRuleOp(
            **rows._asdict(),
            row_bytes=rows.q.row_bytes,
            heads=mixer.heads,
            head_dim=mixer.head_dim,
            **rows_of(beta=beta),
            **place.words,
        )
        self._ops.add("channel_delta_rule", arguments, units=mixer.heads * -(-mixer.head_dim // STATE_COLUMNS))
