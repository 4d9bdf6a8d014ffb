"""The memory of a GPU that a placement takes; known without a GPU."""

from edgellm.arch.description import Description
from edgellm.engine.kv_pages import most_pages
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload import block_tensors
from edgellm.engine.placement import GPU, Placement
from edgellm.engine.webgpu.kv_pages import page_bytes
from edgellm.engine.webgpu.offloaded import OffloadedBlocks
from edgellm.engine.webgpu.scratch import buffer_bytes

_RESERVE = 64 << 20
"""Bytes for pipelines, the driver and pending uploads, estimated."""


def gpu_memory(model: Description, placement: Placement, limits: BatchLimits) -> dict[str, int]:
    """The bytes of GPU memory that a placement takes with a full context, by part."""
    own, blocks = [block for block, on in enumerate(placement) if on == GPU], OffloadedBlocks.of(model, placement)
    kv_bytes = [
        page_bytes(attention, limits.kv_type) * most_pages(attention.window, limits.ctx, limits.rows)
        for attention in blocks.attentions.values()
    ]
    return {
        "weights": sum(tensor.nbytes for block in own for tensor in block_tensors(model, block)),
        "kv_cache": sum(kv_bytes),
        "activations": sum(buffer_bytes(blocks, limits).values()) + _RESERVE,
    }
