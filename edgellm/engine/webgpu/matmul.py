"""Matmuls as dispatches, with the norms before them: matrix × vector for few rows, matrix × matrix for many."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from edgellm.arch.blocks import Activation
from edgellm.engine.webgpu.adapters import PACKED_DOT
from edgellm.engine.webgpu.batch_layout import SIDE
from edgellm.engine.webgpu.blocks import GPUNorm
from edgellm.engine.webgpu.commands import Buffer, Dispatch, RowBuffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.row_ops import LANES, RowOps
from edgellm.engine.webgpu.scratch import Scratch
from edgellm.engine.webgpu.shaders import ACTIVATIONS, Constant
from edgellm.engine.webgpu.weights import MatmulRun, Matrix, MatrixSlice, matmul_runs
from kquants import QUANTIZED_FORMATS

MATVEC_TILE, MATMUL_LANES = 4, 128
"""Rows of W of a tile of matrix × vector, and threads of a workgroup of matrix × matrix."""

_BUSY_WORKGROUPS, _MAX_TILES = 1024, 8
"""Workgroups that keep a GPU busy; if matrix × vector has more tiles, a workgroup has several, up to the latter."""


@dataclass(frozen=True)
class Epilogue:
    """What becomes of W x: y = cap(factor · (W x + bias)), or with `added` y += that.

    `soft_cap` c of 0 is none, otherwise cap(v) = c · tanh(v / c).
    """

    bias: Buffer | None = None
    added: bool = False
    factor: float = 1.0
    soft_cap: float = 0.0

    @property
    def constants(self) -> dict[str, Constant]:
        """The constants of a shader that say so."""
        flags: dict[str, Constant] = {"BIASED": self.bias is not None, "ADDED": self.added}
        return flags | {"FACTOR": self.factor, "SOFT_CAP": self.soft_cap}


PLAIN = Epilogue()
"""y = W x."""


class MatmulLowering:
    """Makes dispatches of matmuls on the activations in `scratch`."""

    def __init__(self, gpu: GPUContext, scratch: Scratch, ops: RowOps) -> None:
        self._gpu, self._scratch, self._ops = gpu, scratch, ops

    def linear(
        self,
        few: bool,
        matrices: Sequence[Matrix],
        x: RowBuffer,
        y: RowBuffer,
        epilogue: Epilogue = PLAIN,
        *,
        norm: GPUNorm | None = None,
        gathered: bool = False,
    ) -> list[Dispatch]:
        """y = W norm(x), stored as `epilogue` says, where W stacks the matrices.

        With `gathered` the rows are those whose logits are wanted, and there must be a norm.
        """
        if few and (norm is None or norm.is_fused):
            return self.matvec(matrices, x, y, epilogue, norm=norm, gathered=gathered)
        first = [] if norm is None else [self._ops.norm(norm, gathered)]
        x = x if norm is None else self._scratch.normed
        multiply = self.matvec if few else self._matmul
        return [*first, *multiply(matrices, x, y, epilogue, counted=gathered)]

    def matvec(
        self,
        matrices: Sequence[Matrix],
        x: RowBuffer,
        y: RowBuffer,
        epilogue: Epilogue = PLAIN,
        *,
        norm: GPUNorm | None = None,
        gated: Activation | None = None,
        gathered: bool = False,
        counted: bool = False,
    ) -> list[Dispatch]:
        """Matrix × vector for each row, as `linear`; with `gated` y = f(gate norm(x)) · (up norm(x)) for f `gated`.

        With `counted` x has only the rows whose logits are wanted.
        """
        constants: dict[str, Constant] = {
            "EPS": norm.eps if norm else 0.0,
            "NORMED": norm is not None,
            "GATED": gated is not None,
            "GATHERED": gathered,
            **epilogue.constants,
        }
        s, rows = self._scratch, "outputs" if gathered or counted else "rows"
        function = ACTIVATIONS[gated or Activation.SILU]
        buffers = [s.batches[0], x.buffer, norm.weight if norm else s.nothing, epilogue.bias or s.nothing, y.buffer]
        steps = []
        for run in matmul_runs(matrices, gated=gated is not None):
            tiles = _tiles(run.slices[:1] if gated else run.slices)
            each = tiles_of_a_workgroup(tiles)
            packs = all(self.uses_packed_dot(matrix.format) for matrix, _ in run.slices)
            steps.append(
                self._ops.dispatch(
                    "matvec",
                    constants | {"EACH": each},
                    [self._shape(run, x, y), *buffers, *(part.buffer for _, part in run.slices)],
                    (-(-tiles // each), rows, 1),
                    [function, *(["rounding", "x_packed"] if packs else ["x_values"]), "one_matrix"],
                    formats=[matrix.format for matrix, _ in run.slices],
                )
            )
        return steps

    def _matmul(
        self,
        matrices: Sequence[Matrix],
        x: RowBuffer,
        y: RowBuffer,
        epilogue: Epilogue,
        *,
        counted: bool = False,
    ) -> list[Dispatch]:
        """Matrix × matrix; by quantized weights in integers, where the adapter has packed dot products."""
        own = list(matmul_runs(matrices, together=False))
        packed = [self.uses_packed_dot(run.slices[0][0].format) for run in own]
        first = [self.quantize(x)] if any(packed) else []
        flags: dict[str, Constant] = {"COUNT": int(counted), **epilogue.constants}
        s, row_tiles = self._scratch, "output row tiles" if counted else "row tiles"
        matmuls = [
            self._ops.dispatch(
                "matmul_packed" if packs else "matmul",
                flags if packs else flags | {"W_TYPE": self.tile_type(run.slices[0][0].format)},
                [
                    *[self._shape(run, x, y), s.batches[0]],
                    *([s.packed, s.scales] if packs else [x.buffer]),
                    *[epilogue.bias or s.nothing, y.buffer, run.slices[0][1].buffer],
                ],
                (-(-run.rows // SIDE), row_tiles, 1),
                ["matmul_tile", "batch_tiles"],
                formats=[run.slices[0][0].format],
                lanes=MATMUL_LANES,
            )
            for run, packs in zip(own, packed, strict=True)
        ]
        return first + matmuls

    def quantize(self, x: RowBuffer, rows: str = "rows") -> Dispatch:
        """x as int8, for matmuls in integers; `rows` names the number of its rows."""
        s = self._scratch
        grid = (-(-x.width // (32 * LANES)), rows, 1)
        buffers, files = [x.buffer, s.packed, s.scales], ["formats/bits", "rounding", "x_packed"]
        return self._ops.dispatch("quantize", {"X_VEC4S": x.width // 4}, buffers, grid, files)

    def uses_packed_dot(self, name: str) -> bool:
        """Whether weights of a format are multiplied in integers."""
        return PACKED_DOT in self._gpu.features and name in QUANTIZED_FORMATS

    def tile_type(self, name: str) -> str:
        """The type of unpacked weights in workgroup memory. float16 rounds weights of few bits by little."""
        return "f16" if "f16" in self._gpu.features and name in QUANTIZED_FORMATS else "f32"

    def _shape(self, run: MatmulRun, x: RowBuffer, y: RowBuffer) -> Buffer:
        """See `shaders/shape.wgsl`."""
        below = list(accumulate(part.rows for _, part in run.slices))
        columns = run.slices[0][0].columns
        return self._gpu.uniform([run.rows, run.first, columns, x.width // 4, y.width, *[*below, 0, 0][:2], 0])


def tiles_of_a_workgroup(tiles: int) -> int:
    """How many of `tiles` tiles of matrix × vector each workgroup computes: 1 to _MAX_TILES."""
    return max(1, min(_MAX_TILES, tiles // _BUSY_WORKGROUPS))


def _tiles(slices: Sequence[tuple[Matrix, MatrixSlice]]) -> int:
    """Tiles of matrix × vector: each has rows of one tensor."""
    return sum(-(-part.rows // MATVEC_TILE) for _, part in slices)
