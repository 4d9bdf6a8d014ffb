"""From a request to a plan: which adapter, and how many layers fit its memory."""

from dataclasses import dataclass

from edgellm.arch.description import Description
from edgellm.engine.backends import OffloadPlan
from edgellm.engine.device import DeviceFault
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload import OffloadRequest
from edgellm.engine.placement import CPU, GPU, last_layers, mixers_only
from edgellm.engine.webgpu.adapters import Adapter, select_adapter
from edgellm.engine.webgpu.fit import gpu_memory, unsupported_reason
from edgellm.engine.webgpu.memory import free_memory

MARGIN = 0.9
"""The share of a GPU's free memory that `auto` uses; the rest is left to the screen and other programs."""

_REPLY_TIMEOUT_S, _SOFTWARE_REPLY_TIMEOUT_S = 60.0, 600.0


@dataclass(frozen=True)
class _Planner:
    """Plans for the last layers of a model on an adapter with `free` bytes of memory (None: unknown)."""

    model: Description
    limits: BatchLimits
    request: OffloadRequest
    adapter: Adapter
    free: int | None

    def plan_layers(self, n: int) -> OffloadPlan:
        """A plan for the last `n` layers without the blocks that must stay on the CPU."""
        wanted = last_layers(len(self.model.layers), n)
        if self.request.cpu_ffn:
            wanted = mixers_only(wanted)
        kv_type = self.limits.kv_type
        reasons = [unsupported_reason(self.model, i, kv_type) if on == GPU else None for i, on in enumerate(wanted)]
        placement = tuple(CPU if why else on for on, why in zip(wanted, reasons, strict=True))
        memory, limit = gpu_memory(self.model, placement, self.limits), self.request.memory
        return OffloadPlan(
            name=self.adapter.name,
            placement=placement,
            memory=memory,
            available=self.request.memory or self.free,
            notes=list(dict.fromkeys(why for why in reasons if why)),
            reply_timeout_s=_SOFTWARE_REPLY_TIMEOUT_S if self.adapter.kind == "software" else _REPLY_TIMEOUT_S,
            adapter=self.adapter,
            kv_limit=None if limit is None else limit - memory["weights"] - memory["activations"],
        )

    def plan_within(self, asked: int, room: int) -> OffloadPlan:
        """A plan for as many of the last `asked` layers as fit into `room` bytes; a note says why not for all."""
        needed = {n: sum(self.plan_layers(n).memory.values()) for n in range(asked, 0, -1)}
        n = next((n for n, nbytes in needed.items() if nbytes <= room), 0)
        plan = self.plan_layers(n)
        if n < asked and (self.request.layers != "auto" or not n):
            what = f"{n} of {asked} layers fit" if n else f"one layer takes {needed[1] / 1e9:.2g} GB: none fits"
            plan.notes.append(f"{what} {room / 1e9:.2g} GB of {self.adapter.name}")
        return plan


def plan_offload(model: Description, limits: BatchLimits, request: OffloadRequest) -> OffloadPlan | None:
    """The plan for a request on this machine; None if no GPU is to be used. Raises DeviceFault if it cannot be met."""
    automatic = request.layers == "auto"
    try:
        adapter = select_adapter(request.gpu)
    except DeviceFault:
        if automatic and request.gpu is None:
            return None
        raise
    if automatic and request.gpu is None and adapter.kind != "discrete GPU":
        return None
    everything = len(model.layers) + 1
    asked = everything if isinstance(request.layers, str) else min(request.layers, everything)
    room, free = request.memory, free_memory(adapter)
    planner = _Planner(model, limits, request, adapter, free)
    if automatic and room is None:
        if free is None:
            plan = planner.plan_layers(0)
            plan.notes.append(f"what memory {adapter.name} has is not known; give --gpu-memory GB or --gpu-layers N")
            return plan
        room = int(MARGIN * free)
    return planner.plan_layers(asked) if room is None else planner.plan_within(asked, room)
