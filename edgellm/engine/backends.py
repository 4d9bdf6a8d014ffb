"""The GPU backends. Each is a folder here with a module `backend`; to add one, add its folder and its name."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from edgellm.arch.description import Description
from edgellm.engine.device import Device, DeviceFault
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload import OffloadRequest, UploadProgress
from edgellm.engine.placement import Placement

BACKENDS = ("webgpu",)
"""In the order in which `find_backend` tries them."""


@dataclass(frozen=True)
class OffloadPlan:
    """The blocks that a GPU gets, the bytes of its memory that they take by part, and notes for the user.

    `available` is the memory (bytes) that is free or may be used; None where it is unknown. `kv_limit` is the most
    bytes that KV pages may take; None for no limit. A GPU that does not answer for `reply_timeout_s` counts as hung.
    `adapter` is the backend's own object for the GPU, None outside the process that opens it. `choice` is a line that
    says why these blocks, where there were others to choose.
    """

    name: str
    placement: Placement
    memory: dict[str, int]
    available: int | None
    notes: list[str]
    reply_timeout_s: float
    adapter: Any
    kv_limit: int | None = None
    choice: str = ""


class GPUBackend(Protocol):
    """The module `backend` of a backend. All but `may_have_gpu` and `fault` raise DeviceFault."""

    def may_have_gpu(self, request: OffloadRequest) -> bool:
        """Whether this machine may have a GPU for the request, found out within milliseconds."""

    def list_gpus(self) -> list[dict[str, Any]]:
        """All GPUs: name, kind, backend, features, and the free bytes of memory, or None."""

    def plan_offload(self, model: Description, limits: BatchLimits, request: OffloadRequest) -> OffloadPlan | None:
        """Which blocks go on which GPU, and why not more; None if none is to be used."""

    def open_device(
        self, model: Description, limits: BatchLimits, plan: OffloadPlan, progress: UploadProgress
    ) -> Device:
        """The GPU with the blocks of the plan. `progress` is called later, too, as a sign of life."""

    def fault(self, name: str, said: str) -> DeviceFault:
        """The fault of the GPU of this name, from an error text of its library."""


def load_backend(name: str) -> GPUBackend:
    """The backend of this name."""
    return cast(GPUBackend, import_module(f"edgellm.engine.{name}.backend"))


def find_backend(request: OffloadRequest) -> str | None:
    """The name of the first backend that may have a GPU for the request; None if no GPU is asked for, or likely."""
    return next((name for name in BACKENDS if request.layers != 0 and load_backend(name).may_have_gpu(request)), None)
