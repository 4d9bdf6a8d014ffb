"""Matmuls as dispatches, with the norms before them: matrix × vector for few rows, matrix × matrix for many."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from edgellm.arch.description import Description
from edgellm.engine.webgpu.adapters import PACKED_DOT
from edgellm.engine.webgpu.batch_layout import SIDE
from edgellm.engine.webgpu.commands import Buffer, Dispatch, Grid
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.scratch import Activation, Scratch
from edgellm.engine.webgpu.shaders import Constant, shader
from edgellm.engine.webgpu.weights import MatmulRun, Matrix, MatrixSlice, matmul_runs
from kquants import QUANTIZED_FORMATS

LANES = 64
"""Threads of a workgroup."""

_TILE, _MATMUL_LANES = 4, 128
"""Rows of W of a tile of matrix × vector, and threads of a workgroup of matrix × matrix."""

_BUSY_WORKGROUPS, _MAX_TILES = 1024, 8
"""Workgroups that keep a GPU busy; if matrix × vector has more tiles, a workgroup has several, up to the latter."""


class MatmulLowering:
    """Makes dispatches of matmuls and norms on the activations in `scratch`."""

    def __init__(self, gpu: GPUContext, model: Description, scratch: Scratch) -> None:
        self._gpu, self._model, self._scratch = gpu, model, scratch
        self._lanes = "lanes_subgroup" if "subgroups" in gpu.features else "lanes_tree"

    def linear(
        self,
        few: bool,
        matrices: Sequence[Matrix],
        x: Activation,
        y: Activation,
        *,
        norm: Buffer | None = None,
        bias: Buffer | None = None,
        added: bool = False,
        gathered: bool = False,
    ) -> list[Dispatch]:
        """y = W norm(x) + b, or with `added` y += W norm(x) + b, where W stacks the matrices.

        With `gathered` the rows are those whose logits are wanted, and there must be a norm.
        """
        if few:
            return self.matvec(matrices, x, y, norm=norm, bias=bias, added=added, gathered=gathered)
        first = [] if norm is None else [self._norm(norm, gathered)]
        x = x if norm is None else self._scratch.normed
        return [*first, *self._matmul(matrices, x, y, bias=bias, added=added, counted=gathered)]

    def matvec(
        self,
        matrices: Sequence[Matrix],
        x: Activation,
        y: Activation,
        *,
        norm: Buffer | None = None,
        bias: Buffer | None = None,
        added: bool = False,
        gated: bool = False,
        gathered: bool = False,
    ) -> list[Dispatch]:
        """Matrix × vector for each row, as `linear`; with `gated` y = silu(gate norm(x)) · (up norm(x))."""
        constants: dict[str, Constant] = {
            "EPS": self._model.eps,
            "NORMED": norm is not None,
            "BIASED": bias is not None,
            "ADDED": added,
            "GATED": gated,
            "GATHERED": gathered,
        }
        s, rows = self._scratch, "outputs" if gathered else "rows"
        buffers = [s.batch, x.buffer, norm or s.nothing, bias or s.nothing, y.buffer]
        steps = []
        for run in matmul_runs(matrices, gated=gated):
            tiles = _tiles(run.slices[:1] if gated else run.slices)
            each = max(1, min(_MAX_TILES, tiles // _BUSY_WORKGROUPS))
            packs = all(self._uses_packed_dot(matrix) for matrix, _ in run.slices)
            steps.append(
                self.dispatch(
                    "matvec",
                    constants | {"EACH": each},
                    [self._shape(run, x, y), *buffers, *(part.buffer for _, part in run.slices)],
                    (-(-tiles // each), rows, 1),
                    ["rounding", "x_packed"] if packs else ["x_values"],
                    formats=[matrix.format for matrix, _ in run.slices],
                )
            )
        return steps

    def _matmul(
        self,
        matrices: Sequence[Matrix],
        x: Activation,
        y: Activation,
        *,
        bias: Buffer | None = None,
        added: bool = False,
        counted: bool = False,
    ) -> list[Dispatch]:
        """Matrix × matrix; by quantized weights in integers, where the adapter has packed dot products."""
        own = list(matmul_runs(matrices, together=False))
        packed = [self._uses_packed_dot(run.slices[0][0]) for run in own]
        first = [self._quantize(x)] if any(packed) else []
        flags: dict[str, Constant] = {"BIASED": bias is not None, "ADDED": added, "COUNT": int(counted)}
        s, row_tiles = self._scratch, "output row tiles" if counted else "row tiles"
        matmuls = [
            self.dispatch(
                "matmul_packed" if packs else "matmul",
                flags if packs else flags | {"W_TYPE": self._tile_type(run)},
                [
                    *[self._shape(run, x, y), s.batch],
                    *([s.packed, s.scales] if packs else [x.buffer]),
                    *[bias or s.nothing, y.buffer, run.slices[0][1].buffer],
                ],
                (-(-run.rows // SIDE), row_tiles, 1),
                ["matmul_tile"],
                formats=[run.slices[0][0].format],
                lanes=_MATMUL_LANES,
            )
            for run, packs in zip(own, packed, strict=True)
        ]
        return first + matmuls

    def _quantize(self, x: Activation) -> Dispatch:
        """x as int8, for matmuls in integers."""
        s = self._scratch
        grid = (-(-x.width // (32 * LANES)), "rows", 1)
        buffers, files = [x.buffer, s.packed, s.scales], ["formats/bits", "rounding", "x_packed"]
        return self.dispatch("quantize", {"X_VEC4S": x.width // 4}, buffers, grid, files)

    def _uses_packed_dot(self, matrix: Matrix) -> bool:
        return PACKED_DOT in self._gpu.features and matrix.format in QUANTIZED_FORMATS

    def _tile_type(self, run: MatmulRun) -> str:
        """The type of unpacked weights in workgroup memory. float16 rounds weights of few bits by little."""
        return "f16" if "f16" in self._gpu.features and run.slices[0][0].format in QUANTIZED_FORMATS else "f32"

    def _shape(self, run: MatmulRun, x: Activation, y: Activation) -> Buffer:
        """See `shaders/shape.wgsl`."""
        below = list(accumulate(part.rows for _, part in run.slices))
        columns = run.slices[0][0].columns
        return self._gpu.uniform([run.rows, run.first, columns, x.width // 4, y.width, *[*below, 0, 0][:2], 0])

    def _norm(self, weight: Buffer, gathered: bool = False) -> Dispatch:
        """normed = RMSNorm(x)."""
        s, model = self._scratch, self._model
        constants: dict[str, Constant] = {
            "COLUMNS": model.width,
            "X_VEC4S": s.x.width // 4,
            "EPS": model.eps,
            "GATHERED": gathered,
        }
        grid = ("outputs" if gathered else "rows", 1, 1)
        return self.dispatch("rms_norm", constants, [s.batch, s.x.buffer, weight, s.normed.buffer], grid)

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


def _tiles(slices: Sequence[tuple[Matrix, MatrixSlice]]) -> int:
    """Tiles of matrix × vector: each has rows of one tensor."""
    return sum(-(-part.rows // _TILE) for _, part in slices)
