"""The WebGPU backend (see `edgellm.engine.backends.GPUBackend`); its functions import wgpu when they are called."""

from typing import Any

from edgellm.arch.description import Description
from edgellm.engine.backends import OffloadPlan
from edgellm.engine.device import Device
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload import OffloadRequest, UploadProgress
from edgellm.engine.webgpu.detection import may_have_gpu
from edgellm.engine.webgpu.faults import fault

__all__ = ["fault", "list_gpus", "may_have_gpu", "open_device", "plan_offload"]


def list_gpus() -> list[dict[str, Any]]:
    """All adapters, real GPUs first: name, kind, backend, features, and the free bytes of memory, or None."""
    from edgellm.engine.webgpu.adapters import adapters
    from edgellm.engine.webgpu.memory import free_memory

    return [
        {"name": each.name, "kind": each.kind, "backend": each.backend}
        | {"features": list(each.features), "free": free_memory(each)}
        for each in adapters()
    ]


def plan_offload(model: Description, limits: BatchLimits, request: OffloadRequest) -> OffloadPlan | None:
    """See `edgellm.engine.webgpu.offload_plan`."""
    from edgellm.engine.webgpu import offload_plan

    return offload_plan.plan_offload(model, limits, request)


def open_device(model: Description, limits: BatchLimits, plan: OffloadPlan, progress: UploadProgress) -> Device:
    """See `edgellm.engine.webgpu.open_device`."""
    from edgellm.engine.webgpu import open_device

    return open_device.open_device(model, limits, plan, progress)
