"""What of a model a GPU takes over: what was asked for, made into a device and a placement."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgellm.arch.description import Description, tensors_in
from edgellm.engine.device import Device
from edgellm.engine.placement import CPU, GPU, Placement, last_layers
from edgellm.gguf import Tensor

Uploading = Callable[[int, int], None]
"""Called with (bytes on the GPU, bytes that go there)."""


@dataclass(frozen=True)
class Offload:
    """How many of the last layers go on which GPU (see `edgellm.options.LoadOptions`).

    `memory` is how many bytes may be used there; `strict` makes it an error where the GPU cannot do it.
    """

    layers: int | str = 0
    gpu: str | None = None
    memory: int | None = None
    strict: bool = False


NO_OFFLOAD = Offload()
"""Everything on the CPU."""


def wanted_layers(offload: Offload, layers: int) -> int:
    """How many layers are asked for; one more than there are stands for the output head, too."""
    if offload.layers == "all":
        return layers + 1
    if offload.layers == "auto":
        return 0
    return min(int(offload.layers), layers + 1)


OpenGPU = tuple[Placement, Device]


def open_gpu(
    model: Description, ctx: int, kv_type: str, rows: int, offload: Offload, uploading: Uploading | None
) -> OpenGPU | None:
    """A GPU with the blocks that are asked for; None if none are. Raises DeviceFault where that cannot be."""
    layers = len(model.layers)
    placement = last_layers(layers, wanted_layers(offload, layers))
    if GPU not in placement:
        return None
    from edgellm.engine.webgpu.adapters import choose
    from edgellm.engine.webgpu.device import GPUDevice
    from edgellm.engine.webgpu.gpu import GPU as Open  # noqa: N811

    gpu = Open(choose(offload.gpu))
    return placement, GPUDevice(gpu, model, placement, rows=rows, ctx=ctx, kv_type=kv_type, uploaded=lambda n: None)


def block_tensors(model: Description, block: int) -> list[Tensor]:
    """The tensors of a block (see `edgellm.engine.placement`)."""
    if block == 2 * len(model.layers):
        return [model.output_norm, model.output]
    layer = model.layers[block // 2]
    return list(tensors_in(layer.feed_forward if block % 2 else layer.mixer))


def device_figures(model: Description, placement: Placement, weights: int, gpu: Device | None) -> list[dict[str, Any]]:
    """What runs where: name, blocks, bytes of weights, of a file that has `weights` bytes of them in all.

    An embedding that is the output head, too, is on both.
    """
    own = [tensor for block, on in enumerate(placement) if on == GPU for tensor in block_tensors(model, block)]
    both = model.embedding.nbytes if any(tensor is model.embedding for tensor in own) else 0
    there = sum(tensor.nbytes for tensor in own)
    figures = [{"name": "CPU", "blocks": placement.count(CPU), "bytes": weights - there + both}]
    if gpu:
        figures.append({"name": gpu.name, "blocks": placement.count(GPU), "bytes": there})
    return figures
