"""A GPU is opened with the blocks that were chosen for it."""

from edgellm.arch.description import Description
from edgellm.engine.backends import Choice
from edgellm.engine.offload import Sizes, Uploading, block_tensors
from edgellm.engine.placement import GPU
from edgellm.engine.webgpu.device import GPUDevice
from edgellm.engine.webgpu.gpu import GPU as Connected  # noqa: N811


def open_gpu(model: Description, sizes: Sizes, choice: Choice, uploading: Uploading) -> GPUDevice:
    """The chosen adapter with its blocks, uploaded. Raises DeviceFault."""
    own = [block for block, on in enumerate(choice.placement) if on == GPU]
    total = sum(tensor.nbytes for block in own for tensor in block_tensors(model, block) if len(tensor.shape) == 2)
    done = 0

    def uploaded(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        uploading(done, total)

    gpu = Connected(choice.handle)
    try:
        return GPUDevice(gpu, model, choice.placement, sizes, uploaded, choice.kv_limit)
    except BaseException:
        gpu.close()
        raise
