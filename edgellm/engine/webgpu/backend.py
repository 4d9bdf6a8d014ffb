"""WebGPU as a kind of GPU (see `edgellm.engine.backends`). What needs wgpu is imported when a GPU is asked for."""

from typing import Any

from edgellm.arch.description import Description
from edgellm.engine.backends import Choice
from edgellm.engine.device import Device
from edgellm.engine.offload import Offload, Sizes, Uploading
from edgellm.engine.webgpu.faults import fault
from edgellm.engine.webgpu.presence import worth_looking

__all__ = ["choose", "fault", "listed", "open", "worth_looking"]


def listed() -> list[dict[str, Any]]:
    """All adapters, real GPUs first."""
    from edgellm.engine.webgpu.adapters import adapters
    from edgellm.engine.webgpu.memory import free_memory

    return [
        {"name": each.name, "kind": each.kind, "backend": each.backend}
        | {"features": list(each.features), "free": free_memory(each)}
        for each in adapters()
    ]


def choose(model: Description, sizes: Sizes, offload: Offload) -> Choice | None:
    """What goes on which adapter."""
    from edgellm.engine.webgpu.offload_plan import choose_blocks

    return choose_blocks(model, sizes, offload)


def open(model: Description, sizes: Sizes, choice: Choice, uploading: Uploading) -> Device:
    """An adapter with its blocks."""
    from edgellm.engine.webgpu.opening import open_gpu

    return open_gpu(model, sizes, choice, uploading)
