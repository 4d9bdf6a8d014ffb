"""The tensors of a block on a GPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgellm.arch.description import Attention, Description, FeedForward, Linear
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.weights import Matrix, floats, piece_rows, upload, vector
from edgellm.gguf import Tensor

Uploaded = Callable[[int], None]
"""Told the bytes of each step of an upload."""


@dataclass(frozen=True)
class GPUAttention:
    """q, k and v below each other, with their biases in one vector; head_norms are those of q, then of k."""

    norm: Buffer
    qkv: Sequence[Matrix]
    qkv_bias: Buffer | None
    head_norms: Buffer | None
    output: Sequence[Matrix]
    output_bias: Buffer | None

    @classmethod
    def of(cls, gpu: GPUContext, block: Attention, uploaded: Uploaded) -> "GPUAttention":
        """A token mixer, uploaded."""
        qkv, norms = (block.q, block.k, block.v), None
        if block.q_norm and block.k_norm:
            head_dim = block.q_norm.shape[0]
            norms = vector(gpu, np.concatenate([floats(t, head_dim) for t in (block.q_norm, block.k_norm)]))
        return cls(
            norm=_norm(gpu, block.norm),
            qkv=[upload(gpu, linear.weight, uploaded) for linear in qkv],
            qkv_bias=_bias(gpu, qkv),
            head_norms=norms,
            output=[upload(gpu, block.output.weight, uploaded)],
            output_bias=_bias(gpu, [block.output]),
        )


@dataclass(frozen=True)
class GPUFeedForward:
    """Gate and up projection, with a bias for each if any has one; then the one down."""

    norm: Buffer
    gate_up: Sequence[Matrix]
    gate_up_bias: tuple[Buffer, Buffer] | None
    down: Sequence[Matrix]
    down_bias: Buffer | None

    @classmethod
    def of(cls, gpu: GPUContext, block: FeedForward, uploaded: Uploaded) -> "GPUFeedForward":
        """A feed-forward, uploaded."""
        both, biases = (block.gate, block.up), None
        if block.gate.bias or block.up.bias:
            gate, up = (vector(gpu, floats(linear.bias, linear.weight.shape[0])) for linear in both)
            biases = gate, up
        most = min(piece_rows(linear.weight, gpu.binding) for linear in both)  # formats may differ: both are cut alike
        return cls(
            norm=_norm(gpu, block.norm),
            gate_up=[upload(gpu, linear.weight, uploaded, most) for linear in both],
            gate_up_bias=biases,
            down=[upload(gpu, block.down.weight, uploaded)],
            down_bias=_bias(gpu, [block.down]),
        )


@dataclass(frozen=True)
class GPUOutputHead:
    """The last norm and the logits."""

    norm: Buffer
    output: Sequence[Matrix]

    @classmethod
    def of(cls, gpu: GPUContext, model: Description, uploaded: Uploaded) -> "GPUOutputHead":
        """The output head, uploaded."""
        return cls(_norm(gpu, model.output_norm), [upload(gpu, model.output, uploaded)])


def _norm(gpu: GPUContext, weight: Tensor) -> Buffer:
    return vector(gpu, floats(weight, weight.shape[0]))


def _bias(gpu: GPUContext, products: Sequence[Linear]) -> Buffer | None:
    """The biases of products whose rows are below each other."""
    if not any(product.bias for product in products):
        return None
    return vector(gpu, np.concatenate([floats(p.bias, p.weight.shape[0]) for p in products]))
