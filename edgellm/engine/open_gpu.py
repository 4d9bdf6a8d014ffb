"""Opening a GPU as a request asks, with fewer layers where its memory is full."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from edgellm.engine.backends import OffloadPlan, find_backend, load_backend
from edgellm.engine.device import Device, DeviceFault
from edgellm.engine.offload import OffloadTask, UploadProgress
from edgellm.engine.placement import GPU, Placement, fewer_layers, is_split, on_cpu
from edgellm.errors import EdgeLLMError, EdgeLLMWarning

if TYPE_CHECKING:
    from edgellm.engine.gpu_process import DeviceProxy


class GPUOpener:
    """Opens a GPU for a model of `layers` layers. Faults become warnings, or with `strict` errors.

    Experts that `auto` left on the CPU stay there when a GPU is opened again for fewer layers.
    """

    def __init__(self, task: OffloadTask, layers: int) -> None:
        self._task, self._layers = task, layers
        self._keeps_experts = False

    def open(self, layers: int | str, progress: UploadProgress | None = None) -> tuple[Placement, Device | None]:
        """The placement of all blocks, and the GPU if it has any: those of the last `layers`, or of fewer.

        Raises EdgeLLMError as `report` does.
        """
        request = replace(self._task.request, layers=layers)
        if layers != self._task.request.layers and self._task.request.layers == "auto":
            request = replace(request, was_auto=True)
        if self._keeps_experts and request.leaves_experts_open:
            request = replace(request, cpu_moe=True)
        try:
            opened = open_gpu(replace(self._task, request=request), progress or (lambda done, total: None))
        except DeviceFault as fault:
            self.report(fault, fault.fewer)
            self._keeps_experts |= fault.was_split
            return self.open(fault.fewer, progress)
        if not opened:
            return on_cpu(self._layers), None
        device, plan = opened
        self._keeps_experts |= is_split(plan.placement)
        for note in plan.notes:
            _warn(note)
        return plan.placement, device

    def report(self, fault: DeviceFault, fewer: int) -> None:
        """Warn that `fewer` layers are tried on the GPU, or that the CPU computes; with `strict` raise EdgeLLMError."""
        if self._task.request.strict:
            raise EdgeLLMError(f"{fault}; without --gpu-strict the CPU would compute")
        _warn(f"{fault}: trying fewer layers ({fewer})" if fewer else fault.with_fallback())


def _warn(line: str) -> None:
    warnings.warn(line, EdgeLLMWarning, stacklevel=2)


def open_gpu(task: OffloadTask, progress: UploadProgress) -> "tuple[DeviceProxy, OffloadPlan] | None":
    """A GPU with its blocks uploaded, and the plan for it; None if none is to be used. Raises DeviceFault."""
    name = find_backend(task.request)
    if name is None:
        return None
    from edgellm.engine.gpu_process import DeviceProxy  # imports what starts a process, which is rarely needed

    device = DeviceProxy(load_backend(name).fault)
    try:
        if plan := _plan(device, name, task):
            _upload(device, plan, progress)
            return device, plan
    except BaseException:
        device.close()
        raise
    device.close()
    return None


def _plan(device: "DeviceProxy", backend: str, task: OffloadTask) -> OffloadPlan | None:
    """The plan; None if nothing goes on the GPU and the request names neither a GPU nor a number of layers."""
    plan, request = device.plan_offload(backend, task), task.request
    if plan and request.layers == "auto" and request.gpu is None:
        plan.notes.clear()
    if plan and plan.notes and (request.strict or GPU not in plan.placement):
        raise DeviceFault("; ".join(plan.notes))
    return plan if plan and GPU in plan.placement else None


def _upload(device: "DeviceProxy", plan: OffloadPlan, progress: UploadProgress) -> None:
    try:
        device.upload(progress)
    except DeviceFault as fault:
        if fault.out_of_memory:
            fault.fewer, fault.was_split = fewer_layers(plan.placement), is_split(plan.placement)
        raise
