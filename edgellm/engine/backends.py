"""The kinds of GPUs: a folder here each, with a module `backend`. A new one is such a folder, and its name in BACKENDS."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from edgellm.arch.description import Description
from edgellm.engine.device import Device, DeviceFault
from edgellm.engine.offload import BatchLimits, OffloadRequest, UploadProgress
from edgellm.engine.placement import Placement

BACKENDS = ("webgpu",)
"""In the order in which they are asked whether there may be a GPU of theirs."""


@dataclass(frozen=True)
class OffloadPlan:
    """The blocks that a GPU gets, the bytes that they take there by part, and what a person should know about that.

    `available` bytes of its memory are free, or may be used; None where nobody tells. `kv_limit` is the most bytes that
    KV pages may take there; None where nobody set a limit. If it does not answer for `reply_timeout_s` it counts as hung.
    `handle` is for its kind.
    """

    name: str
    placement: Placement
    memory: dict[str, int]
    available: int | None
    notes: list[str]
    reply_timeout_s: float
    adapter: Any
    kv_limit: int | None = None


class GPUBackend(Protocol):
    """What the engine, the plan and the list of devices ask of a kind of GPU. The middle ones raise DeviceFault."""

    def may_have_gpu(self, offload: OffloadRequest) -> bool:
        """Whether there may be a GPU for what is asked, found out in no time."""

    def list_gpus(self) -> list[dict[str, Any]]:
        """All GPUs: name, kind, backend, features, and the free bytes of memory, or None."""

    def plan_offload(self, model: Description, limits: BatchLimits, offload: OffloadRequest) -> OffloadPlan | None:
        """What goes on which GPU, and why not more; None where nothing is asked for."""

    def open(self, model: Description, limits: BatchLimits, plan: OffloadPlan, uploading: UploadProgress) -> Device:
        """A GPU with the blocks that were chosen. `uploading` is called later, too, as a sign of life."""

    def fault(self, name: str, said: str) -> DeviceFault:
        """What happened to the GPU of this name, of which its library said this."""


def load_backend(name: str) -> GPUBackend:
    """The kind of this name."""
    return cast(GPUBackend, import_module(f"edgellm.engine.{name}.backend"))


def find_backend(offload: OffloadRequest) -> str | None:
    """The name of the first kind that may have a GPU for what is asked; None if nothing is, or none may have."""
    return next((name for name in BACKENDS if offload.layers != 0 and load_backend(name).may_have_gpu(offload)), None)
