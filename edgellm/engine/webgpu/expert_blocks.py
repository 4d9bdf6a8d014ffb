"""The tensors of mixtures of experts on a GPU: stacks of matrices, in slices of whole matrices that fit a binding."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from edgellm.arch.blocks import StackedLinear
from edgellm.arch.description import Description
from edgellm.arch.mixture import MixtureOfExperts, Router
from edgellm.engine.device import DeviceFault
from edgellm.engine.webgpu.blocks import GPUFeedForward, GPUNorm, upload_biases
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.weights import Matrix, float_values, upload_matrix, upload_vector
from edgellm.gguf import Tensor

Uploaded = Callable[[int], None]


@dataclass(frozen=True)
class StackSlice:
    """Matrices `first` … `first + matrices - 1` of a stack."""

    buffer: Buffer
    first: int
    matrices: int


@dataclass(frozen=True)
class GPUStack:
    """W_i x + b_i for each matrix of a stack, which is `rows` of its `stored` rows, from `first` on.

    `bias` has the biases of all stored rows of all matrices.
    """

    format: str
    rows: int
    first: int
    stored: int
    columns: int
    slices: tuple[StackSlice, ...]
    bias: Buffer | None


class StackUploader:
    """Uploads the stacks of a block, each tensor once: gate and up may be parts of one."""

    def __init__(self, gpu: GPUContext, stacks: list[StackedLinear], uploaded: Uploaded) -> None:
        self._gpu, self._uploaded = gpu, uploaded
        # A dispatch reads the gate and the up projection of the same experts, so that their slices are alike.
        self._most = min(_matrices_of_a_slice(linear.weight, gpu.binding) for linear in stacks)
        self._slices: dict[int, tuple[StackSlice, ...]] = {}
        self._biases: dict[int, Buffer] = {}

    def stack(self, linear: StackedLinear) -> GPUStack:
        """The stack on the GPU."""
        weight, bias = linear.weight, linear.bias
        if id(weight) not in self._slices:
            self._slices[id(weight)] = tuple(self._slices_of(weight))
        if bias and id(bias) not in self._biases:
            self._biases[id(bias)] = upload_vector(self._gpu, float_values(bias, bias.size))
            self._uploaded(bias.nbytes)
        return GPUStack(
            format=weight.type.name,
            rows=linear.rows,
            first=linear.first,
            stored=weight.shape[1],
            columns=weight.shape[2],
            slices=self._slices[id(weight)],
            bias=self._biases[id(bias)] if bias else None,
        )

    def _slices_of(self, weight: Tensor) -> list[StackSlice]:
        slices, nbytes = [], _matrix_bytes(weight)
        for first in range(0, weight.shape[0], self._most):
            count = min(self._most, weight.shape[0] - first)
            buffer = self._gpu.buffer(count * nbytes, weight.name)
            self._gpu.upload(buffer, weight.data[first * nbytes : (first + count) * nbytes], self._uploaded)
            slices.append(StackSlice(buffer, first, count))
        return slices


@dataclass(frozen=True)
class GPURouter:
    """A router: its matrix, and what it adds to scores and multiplies weights by."""

    settings: Router
    logits: list[Matrix]
    bias: Buffer | None
    selection_bias: Buffer | None
    expert_scales: Buffer | None

    @classmethod
    def of(cls, gpu: GPUContext, router: Router, uploaded: Uploaded) -> "GPURouter":
        """Upload a router."""
        vectors = [
            None if tensor is None else upload_vector(gpu, float_values(tensor, router.experts))
            for tensor in (router.selection_bias, router.expert_scales)
        ]
        matrix = upload_matrix(gpu, router.logits.weight, uploaded)
        return cls(router, [matrix], upload_biases(gpu, [router.logits]), *vectors)


class ExpertSizes(NamedTuple):
    """The sizes of a mixture of experts: its experts, those of a row, and the width of each."""

    experts: int
    used: int
    ffn: int

    @classmethod
    def of(cls, block: MixtureOfExperts) -> "ExpertSizes":
        """The sizes of a block."""
        return cls(block.router.experts, block.router.used, block.down.weight.shape[2])


@dataclass(frozen=True)
class GPUMixture:
    """A mixture of experts; `gate_up` are the gate and the up projection, or the latter alone."""

    block: MixtureOfExperts
    norm: GPUNorm
    router: GPURouter
    gate_up: list[GPUStack]
    down: GPUStack
    shared: GPUFeedForward | None
    shared_gate: list[Matrix]
    output_scale: float

    @property
    def sizes(self) -> ExpertSizes:
        """The sizes of the block."""
        return ExpertSizes.of(self.block)

    @classmethod
    def of(
        cls, gpu: GPUContext, model: Description, block: MixtureOfExperts, output_scale: float, uploaded: Uploaded
    ) -> "GPUMixture":
        """Upload a block, which has a norm."""
        assert block.norm, "a mixture without a norm stays on the CPU"
        both = [linear for linear in (block.gate, block.up) if linear]
        first, last = StackUploader(gpu, both, uploaded), StackUploader(gpu, [block.down], uploaded)
        gate = block.shared_gate
        return cls(
            block=block,
            norm=GPUNorm.of(gpu, block.norm, model.width),
            router=GPURouter.of(gpu, block.router, uploaded),
            gate_up=[first.stack(linear) for linear in both],
            down=last.stack(block.down),
            shared=GPUFeedForward.of(gpu, model, block.shared, 1.0, uploaded) if block.shared else None,
            shared_gate=[upload_matrix(gpu, gate.weight, uploaded)] if gate else [],
            output_scale=output_scale,
        )


def _matrix_bytes(weight: Tensor) -> int:
    return weight.nbytes // weight.shape[0]


def _matrices_of_a_slice(weight: Tensor, binding: int) -> int:
    """How many matrices of a stack fit a binding of `binding` bytes. Raises DeviceFault if none does."""
    if (most := binding // _matrix_bytes(weight)) < 1:
        raise DeviceFault(f"an expert of {_matrix_bytes(weight)} bytes does not fit a binding of {binding}")
    return most
