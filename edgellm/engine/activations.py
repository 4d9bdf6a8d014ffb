"""The buffers of activations that the ops of a model share."""

from collections.abc import Sequence
from dataclasses import dataclass

from edgellm.arch.blocks import Attention, Linear, StackedLinear
from edgellm.engine.program import Buffer
from edgellm.gguf import Tensor
from kquants import BLOCK_FORMATS, SUPER_FORMATS
from kquants.kv_layout import padded_head_dim, partial_bytes
from kquants.layout import in_odd_lines, int16_bytes, quantized_bytes, super_quantized_bytes


def float_buffer(name: str, width: int) -> Buffer:
    """A buffer of `width` float32 a row, padded to whole vectors (the padding stays zero, but for logits).

    Buffers of different widths are different: what one leaves in its padding, the other would read.
    """
    return Buffer(f"{name}[{width}]", in_odd_lines(4 * width))


@dataclass(frozen=True)
class MatmulInput:
    """An activation that is multiplied by weights: as float32, and quantized in the two ways that formats need."""

    width: int
    f32: Buffer
    q8: Buffer
    super_q8: Buffer

    @classmethod
    def named(cls, name: str, width: int) -> "MatmulInput":
        """The buffers for `width` values a row."""
        return cls.of(name, width, float_buffer(name, width))

    @classmethod
    def of(cls, name: str, width: int, f32: Buffer) -> "MatmulInput":
        """The buffers for the quantized values of a buffer of float32."""
        q8 = Buffer(f"{name}.q8[{width}]", quantized_bytes(width))
        super_q8 = Buffer(f"{name}.super_q8[{width}]", super_quantized_bytes(width), int16_bytes=int16_bytes(width))
        return cls(width, f32, q8, super_q8)

    def with_slots(self, slots: int) -> "MatmulInput":
        """The buffers with as many rows for each row of the batch."""
        return MatmulInput(self.width, *(each.with_slots(slots) for each in (self.f32, self.q8, self.super_q8)))

    def read_by(self, weight: Tensor) -> Buffer:
        """The buffer that a matmul by the weight reads."""
        if weight.type.name in SUPER_FORMATS:
            return self.super_q8
        return self.q8 if weight.type.name in BLOCK_FORMATS else self.f32

    def targets(self, projections: Sequence[Linear | StackedLinear]) -> list[Buffer | None]:
        """[f32, q8, super_q8], with None for the buffers that none of these projections reads."""
        read = [self.read_by(projection.weight) for projection in projections]
        return [buffer if buffer in read else None for buffer in (self.f32, self.q8, self.super_q8)]

    def quantized_targets(self, projections: Sequence[Linear | StackedLinear]) -> list[Buffer | None]:
        """[q8, super_q8], with None for the buffers that none of these projections reads."""
        return self.targets(projections)[1:]


@dataclass(frozen=True)
class StreamBuffers:
    """The activations that all blocks share: the hidden state x, x normed, and the result of a block.

    `raw` are the values of x itself for projections that read x without a norm.
    """

    x: Buffer
    normed: MatmulInput
    raw: MatmulInput
    result: Buffer

    @classmethod
    def of(cls, width: int) -> "StreamBuffers":
        """The buffers for hidden states of `width` values."""
        x, normed = float_buffer("x", width), MatmulInput.named("normed", width)
        return cls(x, normed, MatmulInput(width, x, normed.q8, normed.super_q8), float_buffer("result", width))


@dataclass(frozen=True)
class AttentionBuffers:
    """The activations of an attention layer."""

    q: Buffer
    k: Buffer
    v: Buffer
    gate: Buffer
    partials: Buffer
    result: MatmulInput

    @classmethod
    def of(cls, attention: Attention, partials: int) -> "AttentionBuffers":
        """The buffers for a layer's sizes, with room for `partials` partial softmaxes of all heads.

        Layers of the same sizes share them.
        """
        return cls(
            q=float_buffer("q", attention.q_width),
            k=float_buffer("k", attention.k_width),
            v=float_buffer("v", attention.v_width),
            gate=float_buffer("attention_gate", attention.gate_width),
            partials=Buffer(
                "partials", attention.heads * partial_bytes(padded_head_dim(attention.value_dim)), partials
            ),
            result=MatmulInput.named("attention", attention.attention_width),
        )
