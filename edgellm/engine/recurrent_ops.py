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
from edgellm.engine.recurrent_parts import RecurrentParts, StatePlace
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
        """What the layer's output matrix reads; h is in the forms that `inputs_of` the mixer read."""
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
        alpha, beta = float_buffer("alpha", mixer.heads), float_buffer("beta", mixer.heads)
        y, result = float_buffer("y", mixer.value_width), MatmulInput.named("recurrent", mixer.value_width)
        per_key_head = mixer.heads // mixer.key_heads
        if mixer.beta_alpha:
            both = float_buffer("beta_alpha", 2 * mixer.heads)
            self._ops.linear(h, (mixer.qkv, raw), (mixer.z, z), (mixer.beta_alpha, both))
            read = _gate_words(both, both, per_key_head, 2 * per_key_head, alpha_offset=4 * per_key_head)
        else:
            assert mixer.alpha and mixer.beta
            self._ops.linear(h, (mixer.qkv, raw), (mixer.z, z), (mixer.alpha, alpha), (mixer.beta, beta))
            read = _gate_words(alpha, beta, mixer.heads, mixer.heads)
        self._parts.conv(mixer.conv, raw, qkv, place)
        self._delta_inputs(mixer, qkv, read, gates)
        self._delta_rule(mixer, qkv, gates, y, place.behind(mixer.conv.state_bytes))
        self._parts.gated_norm(mixer.output_norm, mixer.heads, y, z, result, mixer.output)
        return result

    def _delta_inputs(self, mixer: GatedDeltaNet, qkv: Buffer, read: dict[str, Any], gates: Buffer) -> None:
        arguments = records.DeltaInputsOp(
            qkv=qkv,
            qkv_bytes=qkv.row_bytes,
            key_heads=mixer.key_heads,
            key_dim=mixer.key_dim,
            eps=mixer.output_norm.eps,
            **read,
            a=mixer.a,
            dt_bias=mixer.dt_bias,
            heads=mixer.heads,
            gates=gates,
            gates_bytes=gates.row_bytes,
        )
        self._ops.need_scratch(64)
        self._ops.add("delta_inputs", arguments, per_row=mixer.key_heads + -(-mixer.heads // 16))

    def _delta_rule(self, mixer: GatedDeltaNet, qkv: Buffer, gates: Buffer, y: Buffer, place: StatePlace) -> None:
        arguments = records.DeltaRuleOp(
            qkv=qkv,
            qkv_bytes=qkv.row_bytes,
            key_heads=mixer.key_heads,
            heads=mixer.heads,
            key_dim=mixer.key_dim,
            value_dim=mixer.value_dim,
            grouped=int(mixer.grouped),
            gates=gates,
            gates_bytes=gates.row_bytes,
            y=y,
            y_bytes=y.row_bytes,
            state_group=place.group,
            state_offset=place.offset,
        )
        self._ops.add("delta_rule", arguments, units=mixer.heads * -(-mixer.value_dim // STATE_COLUMNS))

    def _mamba2(self, mixer: Mamba2, h: MatmulInput, place: StatePlace) -> MatmulInput:
        raw, xbc = float_buffer("conv_input", mixer.conv_width), float_buffer("xbc", mixer.conv_width)
        z, gates = float_buffer("z", mixer.inner_width), float_buffer("gates", 2 * mixer.heads)
        dt, y = float_buffer("dt", mixer.heads), float_buffer("y", mixer.inner_width)
        result = MatmulInput.named("recurrent", mixer.inner_width)
        self._ops.linear(h, (mixer.xbc, raw), (mixer.z, z), (mixer.dt, dt))
        self._parts.conv(mixer.conv, raw, xbc, place)
        inputs = records.MambaInputsOp(dt, dt.row_bytes, mixer.dt_bias, mixer.a, mixer.heads, gates, gates.row_bytes)
        self._ops.add("mamba_inputs", inputs, per_row=1, barrier=False)
        self._scan(mixer, xbc, gates, y, place.behind(mixer.conv.state_bytes))
        self._parts.gated_norm(mixer.output_norm, mixer.groups, y, z, result, mixer.output, gate_first=True)
        return result

    def _scan(self, mixer: Mamba2, xbc: Buffer, gates: Buffer, y: Buffer, place: StatePlace) -> None:
        arguments = records.MambaOp(
            xbc=xbc,
            xbc_bytes=xbc.row_bytes,
            heads=mixer.heads,
            head_dim=mixer.head_dim,
            groups=mixer.groups,
            state_dim=mixer.state_dim,
            gates=gates,
            gates_bytes=gates.row_bytes,
            d=mixer.d,
            y=y,
            y_bytes=y.row_bytes,
            state_group=place.group,
            state_offset=place.offset,
        )
        self._ops.add("mamba", arguments, units=mixer.heads * -(-mixer.head_dim // STATE_COLUMNS))

    def _short_conv(self, mixer: ShortConv, h: MatmulInput, place: StatePlace) -> MatmulInput:
        b, c, x = (float_buffer(f"short_conv_{name}", mixer.conv.channels) for name in "bcx")
        result = MatmulInput.named("recurrent", mixer.conv.channels)
        self._ops.linear(h, (mixer.b, b), (mixer.c, c), (mixer.x, x))
        self._parts.conv(mixer.conv, x, result.f32, place, silu=False, factor=b, gate=c)
        self._ops.quantize(result, [mixer.output])
        return result


def _gate_words(alpha: Buffer, beta: Buffer, group: int, group_stride: int, *, alpha_offset: int = 0) -> dict[str, Any]:
    """The words of a DeltaInputsOp that say where the alpha and beta of each head are."""
    places = {"alpha": alpha, "alpha_bytes": alpha.row_bytes, "alpha_offset": alpha_offset}
    places |= {"beta": beta, "beta_bytes": beta.row_bytes}
    return places | {"group": group, "group_stride": group_stride}


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
