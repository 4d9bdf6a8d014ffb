"""From what is asked for to a GPU with its blocks, if there is one."""

from typing import TYPE_CHECKING

from edgellm.engine.backends import OffloadPlan, find_backend, load_backend
from edgellm.engine.device import DeviceFault
from edgellm.engine.offload import OffloadTask, UploadProgress
from edgellm.engine.placement import GPU, fewer_layers

if TYPE_CHECKING:
    from edgellm.engine.gpu_process import DeviceProxy


def open_gpu(task: OffloadTask, uploading: UploadProgress) -> "tuple[DeviceProxy, OffloadPlan] | None":
    """A GPU that has the blocks that were chosen; None if that is nothing. Raises DeviceFault where it cannot be."""
    name = find_backend(task.request)
    if name is None:
        return None
    from edgellm.engine.gpu_process import DeviceProxy  # with what it takes to start a process: most never do

    device = DeviceProxy(load_backend(name).fault)
    try:
        if plan := _plan(device, name, task):
            _upload(device, plan, uploading)
            return device, plan
    except BaseException:
        device.close()
        raise
    device.close()
    return None


def _plan(device: "DeviceProxy", name: str, task: OffloadTask) -> OffloadPlan | None:
    """What goes there; None if that is nothing and nobody asked for a certain GPU or number of layers."""
    plan, offload = device.plan_offload(name, task), task.request
    if plan and offload.layers == "auto" and offload.gpu is None:
        plan.notes.clear()
    if plan and plan.notes and (offload.strict or GPU not in plan.placement):
        raise DeviceFault("; ".join(plan.notes))
    return plan if plan and GPU in plan.placement else None


def _upload(device: "DeviceProxy", plan: OffloadPlan, uploading: UploadProgress) -> None:
    try:
        device.upload(uploading)
    except DeviceFault as fault:
        if fault.out_of_memory:
            fault.fewer = fewer_layers(plan.placement)
        raise
