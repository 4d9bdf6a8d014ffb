"""The ops of Mamba-1 layers."""

from math import gcd

from edgellm.arch.mamba1 import Mamba1
from edgellm.engine.activations import MatmulInput, float_buffer
from edgellm.engine.norm_ops import NormOps
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer
from edgellm.engine.recurrent_parts import GatedNorm, RecurrentParts, StatePlace, rows_of
from kquants import records
from kquants.layout import STATE_COLUMNS, X_GROUP


class Mamba1Ops:
    """Appends the ops of Mamba-1 layers to a program."""

    def __init__(self, ops: OpWriter) -> None:
        self._ops, self._norms, self._parts = ops, NormOps(ops), RecurrentParts(ops)

    def compute(self, mixer: Mamba1, h: MatmulInput, place: StatePlace) -> MatmulInput:
        """What the layer's output matrix reads; see `edgellm.engine.recurrent_ops.RecurrentOps.compute`."""
        raw, z, y = (float_buffer(name, mixer.width) for name in ("conv_input", "z", "y"))
        u = MatmulInput.named("conv_result", mixer.width)
        self._ops.linear(h, (mixer.x, raw), (mixer.z, z))
        self._parts.conv(mixer.conv, raw, u.f32, place)
        self._ops.quantize(u, [mixer.step_a, mixer.bc])
        self._scan(mixer, u.f32, *self._scan_inputs(mixer, u), y, place.behind(mixer.conv.state_bytes))
        # Without a norm the groups may be any: these give each row as many units as there are pieces to quantize.
        groups = mixer.width // gcd(mixer.width, X_GROUP)
        return self._parts.gated_norm(GatedNorm(None, groups), y, z, mixer.output)

    def _scan_inputs(self, mixer: Mamba1, u: MatmulInput) -> tuple[Buffer, Buffer]:
        """(the step of each channel before its bias, [B | C])."""
        values, bc = MatmulInput.named("step_values", mixer.step_rank), float_buffer("bc", 2 * mixer.state_dim)
        step = float_buffer("step", mixer.width)
        self._ops.linear(u, (mixer.step_a, values.f32), (mixer.bc, bc))
        if mixer.inner_norm:
            self._norms.norm(values.f32, mixer.inner_norm, values, [mixer.step_b])
            self._norms.norm_heads(bc, mixer.inner_norm, 2, mixer.state_dim, barrier=False)
        else:
            self._ops.quantize(values, [mixer.step_b])
        self._ops.linear(values, (mixer.step_b, step))
        return step, bc

    def _scan(self, mixer: Mamba1, x: Buffer, dt: Buffer, bc: Buffer, y: Buffer, place: StatePlace) -> None:
        arguments = records.SelectiveScanOp(
            **rows_of(x=x, bc=bc, dt=dt, y=y),
            **place.words,
            channels=mixer.width,
            state_dim=mixer.state_dim,
            dt_bias=mixer.dt_bias,
            a=mixer.a,
            d=mixer.d,
        )
        self._ops.need_scratch(4 * STATE_COLUMNS * mixer.state_dim)
        self._ops.add("selective_scan", arguments, units=-(-mixer.width // STATE_COLUMNS))
