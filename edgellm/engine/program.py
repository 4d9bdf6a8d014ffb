"""From a description to a program: the list of ops that turns a batch of rows into logits.

Ops name kernels, tensors and buffers; they hold no address. A device lowers the list to what it runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from edgellm.arch.description import Attention, Description, FeedForward, Linear, RopeType
from edgellm.engine.placement import CPU, Placement, feed_forward, head, mixer, on_cpu
from edgellm.gguf import Tensor
from kquants import BLOCK_FORMATS, SUPER_FORMATS, records
from kquants.kv_layout import (
    MAX_KV_SPLITS,
    MAX_PARTIALS,
    MAX_SPLIT_ROWS,
    attention_scratch,
    layer_page_bytes,
    padded_head_dim,
    partial_bytes,
)
from kquants.layout import (
    MOST_TOKENS,
    PIECE,
    TILE_ROWS,
    in_odd_lines,
    matmul_scratch,
    quantized_bytes,
    shorts_bytes,
    super_quantized_bytes,
)


@dataclass(frozen=True)
class Buffer:
    """Activations: `row_bytes` for each row of the batch, or for `rows` rows whatever the batch.

    A CPU with matrix tiles needs `shorts_bytes` besides: whoever asks about a model knows no CPU.
    """

    name: str
    row_bytes: int
    rows: int | None = None
    shorts_bytes: int = 0


@dataclass(frozen=True)
class Op:
    """A kernel and its arguments, a record of `kquants.records`; it has `units + per_row · rows` units of work.

    Where kernels get an address, arguments have a Tensor or a Buffer, or None for null. With `outputs`, rows are those
    whose logits are wanted. `barrier` is False where an op needs nothing of what the op before it writes, and writes
    nothing that others have read since all threads met.
    """

    kernel: str
    arguments: records.Arguments
    units: int = 0
    per_row: int = 0
    outputs: bool = False
    barrier: bool = True


@dataclass(frozen=True)
class ActivationBuffers:
    """An activation that feeds products: as float32, and quantized in the ways that products want."""

    width: int
    f32: Buffer
    q8: Buffer
    super_q8: Buffer

    @classmethod
    def named(cls, name: str, width: int) -> "ActivationBuffers":
        """The buffers for `width` values a row."""
        q8 = Buffer(f"{name}.q8", quantized_bytes(width))
        super_q8 = Buffer(f"{name}.super_q8", super_quantized_bytes(width), shorts_bytes=shorts_bytes(width))
        return cls(width, floats(name, width), q8, super_q8)

    def wanted(self, w: Tensor) -> Buffer:
        """The one that a product with w reads."""
        if w.type.name in SUPER_FORMATS:
            return self.super_q8
        return self.q8 if w.type.name in BLOCK_FORMATS else self.f32

    def targets(self, feeds: Sequence[Linear]) -> list[Buffer | None]:
        """What an op is to write for these products: float32, and the two that it quantizes to."""
        wanted = [self.wanted(feed.weight) for feed in feeds]
        return [buffer if buffer in wanted else None for buffer in (self.f32, self.q8, self.super_q8)]

    def quantized(self, feeds: Sequence[Linear]) -> list[Buffer | None]:
        """What an op is to quantize to, for these products."""
        return self.targets(feeds)[1:]


@dataclass
class Program:
    """The ops of the CPU's blocks of a model, the buffers they use, and the scratch (bytes) that a thread needs.

    A KV page has `page_bytes` for all their layers. `x` is the hidden state. The ops of block b begin at `starts[b]`
    and end at `starts[b + 1]`; those before the first block look up embeddings.
    """

    x: Buffer
    logits: Buffer
    page_bytes: int
    ops: list[Op] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    scratch_bytes: int = 0

    @property
    def buffers(self) -> list[Buffer]:
        """Every buffer once, in order of first use."""
        return list(dict.fromkeys(a for op in self.ops for a in op.arguments if isinstance(a, Buffer)))

    @property
    def row_bytes(self) -> int:
        """Bytes of activations for each row of a batch; logits are apart, as few rows have any."""
        return sum(buffer.row_bytes for buffer in self.buffers if buffer != self.logits and not buffer.rows)

    def activation_bytes(self, rows: int) -> int:
        """Bytes of all buffers but logits, for batches of up to so many rows."""
        return sum((b.rows or rows + MOST_TOKENS) * b.row_bytes for b in self.buffers if b != self.logits)

    @property
    def products(self) -> list[int]:
        """Which ops are products with weights, in order."""
        return [i for i, op in enumerate(self.ops) if isinstance(op.arguments, records.MatmulOp)]

    @property
    def kernels(self) -> set[str]:
        """The names of all kernels."""
        return {op.kernel for op in self.ops}


def floats(name: str, width: int) -> Buffer:
    """A buffer of `width` float32 a row, padded to whole vectors (the padding stays zero, but for logits)."""
    return Buffer(name, in_odd_lines(4 * width))


def matmul_kernel(name: str) -> str:
    """The kernel of products with weights of a format."""
    return f"matmul_{name.lower()}"


def build(model: Description, kv_type: str, placement: Placement | None = None) -> Program:
    """The program of a model with KV pages of the given type: of all blocks, or of those placed on the CPU."""
    return _ProgramBuilder(model, kv_type, placement or on_cpu(len(model.layers))).build()


class _ProgramBuilder:
    def __init__(self, model: Description, kv_type: str, placement: Placement) -> None:
        self.model, self.kv_type, self.placement = model, kv_type, placement
        self.layer_bytes = layer_page_bytes(model.kv_heads, model.head_dim, kv_type)
        self.x = floats("x", model.width)
        self.normed = ActivationBuffers.named("normed", model.width)
        self.q = floats("q", model.heads * model.head_dim)
        self.k = floats("k", model.kv_heads * model.head_dim)
        self.v = floats("v", model.kv_heads * model.head_dim)
        self.parts = Buffer("parts", model.heads * partial_bytes(padded_head_dim(model.head_dim)), MAX_PARTIALS)
        self.mixed = ActivationBuffers.named("mixed", model.heads * model.head_dim)
        self.gate = ActivationBuffers.named("gate", model.ffn)
        self.up = floats("up", model.ffn)
        self.program = Program(self.x, floats("logits", model.vocab), 0)
        self.block, self.outputs = 0, False

    def build(self) -> Program:
        model = self.model
        self.embed()
        for i, layer in enumerate(model.layers):
            if self.begin(mixer(i)):
                self.attention(layer.mixer, self.program.page_bytes)
                self.program.page_bytes += self.layer_bytes
            if self.begin(feed_forward(i)):
                self.narrow()
                self.feed_forward(layer.feed_forward)
        if self.begin(head(len(model.layers))):
            self.narrow()
            self.norm(model.output_norm, [Linear(model.output)])
            self.matmul(model.output, self.normed, self.program.logits)
        self.program.starts.append(len(self.program.ops))
        self.need(attention_scratch(model.head_dim))
        return self.program

    def begin(self, block: int) -> bool:
        """Note where a block begins; whether it is the CPU's."""
        self.program.starts.append(len(self.program.ops))
        self.block = block
        return self.placement[block] == CPU

    def add(
        self, kernel: str, arguments: records.Arguments, units: int = 0, per_row: int = 0, barrier: bool = True
    ) -> None:
        self.program.ops.append(Op(kernel, arguments, units, per_row, self.outputs, barrier))

    def need(self, scratch_bytes: int) -> None:
        self.program.scratch_bytes = max(self.program.scratch_bytes, scratch_bytes)

    def narrow(self) -> None:
        """Go on with those rows alone whose logits are wanted, where no layer and no other device needs the others.

        Of the last layer, the other tokens of a prompt need keys and values only.
        """
        rest = self.placement[self.block :]
        if not self.outputs and self.block >= mixer(len(self.model.layers) - 1) and set(rest) == {CPU}:
            self.outputs, row_bytes = True, self.x.row_bytes
            # Either it comes first, after another device, or the norm read x, and all threads have met since.
            pieces = -(-row_bytes // (4 * PIECE))
            self.add("keep_outputs", records.KeepOutputsOp(self.x, row_bytes), units=pieces, barrier=False)

    def embed(self) -> None:
        table, x = self.model.embedding, self.x
        arguments = records.EmbedOp(
            table=table,
            row_bytes=table.type.row_bytes(self.model.width),
            columns=self.model.width,
            x=x,
            x_bytes=x.row_bytes,
        )
        self.add(f"embed_{table.type.name.lower()}", arguments, per_row=1)

    def attention(self, block: Attention, page_offset: int) -> None:
        model, q, k, v, mixed = self.model, self.q, self.k, self.v, self.mixed
        heads, kv_heads, head_dim, rope = model.heads, model.kv_heads, model.head_dim, model.rope
        self.norm(block.norm, [block.q, block.k, block.v])
        self.linear(self.normed, (block.q, q), (block.k, k), (block.v, v))
        if block.q_norm and block.k_norm:
            self.norm_heads(q, block.q_norm, heads)
            self.norm_heads(k, block.k_norm, kv_heads, barrier=False)
        stored = records.RopeStoreOp(
            q=q,
            q_bytes=q.row_bytes,
            k=k,
            v=v,
            kv_bytes=k.row_bytes,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            rope_dim=2 * len(rope.frequencies),
            rope_type=records.ROPE_NEOX if rope.rope_type is RopeType.NEOX else records.ROPE_NORM,
            page_offset=page_offset,
        )
        self.add(f"rope_store_{self.kv_type}", stored, per_row=kv_heads)
        self.narrow()
        attended = records.AttentionOp(
            q=q,
            q_bytes=q.row_bytes,
            out=mixed.f32,
            out_bytes=mixed.f32.row_bytes,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            page_offset=page_offset,
            scale=head_dim**-0.5,
            partials=self.parts,
        )
        self.add(f"attention_{self.kv_type}", attended, units=kv_heads * MAX_KV_SPLITS, per_row=kv_heads)
        self.add("attention_merge", attended, units=kv_heads * MAX_SPLIT_ROWS)
        q8, super_q8 = mixed.quantized([block.output])
        if q8 or super_q8:
            arguments = records.QuantizeOp(
                x=mixed.f32, x_bytes=mixed.f32.row_bytes, n=mixed.width, q8=q8, super_q8=super_q8
            )
            self.add("quantize", arguments, per_row=-(-mixed.width // PIECE))
        self.linear(mixed, (block.output, self.x), accumulate=True)

    def feed_forward(self, block: FeedForward) -> None:
        gate, up = self.gate, self.up
        self.norm(block.norm, [block.gate, block.up])
        self.linear(self.normed, (block.gate, gate.f32), (block.up, up))
        q8, super_q8 = gate.quantized([block.down])
        self.need(4 * PIECE)
        arguments = records.SwiGLUOp(
            gate=gate.f32, up=up, row_bytes=up.row_bytes, n=gate.width, q8=q8, super_q8=super_q8
        )
        self.add("swiglu", arguments, per_row=-(-gate.width // PIECE))
        self.linear(gate, (block.down, self.x), accumulate=True)

    def norm(self, weight: Tensor, feeds: Sequence[Linear]) -> None:
        model, x, h = self.model, self.x, self.normed
        f32, q8, super_q8 = h.targets(feeds)
        self.need(h.f32.row_bytes)  # where nobody wants h as float32, it passes through scratch
        arguments = records.RmsNormOp(
            x=x,
            x_bytes=x.row_bytes,
            weight=weight,
            n=model.width,
            eps=model.eps,
            h=f32,
            h_bytes=h.f32.row_bytes,
            q8=q8,
            super_q8=super_q8,
        )
        self.add("rms_norm", arguments, per_row=1)

    def norm_heads(self, x: Buffer, weight: Tensor, heads: int, barrier: bool = True) -> None:
        arguments = records.HeadNormOp(
            x=x, x_bytes=x.row_bytes, weight=weight, head_dim=self.model.head_dim, heads=heads, eps=self.model.eps
        )
        self.add("norm_heads", arguments, per_row=1, barrier=barrier)

    def linear(self, x: ActivationBuffers, *products: tuple[Linear, Buffer], accumulate: bool = False) -> None:
        """Each y = W x + b, or with `accumulate` y += W x + b: first all products, then the biases."""
        for i, (w, y) in enumerate(products):
            self.matmul(w.weight, x, y, accumulate, barrier=i == 0)
        biases = [(w.bias, y) for w, y in products if w.bias]
        for i, (bias, y) in enumerate(biases):
            (n,) = bias.shape
            arguments = records.AddBiasOp(y=y, y_bytes=y.row_bytes, bias=bias, n=n)
            self.add("add_bias", arguments, per_row=-(-n // PIECE), barrier=i == 0)

    def matmul(
        self, w: Tensor, x: ActivationBuffers, y: Buffer, accumulate: bool = False, barrier: bool = True
    ) -> None:
        rows, columns = w.shape
        given = x.wanted(w)
        arguments = records.MatmulOp(
            w=w,
            rows=rows,
            columns=columns,
            row_bytes=w.type.row_bytes(columns),
            x=given,
            x_bytes=given.row_bytes,
            y=y,
            y_bytes=y.row_bytes,
            accumulate=int(accumulate),
        )
        self.need(matmul_scratch(columns, w.type.name))
        self.add(matmul_kernel(w.type.name), arguments, units=-(-rows // TILE_ROWS), barrier=barrier)
