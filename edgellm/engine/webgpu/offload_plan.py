"""From what was asked for to blocks: which adapter, and how many layers fit its memory."""

from dataclasses import dataclass

from edgellm.arch.description import Description
from edgellm.engine.backends import OffloadPlan
from edgellm.engine.device import DeviceFault
from edgellm.engine.offload import BatchLimits, OffloadRequest
from edgellm.engine.placement import CPU, GPU, last_layers, mixers_only
from edgellm.engine.webgpu.adapters import Adapter, select_adapter
from edgellm.engine.webgpu.fit import gpu_memory, unsupported_reason
from edgellm.engine.webgpu.memory import free_memory

MARGIN = 0.9
"""The share of a GPU's free memory that `auto` fills: the screen and other programs want some, too."""

_REPLY_TIMEOUT_S, _SOFTWARE_REPLY_TIMEOUT_S = 60.0, 600.0


@dataclass(frozen=True)
class _Planner:
    """Fits the last layers of a model to an adapter, of which `free` bytes are known to be free."""

    model: Description
    limits: BatchLimits
    offload: OffloadRequest
    adapter: Adapter
    free: int | None

    def plan_layers(self, n: int) -> OffloadPlan:
        """The last `n` layers, but for the blocks that are to stay on the CPU or that a GPU cannot compute."""
        wanted = last_layers(len(self.model.layers), n)
        if self.offload.cpu_ffn:
            wanted = mixers_only(wanted)
        reasons = [
            unsupported_reason(self.model, block, self.limits.kv_type) if on == GPU else None
            for block, on in enumerate(wanted)
        ]
        placement = tuple(CPU if why else on for on, why in zip(wanted, reasons, strict=True))
        memory, limit = gpu_memory(self.model, placement, self.limits), self.offload.memory
        return OffloadPlan(
            self.adapter.name,
            placement,
            memory,
            self.offload.memory or self.free,
            list(dict.fromkeys(why for why in reasons if why)),
            _SOFTWARE_REPLY_TIMEOUT_S if self.adapter.kind == "software" else _REPLY_TIMEOUT_S,
            self.adapter,
            None if limit is None else limit - memory["weights"] - memory["activations"],
        )

    def plan_within(self, asked: int, room: int) -> OffloadPlan:
        """As many of the last `asked` layers as fit into so many bytes; a note says why not all do."""
        needed = {n: sum(self.plan_layers(n).memory.values()) for n in range(asked, 0, -1)}
        n = next((n for n, nbytes in needed.items() if nbytes <= room), 0)
        plan = self.plan_layers(n)
        if n < asked and (self.offload.layers != "auto" or not n):
            what = f"{n} of {asked} layers fit" if n else f"one layer takes {needed[1] / 1e9:.2g} GB: none fits"
            plan.notes.append(f"{what} {room / 1e9:.2g} GB of {self.adapter.name}")
        return plan


def plan_offload(model: Description, limits: BatchLimits, offload: OffloadRequest) -> OffloadPlan | None:
    """What `offload` asks for on this machine; None if that is nothing. Raises DeviceFault where it cannot be."""
    automatic = offload.layers == "auto"
    try:
        adapter = select_adapter(offload.gpu)
    except DeviceFault:
        if automatic and offload.gpu is None:
            return None
        raise
    if automatic and offload.gpu is None and adapter.kind != "discrete GPU":
        return None
    everything = len(model.layers) + 1
    asked = everything if isinstance(offload.layers, str) else min(offload.layers, everything)
    room, free = offload.memory, free_memory(adapter)
    planner = _Planner(model, limits, offload, adapter, free)
    if automatic and room is None:
        if free is None:
            plan = planner.plan_layers(0)
            plan.notes.append(f"what memory {adapter.name} has is not known; give --gpu-memory GB or --gpu-layers N")
            return plan
        room = int(MARGIN * free)
    return planner.plan_layers(asked) if room is None else planner.plan_within(asked, room)
