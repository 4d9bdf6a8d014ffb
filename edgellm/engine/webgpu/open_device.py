"""A GPU is opened with the blocks that were chosen for it."""

from edgellm.arch.description import Description
from edgellm.engine.backends import OffloadPlan
from edgellm.engine.offload import BatchLimits, UploadProgress, block_tensors
from edgellm.engine.placement import GPU
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.device import GPUDevice


def open_gpu(model: Description, limits: BatchLimits, plan: OffloadPlan, uploading: UploadProgress) -> GPUDevice:
    """The chosen adapter with its blocks, uploaded. Raises DeviceFault."""
    own = [block for block, on in enumerate(plan.placement) if on == GPU]
    total = sum(tensor.nbytes for block in own for tensor in block_tensors(model, block) if len(tensor.shape) == 2)
    done = 0

    def uploaded(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        uploading(done, total)

    gpu = GPUContext(plan.adapter)
    try:
        return GPUDevice(gpu, model, plan.placement, limits, uploaded, plan.kv_limit)
    except BaseException:
        gpu.close()
        raise
