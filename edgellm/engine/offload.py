"""What of a model a GPU takes over: what was asked for, made into a device and a placement."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from edgellm.arch.description import Description, tensors_in
from edgellm.engine.placement import CPU, GPU, Placement, head
from edgellm.gguf import GGUFFile, Tensor
from edgellm.options import LoadOptions

UploadProgress = Callable[[int, int], None]
"""Called with (bytes on the GPU, bytes that go there)."""


@dataclass(frozen=True)
class BatchLimits:
    """The most rows of a batch and tokens of a sequence, and the type of KV pages."""

    rows: int
    ctx: int
    kv_type: str


@dataclass(frozen=True)
class OffloadRequest:
    """How many of the last layers go on which GPU (see `edgellm.options.LoadOptions`).

    `memory` is how many bytes may be used there; `strict` makes it an error where the GPU cannot do it. With
    `cpu_ffn` the feed-forwards of these layers stay on the CPU.
    """

    layers: int | str = 0
    gpu: str | None = None
    memory: int | None = None
    strict: bool = False
    cpu_ffn: bool = False

    @classmethod
    def of(cls, options: LoadOptions) -> "OffloadRequest":
        """What the options of a model ask for."""
        memory = None if options.gpu_memory is None else int(options.gpu_memory * 1e9)
        return cls(options.gpu_layers, options.gpu, memory, options.gpu_strict, options.cpu_ffn)


NO_OFFLOAD = OffloadRequest()
"""Everything on the CPU."""


@dataclass(frozen=True)
class OffloadTask:
    """What goes on a GPU of the model in a file, and by what another file in its place is known."""

    path: str
    file_identity: tuple[int, ...]
    limits: BatchLimits
    request: OffloadRequest

    @classmethod
    def of(cls, file: GGUFFile, limits: BatchLimits, request: OffloadRequest) -> "OffloadTask":
        """The same for an open file."""
        return cls(str(file.path.absolute()), file_identity(file), limits, request)


def file_identity(file: GGUFFile) -> tuple[int, ...]:
    """When the parts of a file were changed last, and their sizes; nothing if they are gone."""
    with suppress(OSError):
        found = [path.stat() for path in file.paths]
        return tuple(n for each in found for n in (each.st_mtime_ns, each.st_size))
    return ()


def block_tensors(model: Description, block: int) -> list[Tensor]:
    """The tensors of a block (see `edgellm.engine.placement`)."""
    if block == head(len(model.layers)):
        return [model.output_norm, model.output]
    layer = model.layers[block // 2]
    return list(tensors_in(layer.feed_forward if block % 2 else layer.mixer))


def device_figures(model: Description, placement: Placement, weights: int, gpu: str | None) -> list[dict[str, Any]]:
    """What runs where: name, blocks, bytes of weights, of a file that has `weights` bytes of them in all.

    `gpu` is the name of the one that has the other blocks.
    An embedding that is the output head, too, is on both.
    """
    own = [tensor for block, on in enumerate(placement) if on == GPU for tensor in block_tensors(model, block)]
    both = model.embedding.nbytes if any(tensor is model.embedding for tensor in own) else 0
    there = sum(tensor.nbytes for tensor in own)
    figures = [{"name": "CPU", "blocks": placement.count(CPU), "bytes": weights - there + both}]
    if gpu:
        figures.append({"name": gpu, "blocks": placement.count(GPU), "bytes": there})
    return figures
