"""Matrix products as dispatches, with the norms that come before them."""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from edgellm.arch.description import Description
from edgellm.engine.webgpu.adapters import PACKED_DOT
from edgellm.engine.webgpu.batch_layout import SIDE
from edgellm.engine.webgpu.commands import Buffer, Dispatch, Grid
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.scratch import Activation, Scratch
from edgellm.engine.webgpu.shaders import Constant, shader
from edgellm.engine.webgpu.weights import Matrix, MatrixSlice, Run, runs
from kquants import QUANTIZED_FORMATS

LANES = 64
"""Threads of a workgroup."""

_TILE, _SQUARE_LANES = 4, 128

_ENOUGH, _MOST_TILES = 1024, 8
"""Workgroups that keep a GPU busy: matrix × vector has several tiles in each where there are more."""


class MatmulLowering:
    """Makes dispatches on a GPU that work on the activations in `scratch`."""

    def __init__(self, gpu: GPUContext, model: Description, scratch: Scratch) -> None:
        self.gpu, self.model, self.scratch = gpu, model, scratch
        self._lanes = "lanes_subgroup" if "subgroups" in gpu.features else "lanes_tree"

    def product(
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
        """y = W norm(x) + b, or y += with `added`; several matrices are below each other.

        With `gathered` the rows are those whose logits are wanted, and there is a norm.
        """
        if few:
            kept = {"added": added, "gathered": gathered}
            return self.matvec(matrices, x, y, norm=norm, bias=bias, **kept)
        first = [] if norm is None else [self.norm(norm, gathered)]
        x = x if norm is None else self.scratch.normed
        return [*first, *self.matmul(matrices, x, y, bias=bias, added=added, counted=gathered)]

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
        """Matrix × vector; several matrices are below each other, or with `gated` beside each other."""
        constants: dict[str, Constant] = {
            "EPS": self.model.eps,
            "NORMED": norm is not None,
            "BIASED": bias is not None,
            "ADDED": added,
            "GATED": gated,
            "GATHERED": gathered,
        }
        s, rows = self.scratch, "outputs" if gathered else "rows"
        buffers = [s.batch, x.buffer, norm or s.nothing, bias or s.nothing, y.buffer]
        steps = []
        for run in runs(matrices, gated=gated):
            tiles = _tiles(run.pieces[:1] if gated else run.pieces)
            each = max(1, min(_MOST_TILES, tiles // _ENOUGH))
            packs = all(self._packs(matrix) for matrix, _ in run.pieces)
            steps.append(
                self.dispatch(
                    "matvec",
                    constants | {"EACH": each},
                    [self._shape(run, x, y), *buffers, *(piece.buffer for _, piece in run.pieces)],
                    (-(-tiles // each), rows, 1),
                    ["rounding", "x_packed"] if packs else ["x_values"],
                    formats=[matrix.format for matrix, _ in run.pieces],
                )
            )
        return steps

    def matmul(
        self,
        matrices: Sequence[Matrix],
        x: Activation,
        y: Activation,
        *,
        bias: Buffer | None = None,
        added: bool = False,
        counted: bool = False,
    ) -> list[Dispatch]:
        """Matrix × matrix; several matrices are below each other. Where it pays, quantized ones are as integers."""
        own = list(runs(matrices, together=False))
        packed = [self._packs(run.pieces[0][0]) for run in own]
        first = [self.quantize(x)] if any(packed) else []
        flags: dict[str, Constant] = {"BIASED": bias is not None, "ADDED": added, "COUNT": int(counted)}
        s, squares = self.scratch, "output squares" if counted else "squares"
        products = [
            self.dispatch(
                "matmul_packed" if packs else "matmul",
                flags if packs else flags | {"W_TYPE": self._tile_type(run)},
                [
                    *[self._shape(run, x, y), s.batch],
                    *([s.packed, s.scales] if packs else [x.buffer]),
                    *[bias or s.nothing, y.buffer, run.pieces[0][1].buffer],
                ],
                (-(-run.rows // SIDE), squares, 1),
                ["square"],
                formats=[run.pieces[0][0].format],
                lanes=_SQUARE_LANES,
            )
            for run, packs in zip(own, packed, strict=True)
        ]
        return first + products

    def quantize(self, x: Activation) -> Dispatch:
        """x as int8, for products of quantized weights."""
        s = self.scratch
        grid = (-(-x.width // (32 * LANES)), "rows", 1)
        buffers, files = [x.buffer, s.packed, s.scales], ["formats/bits", "rounding", "x_packed"]
        return self.dispatch("quantize", {"X_QUADS": x.width // 4}, buffers, grid, files)

    def _packs(self, matrix: Matrix) -> bool:
        """Whether products of a matrix are made of packed integers."""
        return PACKED_DOT in self.gpu.features and matrix.format in QUANTIZED_FORMATS

    def _tile_type(self, run: Run) -> str:
        """How unpacked weights wait in workgroup memory: weights of few bits lose nothing that counts as f16."""
        return "f16" if "f16" in self.gpu.features and run.pieces[0][0].format in QUANTIZED_FORMATS else "f32"

    def _shape(self, run: Run, x: Activation, y: Activation) -> Buffer:
        """What `shaders/shape.wgsl` says."""
        below = list(accumulate(piece.rows for _, piece in run.pieces))
        columns = run.pieces[0][0].columns
        return self.gpu.uniform([run.rows, run.first, columns, x.width // 4, y.width, *[*below, 0, 0][:2], 0])

    def norm(self, weight: Buffer, gathered: bool = False) -> Dispatch:
        """RMSNorm of x."""
        s, model = self.scratch, self.model
        constants: dict[str, Constant] = {
            "COLUMNS": model.width,
            "X_QUADS": s.x.width // 4,
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
        """A dispatch of the shader `name`; the buffers of weights, of these formats, come last."""
        enable = ["f16"] if "f16" in constants.values() else []
        parts = ["batch", self._lanes, *files, name]
        source = shader(parts, {"LANES": lanes, **constants}, formats, len(buffers) - len(formats), enable)
        return self.gpu.dispatch(source, buffers, grid)


def _tiles(pieces: Sequence[tuple[Matrix, MatrixSlice]]) -> int:
    """Tiles of matrix × vector: each has rows of one tensor."""
    return sum(-(-piece.rows // _TILE) for _, piece in pieces)
