"""The ops of Gemma 3n and Gemma 4 beside attention and feed-forward: see `edgellm.arch.per_layer`."""

from dataclasses import replace
from math import sqrt

from edgellm.arch.blocks import Activation, AltUp, Laurel, Layer, PerLayerInput
from edgellm.arch.description import Description, PerLayerEmbeddings
from edgellm.engine.activations import MatmulInput, StreamBuffers, float_buffer
from edgellm.engine.norm_ops import NormOps
from edgellm.engine.op_writer import OpWriter
from edgellm.engine.program import Buffer
from kquants import records

_HALF_ROOT = 1 / sqrt(2)


class PerLayerOps:
    """Appends these ops for a model; a model or a layer without such parts gets none."""

    def __init__(self, model: Description, buffers: StreamBuffers, ops: OpWriter) -> None:
        self._model, self._b, self._ops, self._norms = model, buffers, ops, NormOps(ops)
        embeddings = model.per_layer_embeddings
        self._embeddings = float_buffer("per_layer", embeddings.table.shape[1]) if embeddings else None
        self._streams = [float_buffer(f"stream_{i + 1}", model.width) for i in range(3)] if model.streams else []
        self._predicted = float_buffer("predicted", model.width)

    def embed(self) -> None:
        """From the embedding x of each row to those of the layers, and to the streams."""
        if self._model.per_layer_embeddings and self._embeddings:
            self._embed(self._model.per_layer_embeddings, self._embeddings)
        if self._model.streams:
            ops, raw = self._ops, self._b.raw
            ops.quantize(raw, self._model.streams.projections)
            ops.linear(raw, *zip(self._model.streams.projections, self._streams, strict=True))
            for i, stream in enumerate(self._streams):
                self._match_magnitude(stream, stream, barrier=i == 0)

    def _embed(self, given: PerLayerEmbeddings, to: Buffer) -> None:
        """(norm(scale · projection(x)) + table_scale · table[token]) / √2.

        The norm of scale · p is that of p with the epsilon divided by scale².
        """
        ops, raw, total = self._ops, self._b.raw, given.table.shape[1]
        of_token = float_buffer("per_layer_of_token", total)
        ops.quantize(raw, [given.projection])
        ops.linear(raw, (given.projection, to))
        norm = replace(given.norm, eps=given.norm.eps / given.projection_scale**2)
        self._norms.norm_heads(to, norm, total // given.width, given.width)
        ops.embed(given.table, of_token, given.table_scale, barrier=False, own_embeddings=False)
        ops.add_scaled(to, of_token, total, _HALF_ROOT, _HALF_ROOT)

    @property
    def buffers(self) -> list[Buffer]:
        """What keeps a value of each row from layer to layer, besides x."""
        return [*self._streams, *([self._embeddings] if self._embeddings else [])]

    def before_layer(self, layer: Layer) -> None:
        """Make x the prediction that the layer works on."""
        if layer.altup:
            routed = self._route(layer.altup)
            x_1, x_2, x_3 = self._streams
            arguments = records.PredictStreamsOp(
                x=self._b.x,
                x_1=x_1,
                x_2=x_2,
                x_3=x_3,
                predicted=self._predicted,
                row_bytes=self._b.x.row_bytes,
                n=self._model.width,
                routed=routed,
                routed_bytes=routed.row_bytes,
                coefficients=layer.altup.predict,
                router_scale=1 / self._model.width,
            )
            self._ops.add("predict_streams", arguments, per_row=1)

    def beside_attention(self, laurel: Laurel) -> list[Buffer]:
        """normed += norm(right(left(normed))). Returns the buffers that attention must leave as they are."""
        ops, normed = self._ops, self._b.normed
        rank = MatmulInput.named("laurel", laurel.left.weight.shape[0])
        ops.linear(normed, (laurel.left, rank.f32))
        ops.quantize(rank, [laurel.right])
        ops.linear(rank, (laurel.right, self._b.result))
        self._norms.add_norm(normed.f32, self._b.result, laurel.norm, self._model.width, 1.0)
        return [normed.f32, self._predicted]

    def after_attention(self) -> None:
        """x = (x + laurel) / √2."""
        self._ops.add_scaled(self._b.x, self._b.normed.f32, self._model.width, _HALF_ROOT, _HALF_ROOT)

    def after_layer(self, layer: Layer, index: int) -> None:
        """Correct the streams, add what the layer's embedding gives, and scale x."""
        if layer.altup:
            self._correct(layer.altup)
        if layer.per_layer_input:
            read = self._b.normed if layer.altup else self._b.raw
            self._add_input(layer.per_layer_input, index, read, self._streams if layer.altup else [self._b.x])

    def _add_input(self, block: PerLayerInput, index: int, h: MatmulInput, to: list[Buffer]) -> None:
        ops, b = self._ops, self._b
        width = block.gate.weight.shape[0]
        gate = MatmulInput.named("per_layer_gate", width)
        ops.quantize(h, [block.gate])
        ops.linear(h, (block.gate, gate.f32))
        ops.activate(Activation.GELU, gate, self._embeddings, [block.projection], up_offset=4 * index * width)
        ops.linear(gate, (block.projection, b.result))
        for i, x in enumerate(to):
            self._norms.add_norm(x, b.result, block.norm, self._model.width, 1.0, barrier=i == 0)

    def _route(self, altup: AltUp) -> Buffer:
        """router(norm(x))."""
        ops, b = self._ops, self._b
        routed = float_buffer("routed", altup.router.weight.shape[0])
        self._norms.norm(b.x, altup.norm, b.normed, [altup.router])
        ops.linear(b.normed, (altup.router, routed))
        self._ops.need_scratch(4 * 32)
        return routed

    def _correct(self, altup: AltUp) -> None:
        """From the layer's result x and the predictions to the streams; normed = correct_scale · x."""
        b, routed = self._b, self._route(altup)
        x_1, x_2, x_3 = self._streams
        arguments = records.CorrectStreamsOp(
            x=b.x,
            x_1=x_1,
            x_2=x_2,
            x_3=x_3,
            predicted=self._predicted,
            scaled=b.normed.f32,
            row_bytes=b.x.row_bytes,
            n=self._model.width,
            routed=routed,
            routed_bytes=routed.row_bytes,
            coefficients=altup.correct,
            scale=altup.correct_scale,
            router_scale=1 / self._model.width,
        )
        self._ops.add("correct_streams", arguments, per_row=1)

    def before_head(self) -> None:
        """x = the mean of x and the other streams, each through its matrix and with the magnitude of x."""
        if not self._model.streams:
            return
        ops, b, n = self._ops, self._b, self._model.width
        for unembedding, stream in zip(self._model.streams.unembeddings, self._streams, strict=True):
            h = MatmulInput.of("stream", n, stream)
            ops.quantize(h, [unembedding])
            ops.linear(h, (unembedding, b.result))
            self._match_magnitude(b.result, stream)
        for stream in self._streams[:-1]:
            ops.add_scaled(b.x, stream, n, 1.0, 1.0)
        ops.add_scaled(b.x, self._streams[-1], n, 0.25, 0.25)

    def _match_magnitude(self, y: Buffer, to: Buffer, barrier: bool = True) -> None:
        """to = y with the magnitude of x."""
        x = self._b.x
        arguments = records.MatchMagnitudeOp(x=x, y=y, to=to, row_bytes=x.row_bytes, n=self._model.width)
        self._ops.add("match_magnitude", arguments, per_row=1, barrier=barrier)
