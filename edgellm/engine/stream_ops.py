"""The ops between blocks: what a block reads of the residual stream, and the sum with what it gives."""

from edgellm.arch.blocks import Linear, Norm
from edgellm.arch.description import Description
from edgellm.engine.activations import MatmulInput, StreamBuffers
from edgellm.engine.norm_ops import NormOps
from edgellm.engine.op_writer import OpWriter


class StreamOps:
    """Writes the ops that read and change x, the residual stream: float32 [rows, width]."""

    def __init__(self, model: Description, buffers: StreamBuffers, ops: OpWriter) -> None:
        self._model, self._b, self._ops = model, buffers, ops
        self._norms = NormOps(ops)

    def input(self, norm: Norm | None, projections: list[Linear], keep: bool = False) -> MatmulInput:
        """What the projections of a block read: norm(x), or x; with `keep` also as float32."""
        b = self._b
        if norm is None:
            self._ops.quantize(b.raw, projections)
            return b.raw
        self._norms.norm(b.x, norm, b.normed, projections, keep)
        return b.normed

    def add_to_x(self, h: MatmulInput, projection: Linear, post_norm: Norm | None) -> None:
        """x += residual_scale · post_norm(projection(h))."""
        ops, b, scale = self._ops, self._b, self._model.residual_scale
        if post_norm is None and scale == 1.0:
            ops.linear(h, (projection, b.x), accumulate=True)
            return
        ops.linear(h, (projection, b.result))
        if post_norm:
            self._norms.add_norm(b.x, b.result, post_norm, self._model.width, scale)
        else:
            ops.add_scaled(b.x, b.result, self._model.width, 1.0, scale)
