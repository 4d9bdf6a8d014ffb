"""The buffers of activations that the ops of a model share."""

from collections.abc import Sequence
from dataclasses import dataclass

from edgellm.arch.description import Description, Linear
from edgellm.engine.program import Buffer
from edgellm.gguf import Tensor
from kquants import BLOCK_FORMATS, SUPER_FORMATS
from kquants.kv_layout import MAX_PARTIALS, padded_head_dim, partial_bytes
from kquants.layout import in_odd_lines, int16_bytes, quantized_bytes, super_quantized_bytes


def float_buffer(name: str, width: int) -> Buffer:
    """A buffer of `width` float32 a row, padded to whole vectors (the padding stays zero, but for logits)."""
    return Buffer(name, in_odd_lines(4 * width))


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
        q8 = Buffer(f"{name}.q8", quantized_bytes(width))
        super_q8 = Buffer(f"{name}.super_q8", super_quantized_bytes(width), int16_bytes=int16_bytes(width))
        return cls(width, float_buffer(name, width), q8, super_q8)

    def read_by(self, weight: Tensor) -> Buffer:
        """The buffer that a matmul by the weight reads."""
        if weight.type.name in SUPER_FORMATS:
            return self.super_q8
        return self.q8 if weight.type.name in BLOCK_FORMATS else self.f32

    def targets(self, projections: Sequence[Linear]) -> list[Buffer | None]:
        """[f32, q8, super_q8], with None for the buffers that none of these projections reads."""
        read = [self.read_by(projection.weight) for projection in projections]
        return [buffer if buffer in read else None for buffer in (self.f32, self.q8, self.super_q8)]

    def quantized_targets(self, projections: Sequence[Linear]) -> list[Buffer | None]:
        """[q8, super_q8], with None for the buffers that none of these projections reads."""
        return self.targets(projections)[1:]


@dataclass(frozen=True)
class ModelBuffers:
    """All activations of a model: `x` is the hidden state, `up` the result of the up projection.

    `partials` are softmaxes over a part of a sequence; `gate` becomes the product of gate and up.
    """

    x: Buffer
    normed: MatmulInput
    q: Buffer
    k: Buffer
    v: Buffer
    partials: Buffer
    attention_output: MatmulInput
    gate: MatmulInput
    up: Buffer

    @classmethod
    def of(cls, model: Description) -> "ModelBuffers":
        """The buffers for a model's sizes."""
        return cls(
            x=float_buffer("x", model.width),
            normed=MatmulInput.named("normed", model.width),
            q=float_buffer("q", model.q_width),
            k=float_buffer("k", model.kv_width),
            v=float_buffer("v", model.kv_width),
            partials=Buffer("partials", model.heads * partial_bytes(padded_head_dim(model.head_dim)), MAX_PARTIALS),
            attention_output=MatmulInput.named("attention_output", model.q_width),
            gate=MatmulInput.named("gate", model.ffn),
            up=float_buffer("up", model.ffn),
        )
