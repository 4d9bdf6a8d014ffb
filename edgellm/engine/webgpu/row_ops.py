"""Dispatches of shaders, and the ones that work on rows without a matrix: norms, activations, scales."""

from collections.abc import Mapping, Sequence

from edgellm.arch.blocks import Activation
from edgellm.engine.webgpu.blocks import GPUNorm
from edgellm.engine.webgpu.commands import Buffer, Dispatch, Grid, RowBuffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.scratch import Scratch
from edgellm.engine.webgpu.shaders import ACTIVATIONS, Constant, shader

LANES = 64
"""Threads of a workgroup."""


class RowOps:
    """Makes dispatches on the activations in `scratch`; hidden states have `width` values."""

    def __init__(self, gpu: GPUContext, width: int, scratch: Scratch) -> None:
        self._gpu, self._width, self._scratch = gpu, width, scratch
        self._lanes = "lanes_subgroup" if "subgroups" in gpu.features else "lanes_tree"

    def dispatch(
        self,
        name: str,
        constants: Mapping[str, Constant],
        buffers: Sequence[Buffer],
        grid: Grid,
        files: Sequence[str] = (),
        *,
        formats: Sequence[str] = (),
        lanes: int = LANES,
    ) -> Dispatch:
        """A dispatch of the shader `name`, whose last buffers are weights of the given formats."""
        enable = ["f16"] if "f16" in constants.values() else []
        parts = ["batch", self._lanes, *files, name]
        source = shader(parts, {"LANES": lanes, **constants}, formats, len(buffers) - len(formats), enable)
        return self._gpu.dispatch(source, buffers, grid)

    def norm(self, norm: GPUNorm, gathered: bool) -> Dispatch:
        """normed = norm(x); with `gathered` of the rows whose logits are wanted."""
        s, grid = self._scratch, ("outputs" if gathered else "rows", 1, 1)
        flags = {"GATHERED": gathered, "LAYER": norm.is_layer, "BIASED": norm.bias is not None}
        buffers = [s.batches[0], s.x.buffer, norm.weight, norm.bias or s.nothing, s.normed.buffer]
        return self.dispatch("norm", self._norm_constants(norm) | flags, buffers, grid)

    def add_norm(self, y: RowBuffer, norm: GPUNorm, factor: float) -> Dispatch:
        """x += factor · RMSNorm(y)."""
        constants = self._norm_constants(norm) | {"FACTOR": factor}
        return self.dispatch("add_norm", constants, [y.buffer, norm.weight, self._scratch.x.buffer], ("rows", 1, 1))

    def scale(self, factor: float) -> Dispatch:
        """x = factor · x."""
        x = self._scratch.x
        constants, grid = {"X_VEC4S": x.width // 4, "FACTOR": factor}, (-(-x.width // (4 * LANES)), "rows", 1)
        return self.dispatch("scale", constants, [x.buffer], grid)

    def _norm_constants(self, norm: GPUNorm) -> dict[str, Constant]:
        return {"COLUMNS": self._width, "X_VEC4S": self._scratch.x.width // 4, "EPS": norm.eps}

    def activate(
        self,
        activation: Activation,
        gate: RowBuffer,
        up: RowBuffer | None,
        parameters: Sequence[float] = (),
        rows: str = "rows",
    ) -> Dispatch:
        """gate = f(gate) · up, or f(gate); `rows` names the number of rows."""
        if activation is not Activation.CLAMPED_SWIGLU:
            return self.activate_by(ACTIVATIONS[activation], gate, up, rows)
        assert up, "a clamped SwiGLU has a gate"
        vec4s, (limit, alpha) = gate.width // 4, parameters
        grid, constants = (-(-vec4s // LANES), rows, 1), {"VEC4S": vec4s, "LIMIT": limit, "ALPHA": alpha}
        return self.dispatch("clamped_swiglu", constants, [gate.buffer, up.buffer], grid)

    def activate_by(self, function: str, gate: RowBuffer, up: RowBuffer | None, rows: str = "rows") -> Dispatch:
        """gate = f(gate) · up, or f(gate); `function` is the file of f."""
        vec4s, buffers = gate.width // 4, [gate.buffer, up.buffer if up else self._scratch.nothing]
        constants, grid = {"VEC4S": vec4s, "GATED": up is not None}, (-(-vec4s // LANES), rows, 1)
        return self.dispatch("activation", constants, buffers, grid, [function])

    def gate_rows(self, h: RowBuffer, gate: RowBuffer) -> Dispatch:
        """h = sigmoid(gate) · h, with one gate for a row."""
        vec4s = h.width // 4
        grid = (-(-vec4s // LANES), "rows", 1)
        return self.dispatch("gate_rows", {"VEC4S": vec4s}, [h.buffer, gate.buffer], grid)
