"""WebGPU as a kind of GPU (see `edgellm.engine.backends`). What needs wgpu is imported when a GPU is asked for."""

from typing import Any

from edgellm.arch.description import Description
from edgellm.engine.backends import OffloadPlan
from edgellm.engine.device import Device
from edgellm.engine.offload import BatchLimits, OffloadRequest, UploadProgress
from edgellm.engine.webgpu.detection import may_have_gpu
from edgellm.engine.webgpu.faults import fault

__all__ = ["fault", "list_gpus", "may_have_gpu", "open", "plan_offload"]


def list_gpus() -> list[dict[str, Any]]:
    """All adapters, real GPUs first."""
    from edgellm.engine.webgpu.adapters import adapters
    from edgellm.engine.webgpu.memory import free_memory

    return [
        {"name": each.name, "kind": each.kind, "backend": each.backend}
        | {"features": list(each.features), "free": free_memory(each)}
        for each in adapters()
    ]


def plan_offload(model: Description, limits: BatchLimits, offload: OffloadRequest) -> OffloadPlan | None:
    """What goes on which adapter."""
    from edgellm.engine.webgpu.offload_plan import plan_offload

    return plan_offload(model, limits, offload)


def open(model: Description, limits: BatchLimits, plan: OffloadPlan, uploading: UploadProgress) -> Device:
    """An adapter with its blocks."""
    from edgellm.engine.webgpu.open_device import open_gpu

    return open_gpu(model, limits, plan, uploading)
