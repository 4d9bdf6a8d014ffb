"""Which blocks a GPU can compute, and the memory that they take; known without a GPU."""

from edgellm.arch.description import Description
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload import block_tensors
from edgellm.engine.placement import GPU, Placement, head
from edgellm.engine.webgpu.kv_pages import page_bytes
from edgellm.engine.webgpu.scratch import buffer_bytes
from edgellm.engine.webgpu.shaders import FORMATS, KV_TYPES
from kquants.kv_layout import PAGE

_MAX_HEAD_DIM = 256
"""Four times the lanes of a workgroup: attention has a lane for every four values of a head."""

_RESERVE = 64 << 20
"""Bytes for pipelines, the driver and pending uploads, estimated."""


def unsupported_reason(model: Description, block: int, kv_type: str) -> str | None:
    """The reason why a GPU cannot compute a block; None if it can."""
    missing = {t.type.name for t in block_tensors(model, block) if len(t.shape) == 2} - set(FORMATS)
    if missing:
        return f"weights of type {', '.join(sorted(missing))} stay on the CPU"
    if block % 2 or block == head(len(model.layers)):
        return None
    if kv_type not in KV_TYPES:
        return f"KV pages of type {kv_type} stay on the CPU"
    if model.head_dim % 4 or model.head_dim > _MAX_HEAD_DIM:
        return f"attention with {model.head_dim} values a head stays on the CPU"
    return None


def gpu_memory(model: Description, placement: Placement, limits: BatchLimits) -> dict[str, int]:
    """The bytes of GPU memory that a placement takes with a full context, by part."""
    own = [block for block, on in enumerate(placement) if on == GPU]
    last = head(len(model.layers))
    mixers = sum(block % 2 == 0 and block != last for block in own)
    pages = -(-limits.ctx // PAGE)
    return {
        "weights": sum(tensor.nbytes for block in own for tensor in block_tensors(model, block)),
        "kv_cache": mixers * pages * page_bytes(model, limits.kv_type),
        "activations": sum(buffer_bytes(model, limits, last in own).values()) + _RESERVE,
    }
