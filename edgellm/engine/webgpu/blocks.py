"""The tensors of blocks on a GPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgellm.arch.description import Attention, Description, FeedForward, Linear
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.weights import Matrix, float_values, slice_rows, upload_matrix, upload_vector
from edgellm.gguf import Tensor

Uploaded = Callable[[int], None]
"""Called with the bytes of each step of an upload."""


@dataclass(frozen=True)
class GPUAttention:
    """An attention block; the biases of q, k and v are in one vector, and so are the head norms of q and k."""

    norm: Buffer
    qkv: Sequence[Matrix]
    qkv_bias: Buffer | None
    head_norms: Buffer | None
    output: Sequence[Matrix]
    output_bias: Buffer | None

    @classmethod
    def of(cls, gpu: GPUContext, block: Attention, uploaded: Uploaded) -> "GPUAttention":
        """Upload a block."""
        qkv, norms = (block.q, block.k, block.v), None
        if block.q_norm and block.k_norm:
            head_dim = block.q_norm.shape[0]
            norms = upload_vector(
                gpu, np.concatenate([float_values(t, head_dim) for t in (block.q_norm, block.k_norm)])
            )
        return cls(
            norm=_norm(gpu, block.norm),
            qkv=[upload_matrix(gpu, linear.weight, uploaded) for linear in qkv],
            qkv_bias=_bias(gpu, qkv),
            head_norms=norms,
            output=[upload_matrix(gpu, block.output.weight, uploaded)],
            output_bias=_bias(gpu, [block.output]),
        )


@dataclass(frozen=True)
class GPUFeedForward:
    """A feed-forward. Gate and up projections have two biases or none, of zeros where the model has none."""

    norm: Buffer
    gate_up: Sequence[Matrix]
    gate_up_bias: tuple[Buffer, Buffer] | None
    down: Sequence[Matrix]
    down_bias: Buffer | None

    @classmethod
    def of(cls, gpu: GPUContext, block: FeedForward, uploaded: Uploaded) -> "GPUFeedForward":
        """Upload a block."""
        both, biases = (block.gate, block.up), None
        if block.gate.bias or block.up.bias:
            gate, up = (upload_vector(gpu, float_values(linear.bias, linear.weight.shape[0])) for linear in both)
            biases = gate, up
        most = min(slice_rows(linear.weight, gpu.binding) for linear in both)  # formats may differ; the slices must not
        return cls(
            norm=_norm(gpu, block.norm),
            gate_up=[upload_matrix(gpu, linear.weight, uploaded, most) for linear in both],
            gate_up_bias=biases,
            down=[upload_matrix(gpu, block.down.weight, uploaded)],
            down_bias=_bias(gpu, [block.down]),
        )


@dataclass(frozen=True)
class GPUOutputHead:
    """The output head: the last norm and the output matrix."""

    norm: Buffer
    output: Sequence[Matrix]

    @classmethod
    def of(cls, gpu: GPUContext, model: Description, uploaded: Uploaded) -> "GPUOutputHead":
        """Upload the output head of a model."""
        return cls(_norm(gpu, model.output_norm), [upload_matrix(gpu, model.output, uploaded)])


def _norm(gpu: GPUContext, weight: Tensor) -> Buffer:
    return upload_vector(gpu, float_values(weight, weight.shape[0]))


def _bias(gpu: GPUContext, projections: Sequence[Linear]) -> Buffer | None:
    """The biases of stacked projections, as one vector; None if there are none."""
    if not any(projection.bias for projection in projections):
        return None
    return upload_vector(gpu, np.concatenate([float_values(p.bias, p.weight.shape[0]) for p in projections]))
