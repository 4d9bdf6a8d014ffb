"""From the blocks of a description to dispatches.

A block has two lists. For few rows (decode) products are matrix × vector, with the norm before and SwiGLU behind
them in the same dispatch; for many rows (prefill) they are matrix × matrix, and norms and SwiGLU are on their own.

A GPU does not take over the CPU's list of ops: what that one fuses (quantized activations, meetings of threads) is
not what saves time here, and a block says in a few tensors what its ops say in many.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgellm.arch.description import Description
from edgellm.engine.webgpu.blocks import GPUAttention, GPUFeedForward, GPUHead
from edgellm.engine.webgpu.gpu import GPU, Buffer, Dispatch, Grid
from edgellm.engine.webgpu.rows import HEADER, MOST_SPANS, QUERIES, ROW, SIDE
from edgellm.engine.webgpu.shaders import Constant, Weights, shader
from edgellm.engine.webgpu.weights import Matrix, Piece, padded_width
from kquants.layout import PAGE

FEW_ROWS = 4
"""Up to so many rows, reading the weights once for each is less work than unpacking them into tiles."""

LOGIT_BYTES = 16 << 20
"""Logits that are made at once."""

_TILE, _LANES, _SQUARE_LANES = 4, 64, 128
_PART_BYTES = 32 << 20


@dataclass(frozen=True)
class Steps:
    """The dispatches of a block."""

    few: list[Dispatch]
    many: list[Dispatch]


class Scratch:
    """The activations of `rows` rows, and a batch of them; the same for all blocks."""

    def __init__(self, gpu: GPU, model: Description, rows: int, ctx: int, head: bool) -> None:
        self.rows = rows
        self.x_width, self.gate_width = padded_width(model.width), padded_width(model.ffn)
        self.qkv_width = (model.heads + 2 * model.kv_heads) * model.head_dim
        self.mixed_width = padded_width(model.heads * model.head_dim)
        part_bytes = MOST_SPANS * model.heads * 4 * (model.head_dim + 4)
        self.shared_rows = max(1, min(16, _PART_BYTES // part_bytes))
        self.logit_rows = max(1, min(rows, LOGIT_BYTES // (4 * model.vocab)))

        def activations(name: str, width: int) -> Buffer:
            return gpu.buffer(4 * rows * width, f"the activations {name}")

        self.batch = gpu.buffer(4 * (HEADER + ROW * rows), "a batch")
        self.tables = gpu.buffer(4 * rows * -(-ctx // PAGE), "the page tables of a batch")
        self.rotations = gpu.buffer(8 * rows * len(model.rope.frequencies), "the rotations of a batch")
        self.x, self.normed = activations("x", self.x_width), activations("normed", self.x_width)
        self.qkv = activations("qkv", self.qkv_width)
        self.mixed = activations("mixed", self.mixed_width)
        self.gate, self.up = activations("gate", self.gate_width), activations("up", self.gate_width)
        self.parts = gpu.buffer(self.shared_rows * part_bytes, "the parts of attention")
        self.logits = gpu.buffer(4 * self.logit_rows * model.vocab, "logits") if head else None
        self.nothing = gpu.buffer(16, "nothing")


class Lowering:
    """Makes the steps of blocks on a GPU, from matrices that were uploaded and KV cells of a type."""

    def __init__(self, gpu: GPU, model: Description, scratch: Scratch, kv_type: str) -> None:
        self.gpu, self.model, self.scratch, self.kv_type = gpu, model, scratch, kv_type
        self._lanes = "lanes_subgroup" if "subgroups" in gpu.features else "lanes_tree"

    def mixer(self, block: GPUAttention, cells: Buffer) -> Steps:
        """x += output(attention(norm(x))), with keys and values in `cells`."""
        s = self.scratch
        attention = [self.prepare(block, cells), *self.attention(cells)]
        few = [
            *self.matvec(block.qkv, s.x, s.qkv, s.x_width, s.qkv_width, norm=block.norm, bias=block.qkv_bias),
            *attention,
            *self.matvec(block.output, s.mixed, s.x, s.mixed_width, s.x_width, bias=block.output_bias, added=True),
        ]
        many = [
            self.norm(block.norm),
            *self.matmul(block.qkv, s.normed, s.qkv, s.x_width, s.qkv_width, bias=block.qkv_bias),
            *attention,
            *self.matmul(block.output, s.mixed, s.x, s.mixed_width, s.x_width, bias=block.output_bias, added=True),
        ]
        return Steps(few, many)

    def feed_forward(self, block: GPUFeedForward) -> Steps:
        """x += down(silu(gate(norm(x))) · up(norm(x)))."""
        s, (gate, up) = self.scratch, block.gate_up
        into, out = (s.x_width, s.gate_width), (s.gate_width, s.x_width)
        if block.gate_up_bias:
            few = [
                *self.matvec([gate], s.x, s.gate, *into, norm=block.norm, bias=block.gate_up_bias[0]),
                *self.matvec([up], s.x, s.up, *into, norm=block.norm, bias=block.gate_up_bias[1]),
                self.swiglu(),
            ]
        else:
            few = self.matvec(block.gate_up, s.x, s.gate, *into, norm=block.norm, gated=True)
        biases = block.gate_up_bias or (None, None)
        many = [
            self.norm(block.norm),
            *self.matmul([gate], s.normed, s.gate, *into, bias=biases[0]),
            *self.matmul([up], s.normed, s.up, *into, bias=biases[1]),
            self.swiglu(),
            *self.matmul(block.down, s.gate, s.x, *out, bias=block.down_bias, added=True),
        ]
        few += self.matvec(block.down, s.gate, s.x, *out, bias=block.down_bias, added=True)
        return Steps(few, many)

    def head(self, block: GPUHead) -> Steps:
        """The logits of those rows for which they are wanted."""
        s = self.scratch
        assert s.logits is not None
        few = self.matvec(block.output, s.x, s.logits, s.x_width, self.model.vocab, norm=block.norm, gathered=True)
        many = [
            self.norm(block.norm, gathered=True),
            *self.matmul(block.output, s.normed, s.logits, s.x_width, self.model.vocab, counted=True),
        ]
        return Steps(few, many)

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
            "COLUMNS": matrices[0].columns,
            "X_QUADS": x_width // 4,
            "Y_STRIDE": y_width,
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
                {**constants, "FIRST": first, "ROWS": count},
                [*buffers, *(piece.buffer for _, piece in pieces)],
                (-(-count // _TILE), rows, 1),
                weights=_as_shaders_see(pieces),
            )
            for first, count, pieces in _runs(matrices, gated)
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
        """Matrix × matrix; several matrices are below each other."""
        constants: dict[str, Constant] = {
            "COLUMNS": matrices[0].columns,
            "X_QUADS": x_width // 4,
            "Y_STRIDE": y_width,
            "BIASED": bias is not None,
            "ADDED": added,
            "COUNT": int(counted),
            "TILE_TYPE": "f32",
        }
        s, squares = self.scratch, "output squares" if counted else "squares"
        return [
            self.dispatch(
                "matmul",
                {**constants, "FIRST": first, "ROWS": count},
                [s.batch, x, bias or s.nothing, y, *(piece.buffer for _, piece in pieces)],
                (-(-count // SIDE), squares, 1),
                weights=_as_shaders_see(pieces),
                lanes=_SQUARE_LANES,
            )
            for first, count, pieces in _runs(matrices, gated=False)
        ]

    def norm(self, weight: Buffer, gathered: bool = False) -> Dispatch:
        """RMSNorm of x."""
        s, model = self.scratch, self.model
        constants: dict[str, Constant] = {
            "COLUMNS": model.width,
            "X_QUADS": s.x_width // 4,
            "EPS": model.eps,
            "GATHERED": gathered,
        }
        grid = ("outputs" if gathered else "rows", 1, 1)
        return self.dispatch("rms_norm", constants, [s.batch, s.x, weight, s.normed], grid)

    def swiglu(self) -> Dispatch:
        """gate = silu(gate) · up."""
        s = self.scratch
        quads = s.gate_width // 4
        return self.dispatch("swiglu", {"QUADS": quads}, [s.gate, s.up], (-(-quads // _LANES), "rows", 1))

    def prepare(self, block: GPUAttention, cells: Buffer) -> Dispatch:
        """Norms of heads, RoPE, and keys and values into their cells."""
        s, model = self.scratch, self.model
        constants: dict[str, Constant] = {
            **self._heads(),
            "ROPE_DIM": 2 * len(model.rope.frequencies),
            "HALVES": model.rope.halves,
            "HEAD_NORMS": block.head_norms is not None,
            "EPS": model.eps,
        }
        buffers = [s.batch, s.tables, s.rotations, block.head_norms or s.nothing, s.qkv, cells]
        files = [f"cells_{self.kv_type}", f"store_{self.kv_type}"]
        grid = (model.heads + 2 * model.kv_heads, "rows", 1)
        return self.dispatch("prepare", constants, buffers, grid, files)

    def attention(self, cells: Buffer) -> list[Dispatch]:
        """Attention, and the merging of spans where a sequence has several."""
        s, model = self.scratch, self.model
        heads = self._heads() | {"MIXED_STRIDE": s.mixed_width}
        group, quads = model.heads // model.kv_heads, model.head_dim // 4
        subsets = next(n for n in (8, 4, 2, 1) if n * quads <= _LANES)
        constants = {**heads, "SCALE": model.head_dim**-0.5, "SUBSETS": subsets}
        chunks = -(-group // min(group, QUERIES))
        buffers = [s.batch, s.tables, s.qkv, cells, s.mixed, s.parts]
        grid = ("tiles", model.kv_heads * chunks, "spans")
        return [
            self.dispatch("attention", constants, buffers, grid, [f"cells_{self.kv_type}"]),
            self.dispatch("merge", heads, [s.batch, s.parts, s.mixed], (model.heads, "merged rows", 1)),
        ]

    def _heads(self) -> dict[str, Constant]:
        model = self.model
        sizes = {"HEADS": model.heads, "KV_HEADS": model.kv_heads, "HEAD_DIM": model.head_dim}
        return {**sizes, "QKV_STRIDE": self.scratch.qkv_width}

    def dispatch(
        self,
        name: str,
        constants: Mapping[str, Constant],
        buffers: Sequence[Buffer],
        grid: Grid,
        files: Sequence[str] = (),
        *,
        weights: Sequence[Weights] = (),
        lanes: int = _LANES,
    ) -> Dispatch:
        """A dispatch of the shader `name`, whose own bindings come before those of the weights."""
        enable = ["f16"] if "f16" in constants.values() else []
        parts = ["batch", self._lanes, *files, name]
        source = shader(parts, {"LANES": lanes, **constants}, weights, len(buffers) - len(weights), enable)
        return self.gpu.dispatch(source, buffers, grid)


Pieces = list[tuple[Matrix, Piece]]


def _as_shaders_see(pieces: Pieces) -> list[Weights]:
    return [Weights(matrix.format, piece.rows, matrix.row_bytes) for matrix, piece in pieces]


def _runs(matrices: Sequence[Matrix], gated: bool) -> Iterator[tuple[int, int, Pieces]]:
    """What one dispatch makes: its first row of y, how many rows, and the pieces that it reads.

    Matrices of one piece each are read together. Of a gate and an up projection always the same rows are.
    """
    if gated:
        gate, up = matrices
        for of_gate, of_up in zip(gate.pieces, up.pieces, strict=True):
            yield of_gate.first, of_gate.rows, [(gate, of_gate), (up, of_up)]
    elif all(len(matrix.pieces) == 1 for matrix in matrices):
        yield 0, sum(matrix.rows for matrix in matrices), [(matrix, matrix.pieces[0]) for matrix in matrices]
    else:
        first = 0
        for matrix in matrices:
            for piece in matrix.pieces:
                yield first + piece.first, piece.rows, [(matrix, piece)]
            first += matrix.rows
