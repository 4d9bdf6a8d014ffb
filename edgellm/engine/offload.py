"""A request for a GPU: how many layers of a model, on which GPU, within how much memory."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from edgellm.arch.description import Description, tensors_in
from edgellm.arch.mixture import MixtureOfExperts
from edgellm.engine.limits import BatchLimits
from edgellm.engine.placement import CPU, GPU, Placement, feed_forward, head, mixer
from edgellm.fmt import counted
from edgellm.gguf import GGUFFile, Tensor
from edgellm.options import LoadOptions

UploadProgress = Callable[[int, int], None]
"""Called with (bytes on the GPU, bytes that go there)."""


@dataclass(frozen=True)
class OffloadRequest:
    """How many layers go on which GPU, from the last one that it can compute back (see `edgellm.options.LoadOptions`).

    `memory` is the most bytes to use there. With `strict` it is an error if the GPU cannot be used as asked. With
    `cpu_ffn` the feed-forwards of these layers stay on the CPU, with `cpu_moe` those that are mixtures of experts, with
    `n_cpu_moe` those in the first layers of the model, and with `cpu_head` the output head. With `was_auto` the
    number of layers is what was left of `auto` when the GPU's memory was full.
    """

    layers: int | str = 0
    gpu: str | None = None
    memory: int | None = None
    strict: bool = False
    cpu_ffn: bool = False
    cpu_moe: bool = False
    n_cpu_moe: int | None = None
    cpu_head: bool = False
    was_auto: bool = False

    @classmethod
    def of(cls, options: LoadOptions) -> "OffloadRequest":
        """The request that the options of a model make."""
        memory, on_cpu = None if options.gpu_memory is None else int(options.gpu_memory * 1e9), options
        kept = on_cpu.cpu_ffn, on_cpu.cpu_moe, on_cpu.n_cpu_moe
        return cls(options.gpu_layers, options.gpu, memory, options.gpu_strict, *kept)

    @property
    def leaves_experts_open(self) -> bool:
        """Whether no option says which experts stay on the CPU."""
        return not self.cpu_ffn and not self.cpu_moe and self.n_cpu_moe is None

    @property
    def weighs_crossings(self) -> bool:
        """Whether blocks stay on the CPU where the GPU saves less time than the hidden state takes there and back."""
        return self.was_auto or self.layers == "auto"

    def kept_on_cpu(self, model: Description) -> frozenset[int]:
        """The blocks that stay on the CPU whatever the GPU can compute, but for the output head."""
        if self.cpu_ffn:
            return frozenset(map(feed_forward, range(len(model.layers))))
        first = len(model.layers) if self.cpu_moe else self.n_cpu_moe or 0
        return frozenset(block for block in expert_blocks(model) if block // 2 < first)


NO_OFFLOAD = OffloadRequest()
"""Everything on the CPU."""


@dataclass(frozen=True)
class OffloadTask:
    """A request for the model in a file, as the process of the GPU gets it; see `file_identity`."""

    path: str
    file_identity: tuple[int, ...]
    limits: BatchLimits
    request: OffloadRequest

    @classmethod
    def of(cls, file: GGUFFile, limits: BatchLimits, request: OffloadRequest) -> "OffloadTask":
        """The task for an open file."""
        return cls(str(file.path.absolute()), file_identity(file), limits, request)


def file_identity(file: GGUFFile) -> tuple[int, ...]:
    """The time of the last change and the size of each part of a file, which tell it from another file of its name.

    Empty if a part is gone.
    """
    with suppress(OSError):
        found = [path.stat() for path in file.paths]
        return tuple(n for each in found for n in (each.st_mtime_ns, each.st_size))
    return ()


def block_tensors(model: Description, block: int) -> list[Tensor]:
    """The tensors of a block (see `edgellm.engine.placement`), each once."""
    if block == head(len(model.layers)):
        found = tensors_in([model.output_norm, model.output])
    else:
        layer = model.layers[block // 2]
        found = tensors_in(layer.feed_forward if block % 2 else [layer.attention, layer.recurrent])
    return list({id(tensor): tensor for tensor in found}.values())


def expert_blocks(model: Description) -> list[int]:
    """The blocks that are mixtures of experts."""
    layers = enumerate(model.layers)
    return [feed_forward(i) for i, layer in layers if isinstance(layer.feed_forward, MixtureOfExperts)]


def recurrent_blocks(model: Description) -> list[int]:
    """The blocks with a recurrent mixer, alone or beside attention."""
    return [mixer(i) for i, layer in enumerate(model.layers) if layer.recurrent]


def empty_blocks(model: Description) -> list[int]:
    """The blocks that compute nothing, as their layer has no mixer or no feed-forward."""
    layers = enumerate(model.layers)
    return [
        block
        for i, layer in layers
        for block, is_there in ((mixer(i), layer.attention or layer.recurrent), (feed_forward(i), layer.feed_forward))
        if not is_there
    ]


def expert_option_note(model: Description, options: LoadOptions, placement: Placement | None = None) -> str | None:
    """A line about an option for experts that changes nothing.

    The model has none, or none is in the layers that the option names, or with `placement` these are not on the GPU.
    """
    if not options.cpu_moe and not options.n_cpu_moe:
        return None
    kept = OffloadRequest.of(options).kept_on_cpu(model)
    if kept and (placement is None or any(placement[block - 1] == GPU for block in kept)):
        return None
    why = "none of the layers with these experts is on the GPU" if kept else "the model has no experts"
    if not kept and expert_blocks(model):
        why = f"the model has no experts in its first {counted(options.n_cpu_moe or 0, 'layer')}"
    return f"{why}: --{'cpu-moe' if options.cpu_moe else 'n-cpu-moe'} changes nothing"


def active_bytes(model: Description, block: int) -> int:
    """Bytes of the weights of a block that a token reads: of a mixture of experts, those of the experts it uses."""
    tensors = block_tensors(model, block)
    part = None if block == head(len(model.layers)) or block % 2 == 0 else model.layers[block // 2].feed_forward
    if not isinstance(part, MixtureOfExperts):
        return sum(tensor.nbytes for tensor in tensors)
    return sum(tensor.nbytes for tensor in tensors) - part.expert_bytes + part.used_bytes


def active_bytes_by_device(model: Description, placement: Placement) -> list[int]:
    """Bytes of the weights that a token reads on the CPU and on the GPU, without the row of the embedding."""
    active = [0, 0]
    for block, device in enumerate(placement):
        active[device] += active_bytes(model, block)
    return active


def device_figures(model: Description, placement: Placement, weights: int, gpu: str | None) -> list[dict[str, Any]]:
    """Name, number of blocks and bytes of weights of the CPU, and of the GPU if its name is given.

    `weights` is the size of all weights of the file. An embedding that is the output head as well is on both devices.
    """
    on_gpu = [tensor for block, on in enumerate(placement) if on == GPU for tensor in block_tensors(model, block)]
    shared = model.embedding.nbytes if any(tensor is model.embedding for tensor in on_gpu) else 0
    gpu_bytes = sum(tensor.nbytes for tensor in on_gpu)
    figures = [{"name": "CPU", "blocks": placement.count(CPU), "bytes": weights - gpu_bytes + shared}]
    if gpu:
        figures.append({"name": gpu, "blocks": placement.count(GPU), "bytes": gpu_bytes})
    return figures
