"""Appends ops to a program: matmuls, biases, activations, each with the buffers that it reads and writes."""

from collections.abc import Sequence

from edgellm.arch.blocks import Activation, Linear, StackedLinear
from edgellm.engine.activations import MatmulInput
from edgellm.engine.outputs import LOGITS, OutputSettings
from edgellm.engine.program import Buffer, GivenInput, ObservedInput, Op, Program
from edgellm.gguf import Tensor
from kquants import records
from kquants.layout import PIECE, TILE_ROWS, matmul_scratch

_ACTIVATION_KERNELS = {
    Activation.SILU: "swiglu",
    Activation.GELU: "geglu",
    Activation.GELU_ERF: "geglu_erf",
    Activation.RELU2: "relu2",
    Activation.XIELU: "xielu",
    Activation.CLAMPED_SWIGLU: "clamped_swiglu",
}


def matmul_kernel(name: str) -> str:
    """The kernel that multiplies by weights of a format."""
    return f"matmul_{name.lower()}"


def pieces(n: int) -> int:
    """Units of work of a row of `n` values in the ops that split rows."""
    return -(-n // PIECE)


class OpWriter:
    """Appends ops to a program. With `outputs`, ops work on the rows of wanted logits.

    If the `settings` ask for squares or inputs, what matrices are multiplied by is always written as float32, too, and
    observed while ops work on all rows. Products are the same bits.
    """

    def __init__(self, program: Program, settings: OutputSettings = LOGITS) -> None:
        self._program, self.outputs, self._settings = program, False, settings
        self._observes = settings.observes

    def add(
        self,
        kernel: str,
        arguments: records.Arguments,
        units: int = 0,
        per_row: int = 0,
        barrier: bool = True,
        slots: int = 1,
        units_factor: Buffer | None = None,
    ) -> None:
        """Append an op; see `edgellm.engine.program.Op`."""
        self._program.ops.append(Op(kernel, arguments, units, per_row, self.outputs, barrier, slots, units_factor))

    def need_scratch(self, nbytes: int) -> None:
        """Have at least `nbytes` of scratch for each thread."""
        self._program.scratch_bytes = max(self._program.scratch_bytes, nbytes)

    def keep_outputs(self, *buffers: Buffer) -> None:
        """Drop the rows of buffers whose logits are not wanted; later ops work on the others."""
        self.outputs = True
        for i, buffer in enumerate(buffers):
            units = -(-buffer.row_bytes // (4 * PIECE))
            self.add("keep_outputs", records.KeepOutputsOp(buffer, buffer.row_bytes), units=units, barrier=i == 0)

    def embed(self, table: Tensor, x: Buffer, scale: float, barrier: bool = True, own_embeddings: bool = True) -> None:
        """x = scale · the rows of the table for the tokens of the batch, or its `own_embeddings`, where it has any."""
        columns = table.shape[1]
        arguments = records.EmbedOp(
            table=table,
            row_bytes=table.type.row_bytes(columns),
            columns=columns,
            x=x,
            x_bytes=x.row_bytes,
            scale=scale,
            own_embeddings=int(own_embeddings),
        )
        self.add(f"embed_{table.type.name.lower()}", arguments, per_row=1, barrier=barrier)

    def add_scaled(self, x: Buffer, y: Buffer | None, width: int, scale_x: float, scale_y: float = 0.0) -> None:
        """x = scale_x · x + scale_y · y."""
        arguments = records.AddScaledOp(
            x=x,
            x_bytes=x.row_bytes,
            y=y,
            y_bytes=y.row_bytes if y else 0,
            n=width,
            scale_x=scale_x,
            scale_y=scale_y,
        )
        self.add("add_scaled", arguments, per_row=pieces(width))

    def targets(self, x: MatmulInput, projections: Sequence[Linear | StackedLinear]) -> list[Buffer | None]:
        """[f32, q8, super_q8] of x, with None for the buffers that nothing reads."""
        f32, *quantized = x.targets(projections)
        return [x.f32 if self._observes else f32, *quantized]

    def observe(
        self,
        x: MatmulInput,
        projections: Sequence[Linear | StackedLinear],
        groups: Buffer | None = None,
        slots: int = 1,
        counted: int = 1,
    ) -> None:
        """Observe x, which all projections read: add up its squares, with `groups` those of each matrix of a stack.

        Of the matrices, `counted` have numbers of rows of their own. Rows are given where there are no groups.
        """
        if not self._observes or self.outputs:
            return
        names = tuple(dict.fromkeys(projection.weight.stored_name for projection in projections))
        if not groups and not self._settings.inputs.isdisjoint(names):
            self._program.given.append(GivenInput(names, x.width, x.f32, len(self._program.ops)))
        if self._settings.squares:
            self._add_squares(names, x, projections[0].weight.shape[0] if groups else 1, groups, slots, counted)

    def _add_squares(
        self, names: tuple[str, ...], x: MatmulInput, matrices: int, groups: Buffer | None, slots: int, counted: int
    ) -> None:
        number, padded = len(self._program.observed), -(-x.width // 16) * 16
        sums = Buffer(f"square_sums_{number}", 8 * padded, rows=matrices)
        counts = Buffer(f"square_counts_{number}", 8 * matrices, rows=1)
        arguments = records.SquareSumsOp(
            x=x.f32,
            x_bytes=x.f32.row_bytes,
            n=x.width,
            groups=groups,
            sums=sums,
            sums_bytes=sums.row_bytes,
            counts=counts,
        )
        self.add("square_sums", arguments, units=padded // 16, slots=slots, units_factor=groups)
        self._program.observed.append(ObservedInput(names, x.width, sums, counts, counted))

    def quantize(self, x: MatmulInput, projections: Sequence[Linear | StackedLinear], slots: int = 1) -> None:
        """Quantize x, which has `slots` rows for each row, in the ways that the projections read, if any."""
        q8, super_q8 = x.quantized_targets(projections)
        if q8 or super_q8:
            arguments = records.QuantizeOp(x=x.f32, x_bytes=x.f32.row_bytes, n=x.width, q8=q8, super_q8=super_q8)
            self.add("quantize", arguments, per_row=pieces(x.width), slots=slots)

    def activate(
        self,
        activation: Activation,
        gate: MatmulInput,
        up: Buffer | None,
        projections: Sequence[Linear | StackedLinear],
        parameters: tuple[float, ...] = (),
        up_offset: int = 0,
        slots: int = 1,
    ) -> None:
        """gate = f(gate) · up, or f(gate) without up, in the forms that the projections read.

        The values of up begin `up_offset` bytes into its rows. Gate and up have `slots` rows for each row.
        """
        q8, super_q8 = (None, None) if self._observes else gate.quantized_targets(projections)
        self.need_scratch(4 * PIECE)
        p0, p1, p2, p3 = (*parameters, 0.0, 0.0, 0.0, 0.0)[:4]
        arguments = records.ActivationOp(
            gate=gate.f32,
            gate_bytes=gate.f32.row_bytes,
            up=up,
            up_bytes=up.row_bytes if up else 0,
            up_offset=up_offset,
            n=gate.width,
            q8=q8,
            super_q8=super_q8,
            parameter_0=p0,
            parameter_1=p1,
            parameter_2=p2,
            parameter_3=p3,
        )
        self.add(_ACTIVATION_KERNELS[activation], arguments, per_row=pieces(gate.width), slots=slots)
        if self._observes:
            self.quantize(gate, projections, slots)

    def top_activations(self, x: MatmulInput, deviations: float) -> None:
        """x = max(x - m, 0), with m the given number of standard deviations above the mean of a row."""
        arguments = records.TopActivationsOp(x.f32, x.f32.row_bytes, x.width, deviations)
        self.add("top_activations", arguments, per_row=1)

    def sigmoid_gate(self, x: Buffer, gate: Buffer, width: int) -> None:
        """x = x · sigmoid(gate)."""
        arguments = records.SigmoidGateOp(x=x, x_bytes=x.row_bytes, gate=gate, gate_bytes=gate.row_bytes, n=width)
        self.add("sigmoid_gate", arguments, per_row=pieces(width))

    def softplus_gate(self, x: Buffer, gate: Buffer, width: int, group: int) -> None:
        """x = x · softplus(gate), each value of gate for `group` values of x."""
        arguments = records.SoftplusGateOp(x, x.row_bytes, gate, gate.row_bytes, width, group)
        self.add("softplus_gate", arguments, per_row=pieces(width) if group == 1 else width // group)

    def scale_by_sigmoid(self, x: Buffer, gate: Buffer, width: int) -> None:
        """x = x · sigmoid(gate), with one value of gate for each row."""
        arguments = records.SigmoidGateOp(x, x.row_bytes, gate, gate.row_bytes, width)
        self.add("scale_by_sigmoid", arguments, per_row=pieces(width))

    def soft_cap(self, y: Buffer, width: int, cap: float) -> None:
        """y = cap · tanh(y / cap)."""
        arguments = records.SoftCapOp(y=y, y_bytes=y.row_bytes, n=width, cap=cap)
        self.add("soft_cap", arguments, per_row=pieces(width))

    def linear(self, x: MatmulInput, *projections: tuple[Linear, Buffer], accumulate: bool = False) -> None:
        """Each y = f W x + b, or with `accumulate` y += f W x + b: first all matmuls, then the biases."""
        self.observe(x, [w for w, _ in projections])
        for i, (w, y) in enumerate(projections):
            self._matmul(w, x, y, accumulate, barrier=i == 0)
        biases = [(w.bias, y) for w, y in projections if w.bias]
        for i, (bias, y) in enumerate(biases):
            (n,) = bias.shape
            arguments = records.AddBiasOp(y=y, y_bytes=y.row_bytes, bias=bias, n=n)
            self.add("add_bias", arguments, per_row=pieces(n), barrier=i == 0)

    def _matmul(self, linear: Linear, x: MatmulInput, y: Buffer, accumulate: bool, barrier: bool) -> None:
        """y = f W x, or with `accumulate` y += f W x."""
        w = linear.weight
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
            factors=linear.factor,
        )
        self.need_scratch(matmul_scratch(columns, w.type.name))
        self.add(matmul_kernel(w.type.name), arguments, units=-(-rows // TILE_ROWS), barrier=barrier)

    def grouped_matmul(
        self, w: StackedLinear, x: MatmulInput, y: Buffer, groups: Buffer, slots: int, barrier: bool = True
    ) -> None:
        """y = f W x + b for groups of consecutive rows of x, each with a matrix of a stack.

        x and y have `slots` rows for each row of the batch.
        """
        columns, kind = w.weight.shape[-1], w.weight.type
        read, row_bytes = x.read_by(w.weight), kind.row_bytes(columns)
        arguments = records.MatmulOp(
            w=w.first_matrix,
            rows=w.rows,
            columns=columns,
            row_bytes=row_bytes,
            x=read,
            x_bytes=read.row_bytes,
            y=y,
            y_bytes=y.row_bytes,
            accumulate=0,
            groups=groups,
            matrix_bytes=w.weight.shape[1] * row_bytes,
            bias=w.first_bias,
            bias_bytes=4 * w.weight.shape[1],
            factors=w.factors,
        )
        self.need_scratch(matmul_scratch(columns, kind.name))
        units = -(-w.rows // TILE_ROWS)
        self.add(matmul_kernel(kind.name), arguments, units, barrier=barrier, slots=slots, units_factor=groups)
