"""The ops of norms: of rows, behind a block, of heads."""

from collections.abc import Sequence

from edgellm.arch.blocks import Linear, Norm, NormKind
from edgellm.engine.activations import MatmulInput
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer
from kquants import records


def _norm_kernel(norm: Norm) -> str:
    return "rms_norm" if norm.kind is NormKind.RMS else "layer_norm"


class NormOps:
    """Appends the ops of norms to a program."""

    def __init__(self, ops: OpWriter) -> None:
        self._ops = ops

    def norm(self, x: Buffer, norm: Norm, h: MatmulInput, projections: Sequence[Linear], keep: bool = False) -> None:
        """h = norm(x), in the forms that the projections read; with `keep` also as float32."""
        f32, q8, super_q8 = self._ops.targets(h, projections)
        self._ops.need_scratch(h.f32.row_bytes)  # h passes through scratch where no projection reads it as float32
        self._norm(x, norm, h.width, h.f32 if keep else f32, h.f32.row_bytes, q8, super_q8)

    def norm_in_place(self, x: Buffer, norm: Norm, width: int, barrier: bool = True) -> None:
        """x = norm(x) of the first `width` values of a row."""
        self._norm(x, norm, width, x, x.row_bytes, None, None, barrier)

    def _norm(
        self,
        x: Buffer,
        norm: Norm,
        n: int,
        h: Buffer | None,
        h_bytes: int,
        q8: Buffer | None,
        super_q8: Buffer | None,
        barrier: bool = True,
    ) -> None:
        arguments = records.NormOp(
            x=x,
            x_bytes=x.row_bytes,
            weight=norm.weight,
            bias=norm.bias,
            n=n,
            eps=norm.eps,
            h=h,
            h_bytes=h_bytes,
            q8=q8,
            super_q8=super_q8,
        )
        self._ops.add(_norm_kernel(norm), arguments, per_row=1, barrier=barrier)

    def add_norm(self, x: Buffer, y: Buffer, norm: Norm, width: int, scale: float, barrier: bool = True) -> None:
        """x += scale · norm(y)."""
        arguments = records.AddNormOp(
            x=x,
            x_bytes=x.row_bytes,
            y=y,
            y_bytes=y.row_bytes,
            weight=norm.weight,
            bias=norm.bias,
            n=width,
            eps=norm.eps,
            scale=scale,
        )
        self._ops.add(f"add_{_norm_kernel(norm)}", arguments, per_row=1, barrier=barrier)

    def norm_heads(
        self, x: Buffer, norm: Norm, heads: int, head_dim: int, y: Buffer | None = None, barrier: bool = True
    ) -> None:
        """The norm of each head of x, to y, or in place; one norm of all heads where the weight is as long."""
        shape = norm.weight.shape if norm.weight else (head_dim,)
        if shape == (heads * head_dim,):
            heads, head_dim = 1, heads * head_dim
        y = y or x
        arguments = records.HeadNormOp(
            x=x,
            x_bytes=x.row_bytes,
            y=y,
            y_bytes=y.row_bytes,
            weight=norm.weight,
            weight_stride=head_dim if len(shape) == 2 else 0,
            head_dim=head_dim,
            heads=heads,
            eps=norm.eps,
        )
        kernel = "norm_heads" if norm.kind is NormKind.RMS else "layer_norm_heads"
        self._ops.add(kernel, arguments, per_row=1, barrier=barrier)
