"""The ops that several kinds of recurrent layers have: convolutions over time, and the gated norm of the result."""

from dataclasses import dataclass
from math import lcm

from edgellm.arch.blocks import Linear, Norm
from edgellm.arch.recurrent_parts import Convolution
from edgellm.engine.activations import MatmulInput
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer
from edgellm.gguf import Tensor
from kquants import records
from kquants.layout import X_GROUP


@dataclass(frozen=True)
class StatePlace:
    """Where the state of a layer lies: `offset` bytes into the state pages, which are group `group` of all pages."""

    group: int
    offset: int

    def behind(self, nbytes: int) -> "StatePlace":
        """The place `nbytes` bytes later."""
        return StatePlace(self.group, self.offset + nbytes)


class RecurrentParts:
    """Appends these ops to a program."""

    def __init__(self, ops: OpWriter) -> None:
        self._ops = ops

    def conv(
        self,
        conv: Convolution,
        x: Buffer,
        y: Buffer,
        place: StatePlace,
        *,
        silu: bool = True,
        factor: Buffer | None = None,
        gate: Buffer | None = None,
    ) -> None:
        """y = gate · f(conv(factor · x)); see `kquants.records.ConvOp`."""
        arguments = records.ConvOp(
            x=x,
            x_bytes=x.row_bytes,
            channels=conv.channels,
            taps=conv.taps,
            weight=conv.weight,
            bias=conv.bias,
            silu=int(silu),
            factor=factor,
            gate=gate,
            y=y,
            y_bytes=y.row_bytes,
            state_group=place.group,
            state_offset=place.offset,
        )
        self._ops.add("conv", arguments, units=-(-conv.channels // 16))

    def gated_norm(
        self,
        norm: Norm | None,
        groups: int,
        y: Buffer,
        z: Buffer,
        result: MatmulInput,
        output: Linear,
        *,
        gate_first: bool = False,
        silu: bool = True,
    ) -> None:
        """result = norm(y) · f(z), or with `gate_first` norm(y · f(z)), in the forms that `output` reads.

        Each of `groups` groups of values is normed for itself. f is SiLU with `silu`, else the logistic function.
        """
        h, q8, super_q8 = self._ops.targets(result, [output])
        weight: Tensor | None = norm.weight if norm else None
        group_dim = result.width // groups
        piece = min(lcm(group_dim, X_GROUP), result.width)
        arguments = records.GatedNormOp(
            x=y,
            x_bytes=y.row_bytes,
            z=z,
            z_bytes=z.row_bytes,
            weight=weight,
            weight_stride=group_dim if weight and len(weight.shape) == 2 else 0,
            groups=groups,
            group_dim=group_dim,
            piece=piece,
            eps=norm.eps if norm else 0.0,
            gate_first=int(gate_first),
            silu=int(silu),
            h=h,
            h_bytes=result.f32.row_bytes,
            q8=q8,
            super_q8=super_q8,
        )
        self._ops.need_scratch(result.f32.row_bytes)
        self._ops.add("gated_norm", arguments, per_row=-(-result.width // piece))
