"""From the blocks of a description to dispatches.

For few rows (decode) products are matrix × vector, with the norm before and SwiGLU behind them in the same dispatch;
for many rows (prefill) they are matrix × matrix, and norms and SwiGLU are on their own. For a token a layer takes five
dispatches, and one more where its sequence is so long that spans of it are shared out.

A GPU does not take over the CPU's list of ops: what that one fuses (quantized activations, meetings of threads) is
not what saves time here, and a block says in a few tensors what its ops say in many.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

from edgellm.arch.description import Description
from edgellm.engine.webgpu.blocks import GPUAttention, GPUFeedForward, GPUHead
from edgellm.engine.webgpu.gpu import GPU, Buffer, Dispatch, Grid
from edgellm.engine.webgpu.rows import QUERIES, SIDE
from edgellm.engine.webgpu.scratch import Scratch
from edgellm.engine.webgpu.shaders import Constant, shader
from edgellm.engine.webgpu.weights import Matrix, Piece
from kquants import QUANTIZED_FORMATS

Rows = Literal["single", "few", "many"]
"""What dispatches are for: few rows, each of a sequence of its own; few rows; any number of them."""

FEW_ROWS = 4
"""Up to so many rows, reading the weights once for each is less work than unpacking them into tiles."""

_TILE, _LANES, _SQUARE_LANES = 4, 64, 128


class Run(NamedTuple):
    """What one dispatch makes: rows of y from `first` on, and the pieces of matrices that it reads."""

    first: int
    rows: int
    pieces: list[tuple[Matrix, Piece]]


class Lowering:
    """Makes the steps of blocks on a GPU, from matrices that were uploaded and KV cells of a type."""

    def __init__(self, gpu: GPU, model: Description, scratch: Scratch, kv_type: str) -> None:
        self.gpu, self.model, self.scratch, self.kv_type = gpu, model, scratch, kv_type
        self._lanes = "lanes_subgroup" if "subgroups" in gpu.features else "lanes_tree"

    def mixer(self, block: GPUAttention, cells: Buffer, rows: Rows) -> list[Dispatch]:
        """x += output(attention(norm(x))), with keys and values in `cells`."""
        s, w, few = self.scratch, self.scratch.widths, rows != "many"
        return [
            *self.product(few, block.qkv, s.x, s.qkv, w.x, w.qkv, norm=block.norm, bias=block.qkv_bias),
            *self.attention(block, cells, rows == "single"),
            *self.product(few, block.output, s.mixed, s.x, w.mixed, w.x, bias=block.output_bias, added=True),
        ]

    def feed_forward(self, block: GPUFeedForward, rows: Rows) -> list[Dispatch]:
        """x += down(silu(gate(norm(x))) · up(norm(x)))."""
        s, w, (gate, up), few = self.scratch, self.scratch.widths, block.gate_up, rows != "many"
        if few and not block.gate_up_bias:
            steps = self.matvec(block.gate_up, s.x, s.gate, w.x, w.gate, norm=block.norm, gated=True)
        else:
            gate_bias, up_bias = block.gate_up_bias or (None, None)
            again = (s.x, block.norm) if few else (s.normed, None)  # for many rows the norm is there already
            steps = [
                *self.product(few, [gate], s.x, s.gate, w.x, w.gate, norm=block.norm, bias=gate_bias),
                *self.product(few, [up], again[0], s.up, w.x, w.gate, norm=again[1], bias=up_bias),
                self.swiglu(),
            ]
        down = self.product(few, block.down, s.gate, s.x, w.gate, w.x, bias=block.down_bias, added=True)
        return [*steps, *down]

    def head(self, block: GPUHead, rows: Rows) -> list[Dispatch]:
        """The logits of those rows for which they are wanted."""
        s, w = self.scratch, self.scratch.widths
        return self.product(
            rows != "many", block.output, s.x, s.logits, w.x, self.model.vocab, norm=block.norm, gathered=True
        )

    def product(
        self,
        few: bool,
        matrices: Sequence[Matrix],
        x: Buffer,
        y: Buffer,
        x_width: int,
        y_width: int,
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
            return self.matvec(matrices, x, y, x_width, y_width, norm=norm, bias=bias, **kept)
        first = [] if norm is None else [self.norm(norm, gathered)]
        x = x if norm is None else self.scratch.normed
        return [*first, *self.matmul(matrices, x, y, x_width, y_width, bias=bias, added=added, counted=gathered)]

    def matvec(
        self,
        matrices: Sequence[Matrix],
        x: Buffer,
        y: Buffer,
        x_width: int,
        y_width: int,
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
        buffers = [s.batch, x, norm or s.nothing, bias or s.nothing, y]
        return [
            self.dispatch(
                "matvec",
                constants,
                [self._shape(run, x_width, y_width), *buffers, *(piece.buffer for _, piece in run.pieces)],
                (-(-run.rows // _TILE), rows, 1),
                formats=[matrix.format for matrix, _ in run.pieces],
            )
            for run in _runs(matrices, gated=gated)
        ]

    def matmul(
        self,
        matrices: Sequence[Matrix],
        x: Buffer,
        y: Buffer,
        x_width: int,
        y_width: int,
        *,
        bias: Buffer | None = None,
        added: bool = False,
        counted: bool = False,
    ) -> list[Dispatch]:
        """Matrix × matrix; several matrices are below each other. Where it pays, quantized ones are as integers."""
        runs = list(_runs(matrices, together=False))
        packed = [self._packs(run) for run in runs]
        first = [self.quantize(x, x_width)] if any(packed) else []
        flags: dict[str, Constant] = {"BIASED": bias is not None, "ADDED": added, "COUNT": int(counted)}
        s, squares = self.scratch, "output squares" if counted else "squares"
        products = [
            self.dispatch(
                "matmul_packed" if packs else "matmul",
                flags if packs else flags | {"W_TYPE": self._tile_type(run)},
                [
                    *[self._shape(run, x_width, y_width), s.batch],
                    *([s.packed, s.scales] if packs else [x]),
                    *[bias or s.nothing, y, run.pieces[0][1].buffer],
                ],
                (-(-run.rows // SIDE), squares, 1),
                ["square"],
                formats=[run.pieces[0][0].format],
                lanes=_SQUARE_LANES,
            )
            for run, packs in zip(runs, packed, strict=True)
        ]
        return first + products

    def quantize(self, x: Buffer, x_width: int) -> Dispatch:
        """x as int8, for products of quantized weights."""
        s = self.scratch
        grid = (-(-x_width // (32 * _LANES)), "rows", 1)
        return self.dispatch("quantize", {"X_QUADS": x_width // 4}, [x, s.packed, s.scales], grid)

    def _packs(self, run: Run) -> bool:
        """Whether a product is made of packed integers."""
        return "packed dot" in self.gpu.features and run.pieces[0][0].format in QUANTIZED_FORMATS

    def _tile_type(self, run: Run) -> str:
        """How unpacked weights wait in workgroup memory: weights of few bits lose nothing that counts as f16."""
        return "f16" if "f16" in self.gpu.features and run.pieces[0][0].format in QUANTIZED_FORMATS else "f32"

    def _shape(self, run: Run, x_width: int, y_width: int) -> Buffer:
        """What `shaders/shape.wgsl` says."""
        below = list(accumulate(piece.rows for _, piece in run.pieces))
        columns = run.pieces[0][0].columns
        return self.gpu.uniform([run.rows, run.first, columns, x_width // 4, y_width, *[*below, 0, 0][:2], 0])

    def norm(self, weight: Buffer, gathered: bool = False) -> Dispatch:
        """RMSNorm of x."""
        s, model = self.scratch, self.model
        constants: dict[str, Constant] = {
            "COLUMNS": model.width,
            "X_QUADS": s.widths.x // 4,
            "EPS": model.eps,
            "GATHERED": gathered,
        }
        grid = ("outputs" if gathered else "rows", 1, 1)
        return self.dispatch("rms_norm", constants, [s.batch, s.x, weight, s.normed], grid)

    def swiglu(self) -> Dispatch:
        """gate = silu(gate) · up."""
        s = self.scratch
        quads = s.widths.gate // 4
        return self.dispatch("swiglu", {"QUADS": quads}, [s.gate, s.up], (-(-quads // _LANES), "rows", 1))

    def attention(self, block: GPUAttention, cells: Buffer, single: bool) -> list[Dispatch]:
        """Norms of heads, RoPE, keys and values into their cells; attention; the merging of spans if there are several.

        `single`: each row is the only one of its sequence; then the first two are one.
        """
        s, model = self.scratch, self.model
        group, quads = model.heads // model.kv_heads, model.head_dim // 4
        heads: dict[str, Constant] = {
            "HEADS": model.heads,
            "KV_HEADS": model.kv_heads,
            "HEAD_DIM": model.head_dim,
            "QKV_STRIDE": s.widths.qkv,
            "MIXED_STRIDE": s.widths.mixed,
        }
        prepared: dict[str, Constant] = {
            "ROPE_DIM": 2 * len(model.rope.frequencies),
            "HALVES": model.rope.halves,
            "HEAD_NORMS": block.head_norms is not None,
            "EPS": model.eps,
        }
        subsets = next(n for n in (8, 4, 2, 1) if n * quads <= _LANES)
        attended: dict[str, Constant] = {"SCALE": model.head_dim**-0.5, "SUBSETS": subsets}
        load, store = [f"cells_{self.kv_type}"], [f"store_{self.kv_type}", "heads"]
        taken, made = [s.batch, s.tables, s.rotations, block.head_norms or s.nothing, s.qkv, cells], [s.mixed, s.parts]
        grid = ("tiles", model.kv_heads * -(-group // min(group, QUERIES)), "spans")
        merge = self.dispatch("merge", heads, [s.batch, s.parts, s.mixed], (model.heads, "merged rows", 1))
        if single:
            told, files = heads | prepared | attended, [*load, *store, "attend"]
            return [self.dispatch("attention_single", told, [*taken, *made], grid, files), merge]
        each_head = (model.heads + 2 * model.kv_heads, "rows", 1)
        return [
            self.dispatch("prepare", heads | prepared, taken, each_head, [*load, *store]),
            self.dispatch(
                "attention", heads | attended, [s.batch, s.tables, s.qkv, cells, *made], grid, [*load, "attend"]
            ),
            merge,
        ]

    def dispatch(
        self,
        name: str,
        constants: Mapping[str, Constant],
        buffers: Sequence[Buffer],
        grid: Grid,
        files: Sequence[str] = (),
        *,
        formats: Sequence[str] = (),
        lanes: int = _LANES,
    ) -> Dispatch:
        """A dispatch of the shader `name`; the buffers of weights, of these formats, come last."""
        enable = ["f16"] if "f16" in constants.values() else []
        parts = ["batch", self._lanes, *files, name]
        source = shader(parts, {"LANES": lanes, **constants}, formats, len(buffers) - len(formats), enable)
        return self.gpu.dispatch(source, buffers, grid)


def _runs(matrices: Sequence[Matrix], *, gated: bool = False, together: bool = True) -> Iterator[Run]:
    """The runs of matrices below each other; `together`: those of one piece each are read by one dispatch.

    `gated`: of a gate and an up projection, which are beside each other and cut alike.
    """
    if gated:
        gate, up = matrices
        for of_gate, of_up in zip(gate.pieces, up.pieces, strict=True):
            yield Run(of_gate.first, of_gate.rows, [(gate, of_gate), (up, of_up)])
    elif together and all(len(matrix.pieces) == 1 for matrix in matrices):
        yield Run(0, sum(matrix.rows for matrix in matrices), [(matrix, matrix.pieces[0]) for matrix in matrices])
    else:
        first = 0
        for matrix in matrices:
            for piece in matrix.pieces:
                yield Run(first + piece.first, piece.rows, [(matrix, piece)])
            first += matrix.rows
