"""Opening an adapter with the blocks of a plan."""

from edgellm.arch.description import Description
from edgellm.engine.backends import OffloadPlan
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload import UploadProgress, block_tensors
from edgellm.engine.placement import GPU
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.device import GPUDevice


def open_device(model: Description, limits: BatchLimits, plan: OffloadPlan, progress: UploadProgress) -> GPUDevice:
    """The adapter of the plan with its blocks, uploaded. Raises DeviceFault."""
    own = [block for block, on in enumerate(plan.placement) if on == GPU]
    total = sum(tensor.nbytes for block in own for tensor in block_tensors(model, block) if len(tensor.shape) > 1)
    done = 0

    def uploaded(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        progress(done, total)

    gpu = GPUContext(plan.adapter)
    try:
        return GPUDevice(gpu, model, plan.placement, limits, uploaded, plan.kv_limit)
    except BaseException:
        gpu.close()
        raise
