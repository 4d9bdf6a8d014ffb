"""Appends ops to a program: norms, matmuls, biases, activations, each with the buffers that it reads and writes."""

from collections.abc import Sequence

from edgellm.arch.description import Linear
from edgellm.engine.activations import MatmulInput
from edgellm.engine.program import Buffer, Op, Program
from edgellm.gguf import Tensor
from kquants import records
from kquants.layout import PIECE, TILE_ROWS, matmul_scratch


def matmul_kernel(name: str) -> str:
    """The kernel that multiplies by weights of a format."""
    return f"matmul_{name.lower()}"


class OpWriter:
    """Appends ops to a program; `eps` is that of its norms. With `outputs`, ops work on the rows of wanted logits."""

    def __init__(self, program: Program, eps: float) -> None:
        self._program, self._eps, self.outputs = program, eps, False

    def add(
        self, kernel: str, arguments: records.Arguments, units: int = 0, per_row: int = 0, barrier: bool = True
    ) -> None:
        """Append an op; see `edgellm.engine.program.Op`."""
        self._program.ops.append(Op(kernel, arguments, units, per_row, self.outputs, barrier))

    def need_scratch(self, nbytes: int) -> None:
        """Have at least `nbytes` of scratch for each thread."""
        self._program.scratch_bytes = max(self._program.scratch_bytes, nbytes)

    def keep_outputs(self, x: Buffer) -> None:
        """Drop the rows of x whose logits are not wanted; later ops work on the others."""
        self.outputs = True
        # No barrier is needed: either the op is the first after another device, or there was a barrier after the norm,
        # which is the last op that reads x.
        units = -(-x.row_bytes // (4 * PIECE))
        self.add("keep_outputs", records.KeepOutputsOp(x, x.row_bytes), units=units, barrier=False)

    def embed(self, table: Tensor, x: Buffer) -> None:
        """x = the rows of the table for the tokens of the batch."""
        columns = table.shape[1]
        arguments = records.EmbedOp(
            table=table, row_bytes=table.type.row_bytes(columns), columns=columns, x=x, x_bytes=x.row_bytes
        )
        self.add(f"embed_{table.type.name.lower()}", arguments, per_row=1)

    def norm(self, x: Buffer, weight: Tensor, h: MatmulInput, projections: Sequence[Linear]) -> None:
        """h = RMSNorm(x), in the forms that the projections read."""
        f32, q8, super_q8 = h.targets(projections)
        self.need_scratch(h.f32.row_bytes)  # h passes through scratch where no projection reads it as float32
        arguments = records.RmsNormOp(
            x=x,
            x_bytes=x.row_bytes,
            weight=weight,
            n=h.width,
            eps=self._eps,
            h=f32,
            h_bytes=h.f32.row_bytes,
            q8=q8,
            super_q8=super_q8,
        )
        self.add("rms_norm", arguments, per_row=1)

    def norm_heads(self, x: Buffer, weight: Tensor, heads: int, barrier: bool = True) -> None:
        """RMSNorm of each head of x, in place."""
        (head_dim,) = weight.shape
        arguments = records.HeadNormOp(
            x=x, x_bytes=x.row_bytes, weight=weight, head_dim=head_dim, heads=heads, eps=self._eps
        )
        self.add("norm_heads", arguments, per_row=1, barrier=barrier)

    def quantize(self, x: MatmulInput, projections: Sequence[Linear]) -> None:
        """Quantize x in the ways that the projections read, if any."""
        q8, super_q8 = x.quantized_targets(projections)
        if q8 or super_q8:
            arguments = records.QuantizeOp(x=x.f32, x_bytes=x.f32.row_bytes, n=x.width, q8=q8, super_q8=super_q8)
            self.add("quantize", arguments, per_row=-(-x.width // PIECE))

    def swiglu(self, gate: MatmulInput, up: Buffer, projections: Sequence[Linear]) -> None:
        """gate = silu(gate) · up, in the forms that the projections read."""
        q8, super_q8 = gate.quantized_targets(projections)
        self.need_scratch(4 * PIECE)
        arguments = records.SwiGLUOp(
            gate=gate.f32, up=up, row_bytes=up.row_bytes, n=gate.width, q8=q8, super_q8=super_q8
        )
        self.add("swiglu", arguments, per_row=-(-gate.width // PIECE))

    def linear(self, x: MatmulInput, *projections: tuple[Linear, Buffer], accumulate: bool = False) -> None:
        """Each y = W x + b, or with `accumulate` y += W x + b: first all matmuls, then the biases."""
        for i, (w, y) in enumerate(projections):
            self.matmul(w.weight, x, y, accumulate, barrier=i == 0)
        biases = [(w.bias, y) for w, y in projections if w.bias]
        for i, (bias, y) in enumerate(biases):
            (n,) = bias.shape
            arguments = records.AddBiasOp(y=y, y_bytes=y.row_bytes, bias=bias, n=n)
            self.add("add_bias", arguments, per_row=-(-n // PIECE), barrier=i == 0)

    def matmul(self, w: Tensor, x: MatmulInput, y: Buffer, accumulate: bool = False, barrier: bool = True) -> None:
        """y = W x, or with `accumulate` y += W x."""
        rows, columns = w.shape
        read = x.read_by(w)
        arguments = records.MatmulOp(
            w=w,
            rows=rows,
            columns=columns,
            row_bytes=w.type.row_bytes(columns),
            x=read,
            x_bytes=read.row_bytes,
            y=y,
            y_bytes=y.row_bytes,
            accumulate=int(accumulate),
        )
        self.need_scratch(matmul_scratch(columns, w.type.name))
        self.add(matmul_kernel(w.type.name), arguments, units=-(-rows // TILE_ROWS), barrier=barrier)
