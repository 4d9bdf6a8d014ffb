"""The ops of Kimi delta attention."""

from edgellm.arch.blocks import Linear
from edgellm.arch.recurrent import KimiDelta
from edgellm.engine.activations import MatmulInput, float_buffer
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer
from edgellm.engine.recurrent_parts import RecurrentParts, StatePlace
from kquants import records

_EPS = 1e-6
"""The epsilon of the unit length of q and k, in the models' own code and in transformers; GGUF has no key for it."""


class KimiDeltaOps:
    """Appends the ops of layers of Kimi delta attention to a program."""

    def __init__(self, ops: OpWriter) -> None:
        self._ops, self._parts = ops, RecurrentParts(ops)

    def compute(self, mixer: KimiDelta, h: MatmulInput, place: StatePlace) -> MatmulInput:
        """What the layer's output matrix reads; see `edgellm.engine.recurrent_ops.RecurrentOps.compute`."""
        width = mixer.width
        raw = [float_buffer(f"conv_input_{each}", width) for each in "qkv"]
        q, k, v = (float_buffer(f"recurrent_{each}", width) for each in "qkv")
        decay, gate, y = (float_buffer(name, width) for name in ("decay", "z", "y"))
        beta, result = float_buffer("beta", mixer.heads), MatmulInput.named("recurrent", width)
        decay_a, gate_a = (MatmulInput.named(name, mixer.head_dim) for name in ("decay_a", "gate_a"))
        projections = zip((mixer.q, mixer.k, mixer.v), raw, strict=True)
        low_rank = (mixer.decay_a, decay_a.f32), (mixer.gate_a, gate_a.f32)
        self._ops.linear(h, *projections, *low_rank, (mixer.beta, beta))
        self._project(decay_a, mixer.decay_b, decay)
        self._project(gate_a, mixer.gate_b, gate)
        for conv, x, to in zip((mixer.q_conv, mixer.k_conv, mixer.v_conv), raw, (q, k, v), strict=True):
            self._parts.conv(conv, x, to, place)
            place = place.behind(conv.state_bytes)
        self._inputs(mixer, q, k, decay, beta)
        self._delta_rule(mixer, (q, k, v, decay, y), beta, place)
        self._parts.gated_norm(mixer.output_norm, mixer.heads, y, gate, result, mixer.output, silu=False)
        return result

    def _project(self, x: MatmulInput, projection: Linear, y: Buffer) -> None:
        """The second half of a low-rank projection."""
        self._ops.quantize(x, [projection])
        self._ops.linear(x, (projection, y))

    def _inputs(self, mixer: KimiDelta, q: Buffer, k: Buffer, decay: Buffer, beta: Buffer) -> None:
        arguments = records.ChannelDeltaInputsOp(
            q=q,
            k=k,
            decay=decay,
            row_bytes=q.row_bytes,
            heads=mixer.heads,
            head_dim=mixer.head_dim,
            eps=_EPS,
            a=mixer.a,
            dt_bias=mixer.dt_bias,
            beta=beta,
            beta_bytes=beta.row_bytes,
        )
        self._ops.add("channel_delta_inputs", arguments, per_row=1)

    def _delta_rule(self, mixer: KimiDelta, rows: tuple[Buffer, ...], beta: Buffer, place: StatePlace) -> None:
        """Reads the rows of q, k, v and of decays, and writes the last of `rows`, y."""
        q, k, v, decay, y = rows
        arguments = records.ChannelDeltaRuleOp(
            q=q,
            k=k,
            v=v,
            decay=decay,
            y=y,
            row_bytes=q.row_bytes,
            heads=mixer.heads,
            head_dim=mixer.head_dim,
            beta=beta,
            beta_bytes=beta.row_bytes,
            state_group=place.group,
            state_offset=place.offset,
        )
        self._ops.need_scratch(64 * mixer.head_dim)
        self._ops.add("channel_delta_rule", arguments, units=mixer.width // 16)
