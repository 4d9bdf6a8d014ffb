"""The tensors of blocks on a GPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from edgellm.arch.blocks import Activation, Attention, FeedForward, Linear, Norm, NormKind
from edgellm.arch.description import Description
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.weights import Matrix, float_values, slice_rows, upload_matrix, upload_vector
from edgellm.gguf import Tensor

Uploaded = Callable[[int], None]
"""Called with the bytes of each step of an upload."""


class GPUNorm(NamedTuple):
    """A norm: its weight, of ones where the model has none, its bias and its epsilon."""

    weight: Buffer
    bias: Buffer | None
    eps: float
    is_layer: bool

    @property
    def is_fused(self) -> bool:
        """Whether matrix × vector can norm its x: RMSNorm without a bias."""
        return not self.is_layer and self.bias is None

    @classmethod
    def of(cls, gpu: GPUContext, norm: Norm, width: int) -> "GPUNorm":
        """Upload a norm of `width` values."""
        weight = upload_vector(gpu, float_values(norm.weight, width, 1.0))
        return cls(weight, _vector(gpu, norm.bias), norm.eps, norm.kind is NormKind.LAYER)


class QKVNorms(NamedTuple):
    """The norms of q, k and v, of each head or of whole projections: the weights in one vector, and an epsilon each.

    Where there is no norm, or none with a weight, the weights are ones for a head.
    """

    weights: Buffer
    q_eps: float
    k_eps: float
    v_eps: float

    @classmethod
    def of(cls, gpu: GPUContext, norms: Sequence[Norm | None], head_dim: int) -> "QKVNorms":
        """Upload the norms of q, k and v."""
        weights = [float_values(norm.weight if norm else None, head_dim, 1.0) for norm in norms]
        return cls(upload_vector(gpu, np.concatenate(weights)), *(norm.eps if norm else 0.0 for norm in norms))


@dataclass(frozen=True)
class GPUAttention:
    """An attention block; the biases of q, k and v are in one vector."""

    settings: Attention
    norm: GPUNorm | None
    qkv: Sequence[Matrix]
    qkv_bias: Buffer | None
    head_norms: QKVNorms | None
    projection_norms: QKVNorms | None
    gate: Sequence[Matrix]
    gate_bias: Buffer | None
    sinks: Buffer | None
    output: Sequence[Matrix]
    output_bias: Buffer | None
    post_norm: GPUNorm | None

    @classmethod
    def of(cls, gpu: GPUContext, model: Description, block: Attention, uploaded: Uploaded) -> "GPUAttention":
        """Upload a block."""
        q, gate = split_gate(block) if block.gate_in_q else (block.q, block.gate)
        linears = [linear for linear in (q, block.k, block.v) if linear]
        matrices = [upload_matrix(gpu, linear.weight, uploaded) for linear in linears]
        if block.v is None:  # the values are the keys as projected
            matrices, linears = [*matrices, matrices[-1]], [*linears, linears[-1]]
        given = (block.q_norm, block.k_norm, block.v_norm)
        norms = QKVNorms.of(gpu, given, block.key_dim) if any(given) else None
        of_heads = not has_projection_norms(block)
        return cls(
            settings=block,
            norm=_norm(gpu, block.norm, model.width),
            qkv=matrices,
            qkv_bias=upload_biases(gpu, linears),
            head_norms=norms if of_heads else None,
            projection_norms=None if of_heads else norms,
            gate=[upload_matrix(gpu, gate.weight, uploaded)] if gate else [],
            gate_bias=upload_biases(gpu, [gate]) if gate else None,
            sinks=_vector(gpu, block.sinks),
            output=[upload_matrix(gpu, block.output.weight, uploaded)],
            output_bias=upload_biases(gpu, [block.output]),
            post_norm=_norm(gpu, block.post_norm, model.width),
        )


@dataclass(frozen=True)
class GPUFeedForward:
    """A feed-forward: gate and up projections, or the latter alone, and the bias of each or None.

    `output_scale` is that of the layer.
    """

    activation: Activation
    norm: GPUNorm | None
    gate_up: Sequence[Matrix]
    gate_up_bias: Sequence[Buffer | None]
    down: Sequence[Matrix]
    down_bias: Buffer | None
    post_norm: GPUNorm | None
    output_scale: float

    @classmethod
    def of(
        cls, gpu: GPUContext, model: Description, block: FeedForward, output_scale: float, uploaded: Uploaded
    ) -> "GPUFeedForward":
        """Upload a block."""
        both = [linear for linear in (block.gate, block.up) if linear]
        most = min(slice_rows(linear.weight, gpu.binding) for linear in both)  # formats may differ; the slices must not
        return cls(
            activation=block.activation,
            norm=_norm(gpu, block.norm, model.width),
            gate_up=[upload_matrix(gpu, linear.weight, uploaded, most) for linear in both],
            gate_up_bias=[upload_biases(gpu, [linear]) for linear in both],
            down=[upload_matrix(gpu, block.down.weight, uploaded)],
            down_bias=upload_biases(gpu, [block.down]),
            post_norm=_norm(gpu, block.post_norm, model.width),
            output_scale=output_scale,
        )


@dataclass(frozen=True)
class GPUOutputHead:
    """The output head: the last norm and the output matrix."""

    norm: GPUNorm
    output: Sequence[Matrix]
    bias: Buffer | None

    @classmethod
    def of(cls, gpu: GPUContext, model: Description, uploaded: Uploaded) -> "GPUOutputHead":
        """Upload the output head of a model."""
        output = [upload_matrix(gpu, model.output.weight, uploaded)]
        return cls(GPUNorm.of(gpu, model.output_norm, model.width), output, upload_biases(gpu, [model.output]))


def split_gate(attention: Attention) -> tuple[Linear, Linear]:
    """The projections of q and of the gate, where one matrix has the rows of both head by head: copies of its rows."""
    weight, bias, heads = attention.q.weight, attention.q.bias, attention.heads
    q, gate = (Linear(_half(weight, heads, i), bias and _half(bias, heads, i)) for i in range(2))
    return q, gate


def _half(tensor: Tensor, heads: int, i: int) -> Tensor:
    """The first half (`i` 0) or the second half (`i` 1) of the rows of each head."""
    data = np.ascontiguousarray(tensor.data.reshape(heads, 2, -1)[:, i]).reshape(-1)
    return replace(tensor, shape=(tensor.shape[0] // 2, *tensor.shape[1:]), data=data)


def has_projection_norms(attention: Attention) -> bool:
    """Whether q is normed as a whole, and not head by head."""
    norm = attention.q_norm
    return norm is not None and norm.weight is not None and norm.weight.size > attention.key_dim


def _norm(gpu: GPUContext, norm: Norm | None, width: int) -> GPUNorm | None:
    return GPUNorm.of(gpu, norm, width) if norm else None


def _vector(gpu: GPUContext, tensor: Tensor | None) -> Buffer | None:
    return None if tensor is None else upload_vector(gpu, float_values(tensor, tensor.size))


def upload_biases(gpu: GPUContext, projections: Sequence[Linear]) -> Buffer | None:
    """The biases of stacked projections, as one vector; None if there are none."""
    if not any(projection.bias for projection in projections):
        return None
    return upload_vector(gpu, np.concatenate([float_values(p.bias, p.weight.shape[0]) for p in projections]))
