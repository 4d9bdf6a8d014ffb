"""The ops of recurrent layers."""

from typing import Any

from edgellm.arch.blocks import Linear
from edgellm.arch.kimi_delta import KimiDelta
from edgellm.arch.mamba1 import Mamba1
from edgellm.arch.recurrent import GatedDeltaNet, Mamba2, Recurrent, ShortConv
from edgellm.engine.activations import MatmulInput, float_buffer
from edgellm.engine.kimi_delta_ops import KimiDeltaOps
from edgellm.engine.mamba1_ops import Mamba1Ops
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer
from edgellm.engine.recurrent_parts import GatedNorm, RecurrentParts, StatePlace, rows_of
from kquants import records
from kquants.layout import STATE_COLUMNS


class StateLayout:
    """The places of the layers' states in the state pages, of which each has `page_bytes` bytes."""

    def __init__(self, group: int) -> None:
        self._group, self.page_bytes = group, 0

    def place(self, mixer: Recurrent) -> StatePlace:
        """The place of a layer's state, behind those of earlier layers."""
        place = StatePlace(self._group, self.page_bytes)
        self.page_bytes += mixer.state_bytes
        return place


class RecurrentOps:
    """Appends the ops of recurrent layers to a program."""

    def __init__(self, ops: OpWriter) -> None:
        self._ops, self._parts = ops, RecurrentParts(ops)
        self._kimi_delta, self._mamba1 = KimiDeltaOps(ops), Mamba1Ops(ops)

    def compute(self, mixer: Recurrent, h: MatmulInput, place: StatePlace) -> MatmulInput:
        """The result of a mixer, in the forms that its output matrix reads; h in those that `inputs_of(mixer)` read."""
        match mixer:
            case GatedDeltaNet():
                return self._delta_net(mixer, h, place)
            case KimiDelta():
                return self._kimi_delta.compute(mixer, h, place)
            case Mamba1():
                return self._mamba1.compute(mixer, h, place)
            case Mamba2():
                return self._mamba2(mixer, h, place)
            case ShortConv():
                return self._short_conv(mixer, h, place)

    def _delta_net(self, mixer: GatedDeltaNet, h: MatmulInput, place: StatePlace) -> MatmulInput:
        raw, qkv = float_buffer("conv_input", mixer.qkv_width), float_buffer("qkv", mixer.qkv_width)
        z, gates = float_buffer("z", mixer.value_width), float_buffer("gates", 2 * mixer.heads)
        y = float_buffer("y", mixer.value_width)
        gate_words = self._project(mixer, h, raw, z)
        self._parts.conv(mixer.conv, raw, qkv, place)
        self._delta_inputs(mixer, qkv, gate_words, gates)
        self._delta_rule(mixer, qkv, gates, y, place.behind(mixer.conv.state_bytes))
        return self._parts.gated_norm(GatedNorm(mixer.output_norm, mixer.heads), y, z, mixer.output)

    def _project(self, mixer: GatedDeltaNet, h: MatmulInput, qkv: Buffer, z: Buffer) -> dict[str, Any]:
        """Project h to qkv, z, alpha and beta; returns the words of a DeltaInputsOp that say where the last two are."""
        own = (mixer.qkv, qkv), (mixer.z, z)
        if mixer.beta_alpha:
            both, group = float_buffer("beta_alpha", 2 * mixer.heads), mixer.heads // mixer.key_heads
            self._ops.linear(h, *own, (mixer.beta_alpha, both))
            places = {"alpha_offset": 4 * group, "group": group, "group_stride": 2 * group}
            return rows_of(alpha=both, beta=both) | places
        assert mixer.alpha and mixer.beta
        alpha, beta = float_buffer("alpha", mixer.heads), float_buffer("beta", mixer.heads)
        self._ops.linear(h, *own, (mixer.alpha, alpha), (mixer.beta, beta))
        places = {"alpha_offset": 0, "group": mixer.heads, "group_stride": mixer.heads}
        return rows_of(alpha=alpha, beta=beta) | places

    def _delta_inputs(self, mixer: GatedDeltaNet, qkv: Buffer, gate_words: dict[str, Any], gates: Buffer) -> None:
        arguments = records.DeltaInputsOp(
            **rows_of(qkv=qkv, gates=gates),
            **gate_words,
            key_heads=mixer.key_heads,
            key_dim=mixer.key_dim,
            eps=mixer.output_norm.eps,
            a=mixer.a,
            dt_bias=mixer.dt_bias,
            heads=mixer.heads,
        )
        self._ops.need_scratch(64)
        self._ops.add("delta_inputs", arguments, per_row=mixer.key_heads + -(-mixer.heads // 16))

    def _delta_rule(self, mixer: GatedDeltaNet, qkv: Buffer, gates: Buffer, y: Buffer, place: StatePlace) -> None:
        arguments = records.DeltaRuleOp(
            **rows_of(qkv=qkv, gates=gates, y=y),
            **place.words,
            key_heads=mixer.key_heads,
            heads=mixer.heads,
            key_dim=mixer.key_dim,
            value_dim=mixer.value_dim,
            grouped=int(mixer.grouped),
        )
        self._ops.add("delta_rule", arguments, units=mixer.heads * -(-mixer.value_dim // STATE_COLUMNS))

    def _mamba2(self, mixer: Mamba2, h: MatmulInput, place: StatePlace) -> MatmulInput:
        raw, xbc = float_buffer("conv_input", mixer.conv_width), float_buffer("xbc", mixer.conv_width)
        z, gates = float_buffer("z", mixer.inner_width), float_buffer("gates", 2 * mixer.heads)
        dt, y = float_buffer("dt", mixer.heads), float_buffer("y", mixer.inner_width)
        self._ops.linear(h, (mixer.xbc, raw), (mixer.z, z), (mixer.dt, dt))
        self._parts.conv(mixer.conv, raw, xbc, place)
        inputs = records.MambaInputsOp(
            **rows_of(dt=dt, gates=gates), dt_bias=mixer.dt_bias, a=mixer.a, heads=mixer.heads
        )
        self._ops.add("mamba_inputs", inputs, per_row=1, barrier=False)
        self._scan(mixer, xbc, gates, y, place.behind(mixer.conv.state_bytes))
        norm = GatedNorm(mixer.output_norm, mixer.groups, gate_first=True)
        return self._parts.gated_norm(norm, y, z, mixer.output)

    def _scan(self, mixer: Mamba2, xbc: Buffer, gates: Buffer, y: Buffer, place: StatePlace) -> None:
        arguments = records.MambaOp(
            **rows_of(xbc=xbc, gates=gates, y=y),
            **place.words,
            heads=mixer.heads,
            head_dim=mixer.head_dim,
            groups=mixer.groups,
            state_dim=mixer.state_dim,
            d=mixer.d,
        )
        self._ops.add("mamba", arguments, units=mixer.heads * -(-mixer.head_dim // STATE_COLUMNS))

    def _short_conv(self, mixer: ShortConv, h: MatmulInput, place: StatePlace) -> MatmulInput:
        b, c, x = (float_buffer(f"short_conv_{name}", mixer.conv.channels) for name in "bcx")
        result = MatmulInput.named("recurrent", mixer.conv.channels)
        self._ops.linear(h, (mixer.b, b), (mixer.c, c), (mixer.x, x))
        self._parts.conv(mixer.conv, x, result.f32, place, (b, c))
        self._ops.quantize(result, [mixer.output])
        return result


def inputs_of(mixer: Recurrent) -> list[Linear]:
    """The projections that read what the layer's norm gives."""
    given: tuple[Linear | None, ...]
    match mixer:
        case KimiDelta():
            given = (mixer.q, mixer.k, mixer.v, mixer.decay_a, mixer.gate_a, mixer.beta)
        case GatedDeltaNet():
            given = (mixer.qkv, mixer.z, mixer.alpha, mixer.beta, mixer.beta_alpha)
        case Mamba1():
            given = (mixer.x, mixer.z)
        case Mamba2():
            given = (mixer.xbc, mixer.z, mixer.dt)
        case ShortConv():
            given = (mixer.b, mixer.c, mixer.x)
    return [linear for linear in given if linear]
