"""The ops that several kinds of recurrent layers have: convolutions over time, and the gated norm of the result."""

from dataclasses import dataclass
from math import lcm
from typing import Any

from edgellm.arch.blocks import Linear, Norm
from edgellm.arch.recurrent_parts import Convolution
from edgellm.engine.activations import MatmulInput
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer
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

    @property
    def words(self) -> dict[str, int]:
        """The words of a record that name this place."""
        return {"state_group": self.group, "state_offset": self.offset}


@dataclass(frozen=True)
class GatedNorm:
    """norm(y) · f(z), or with `gate_first` norm(y · f(z)): each of `groups` groups of values is normed for itself.

    f is SiLU with `silu`, else the logistic function. Without `norm`, the result is y · f(z).
    """

    norm: Norm | None
    groups: int
    gate_first: bool = False
    silu: bool = True

    def words(self, width: int) -> dict[str, Any]:
        """The words of a GatedNormOp over rows of `width` values, but for the buffers."""
        group_dim, weight = width // self.groups, self.norm.weight if self.norm else None
        return {
            "weight": weight,
            "weight_stride": group_dim if weight and len(weight.shape) == 2 else 0,
            "groups": self.groups,
            "group_dim": group_dim,
            "piece": min(lcm(group_dim, X_GROUP), width),
            "eps": self.norm.eps if self.norm else 0.0,
            "gate_first": int(self.gate_first),
            "silu": int(self.silu),
        }


def rows_of(**buffers: Buffer) -> dict[str, Any]:
    """The words of a record for buffers, by name: the buffer itself, and as `…_bytes` the bytes of its rows."""
    return {**buffers, **{f"{name}_bytes": buffer.row_bytes for name, buffer in buffers.items()}}


class RecurrentParts:
    """Appends these ops to a program."""

    def __init__(self, ops: OpWriter) -> None:
        self._ops = ops

    def conv(
        self, conv: Convolution, x: Buffer, y: Buffer, place: StatePlace, gates: tuple[Buffer, Buffer] | None = None
    ) -> None:
        """y = silu(conv(x)), or with `gates` (b, c) y = c · conv(b · x); see `kquants.records.ConvOp`."""
        factor, gate = gates or (None, None)
        arguments = records.ConvOp(
            **rows_of(x=x, y=y),
            channels=conv.channels,
            taps=conv.taps,
            weight=conv.weight,
            bias=conv.bias,
            silu=int(gates is None),
            factor=factor,
            gate=gate,
            **place.words,
        )
        self._ops.add("conv", arguments, units=-(-conv.channels // 16))

    def gated_norm(self, form: GatedNorm, y: Buffer, z: Buffer, output: Linear) -> MatmulInput:
        """The gated norm of y and z, in the forms that `output` reads."""
        result = MatmulInput.named("recurrent", output.weight.shape[1])
        words = form.words(result.width)
        h, q8, super_q8 = self._ops.targets(result, [output])
        arguments = records.GatedNormOp(
            **rows_of(x=y, z=z), **words, h=h, h_bytes=result.f32.row_bytes, q8=q8, super_q8=super_q8
        )
        self._ops.need_scratch(result.f32.row_bytes)
        self._ops.add("gated_norm", arguments, per_row=-(-result.width // words["piece"]))
        return result
