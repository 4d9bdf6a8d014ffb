"""A request for a GPU: how many layers of a model, on which GPU, within how much memory."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from edgellm.arch.description import Description, tensors_in
from edgellm.engine.limits import BatchLimits
from edgellm.engine.placement import CPU, GPU, Placement, head
from edgellm.gguf import GGUFFile, Tensor
from edgellm.options import LoadOptions

UploadProgress = Callable[[int, int], None]
"""Called with (bytes on the GPU, bytes that go there)."""


@dataclass(frozen=True)
class OffloadRequest:
    """How many layers go on which GPU, from the last one that it can compute back (see `edgellm.options.LoadOptions`).

    `memory` is the most bytes to use there. With `strict` it is an error if the GPU cannot be used as asked. With
    `cpu_ffn` the feed-forwards of these layers stay on the CPU, and with `cpu_head` the output head.
    """

    layers: int | str = 0
    gpu: str | None = None
    memory: int | None = None
    strict: bool = False
    cpu_ffn: bool = False
    cpu_head: bool = False

    @classmethod
    def of(cls, options: LoadOptions) -> "OffloadRequest":
        """The request that the options of a model make."""
        memory = None if options.gpu_memory is None else int(options.gpu_memory * 1e9)
        return cls(options.gpu_layers, options.gpu, memory, options.gpu_strict, options.cpu_ffn)


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
    """The tensors of a block (see `edgellm.engine.placement`)."""
    if block == head(len(model.layers)):
        return list(tensors_in([model.output_norm, model.output]))
    layer = model.layers[block // 2]
    return list(tensors_in(layer.feed_forward if block % 2 else layer.mixer))


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
