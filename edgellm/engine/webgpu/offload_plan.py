"""From a request to a plan: which adapter, and how many layers fit its memory."""

from dataclasses import dataclass, replace
from functools import cached_property

from edgellm.arch.description import Description
from edgellm.engine.backends import OffloadPlan
from edgellm.engine.device import DeviceFault
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload import OffloadRequest, empty_blocks, expert_blocks, recurrent_blocks
from edgellm.engine.offload_cost import CROSSING_S, without_losses
from edgellm.engine.placement import (
    CPU,
    GPU,
    Placement,
    blocks,
    feed_forward,
    head,
    longest_run,
    mixer,
    with_empty_blocks,
)
from edgellm.engine.webgpu.adapters import Adapter, select_adapter
from edgellm.engine.webgpu.expert_choice import ExpertChoice
from edgellm.engine.webgpu.fit import gpu_memory
from edgellm.engine.webgpu.memory import free_memory
from edgellm.engine.webgpu.obstacles import obstacle
from edgellm.fmt import counted

MARGIN = 0.9
"""The share of a GPU's free memory that `auto` uses; the rest is left to the screen and other programs."""

_REPLY_TIMEOUT_S, _SOFTWARE_REPLY_TIMEOUT_S = 60.0, 600.0


@dataclass(frozen=True)
class _Planner:
    """Plans for layers of a model on an adapter with `free` bytes of memory (None: unknown)."""

    model: Description
    limits: BatchLimits
    request: OffloadRequest
    adapter: Adapter
    free: int | None

    @cached_property
    def obstacles(self) -> list[str | None]:
        """What there is no shader for in each block; None if the GPU can compute it."""
        return [obstacle(self.model, block, self.limits.kv_type) for block in range(blocks(len(self.model.layers)))]

    @cached_property
    def _experts(self) -> list[int]:
        return expert_blocks(self.model)

    @cached_property
    def _recurrent(self) -> list[int]:
        return recurrent_blocks(self.model)

    @cached_property
    def _empty(self) -> list[int]:
        return empty_blocks(self.model)

    def _asked(self, n: int, cpu_moe: int = 0) -> Placement:
        """`n` layers on the GPU but for recurrent mixers, and the experts of the first `cpu_moe` layers."""
        able = [each is None for each in self.obstacles]
        of_first = {block for block in self._experts if block // 2 < cpu_moe or not able[block]}
        kept = self.request.kept_on_cpu(self.model) | of_first | {*self._recurrent}
        return longest_run(able, n, kept=kept, cpu_head=self.request.cpu_head)

    def _placement(self, n: int, cpu_moe: int = 0) -> Placement:
        """As `_asked`, without blocks between recurrent mixers that save no time, if the request weighs crossings."""
        placement = with_empty_blocks(self._asked(n, cpu_moe), self._empty)
        is_weighed = self._recurrent and self.request.weighs_crossings
        return without_losses(self.model, placement) if is_weighed else placement

    def plan_layers(self, n: int, cpu_moe: int = 0) -> OffloadPlan:
        """A plan for `n` layers: the longest run of blocks that the GPU can compute, or the last layers of it.

        Recurrent mixers stay on the CPU, and so do experts without a shader, and those of the first `cpu_moe` layers of
        the model.
        """
        placement = self._placement(n, cpu_moe)
        losing = [b for b, device in enumerate(self._asked(n, cpu_moe)) if device == GPU != placement[b]]
        losing = [block for block in losing if block not in self._empty]
        memory = gpu_memory(self.model, placement, self.limits)
        return OffloadPlan(
            name=self.adapter.name,
            placement=placement,
            memory=memory,
            available=self.request.memory or self.free,
            notes=self._notes(placement, n, losing),
            reply_timeout_s=_SOFTWARE_REPLY_TIMEOUT_S if self.adapter.kind == "software" else _REPLY_TIMEOUT_S,
            adapter=self.adapter,
            kv_limit=self._kv_limit(memory),
            choice=_why_losing(losing),
        )

    def _kv_limit(self, memory: dict[str, int]) -> int | None:
        """The most bytes of KV pages of all sequences, beside the other parts of `memory`.

        They are what is left of the memory that is given; else of that which is free, but enough for a full sequence.
        None where the driver does not tell what is free.
        """
        others = memory["weights"] + memory["activations"]
        if self.request.memory is not None:
            return self.request.memory - others
        return None if self.free is None else max(memory["kv_cache"], int(MARGIN * self.free) - others)

    def _notes(self, placement: Placement, n: int, losing: list[int]) -> list[str]:
        """A line about what the CPU computes of `n` layers and the output head, and why; no line if that is nothing.

        Blocks that are `losing` time on the GPU are not counted.
        """
        if losing and GPU not in placement:
            return [f"no block goes on {self.adapter.name}: {_why_losing(losing)}"]
        layers = len(self.model.layers)
        asked = min(n, layers)
        recurrent = [block for block in self._recurrent if block // 2 >= layers - asked]
        kept = self.request.kept_on_cpu(self.model) | {block for block in self._experts if placement[block] == CPU}
        kept |= {*self._recurrent, *self._empty, *losing}
        wanted = [[block for block in (mixer(i), feed_forward(i)) if block not in kept] for i in range(layers)]
        done = sum(all(placement[block] == GPU for block in own) for own in wanted if own)
        left = max(0, asked - done - wanted[layers - asked :].count([]))
        parts = [f"{left} of {counted(asked, 'layer')}"] if left else []
        if n > layers and placement[-1] == CPU and not self.request.cpu_head and head(layers) not in losing:
            wanted, parts = [*wanted, [head(layers)]], [*parts, "the output head"]
        if unable := self._unable_experts(placement):
            wanted, parts = [*wanted, unable], [*parts, f"the experts of {counted(len(unable), 'layer')}"]
        if recurrent:
            wanted, parts = [*wanted, recurrent], [*parts, f"the mixers of {counted(len(recurrent), 'layer')}"]
        reasons = dict.fromkeys(why for own in wanted for block in own if (why := self.obstacles[block]))
        if not parts or not reasons:
            return []
        line = f"there is no shader for {', '.join(reasons)}"
        return [f"{line}: the CPU computes {' and '.join(parts)}" if GPU in placement else line]

    def _unable_experts(self, placement: Placement) -> list[int]:
        """The mixtures of experts that would be on the GPU with the rest of their layer if it could compute them."""
        kept = self.request.kept_on_cpu(self.model)
        return [b for b in self._experts if b not in kept and self.obstacles[b] and placement[b - 1] == GPU]

    def plan_within(self, asked: int, room: int) -> OffloadPlan:
        """A plan for as many of `asked` layers as fit into `room` bytes; a note says why not for all."""
        n = next((n for n in range(asked, 0, -1) if self._needed(n) <= room), 0)
        plan = self.plan_layers(n)
        if n < asked and (self.request.layers != "auto" or not n):
            what = f"{n} of {asked} layers fit" if n else f"one layer takes {self._needed(1) / 1e9:.2g} GB: none fits"
            plan.notes.append(f"{what} {room / 1e9:.2g} GB of {self.adapter.name}")
        return plan

    def _needed(self, n: int) -> int:
        """Bytes of GPU memory of a plan for `n` layers."""
        return sum(gpu_memory(self.model, self._placement(n), self.limits).values())

    def plan_experts(self, asked: int, room: int) -> OffloadPlan:
        """The plan within `room` bytes that `ExpertChoice` reckons to be the fastest."""
        (n, first), why = ExpertChoice(self.model, self.limits, asked, self._placement).within(room)
        plan = self.plan_layers(n, first)
        plan = replace(plan, choice="; ".join(filter(None, (why, plan.choice))))
        if not n:
            plan.notes.append(f"auto leaves {room / 1e9:.2g} GB of {self.adapter.name} unused: {why}")
        return plan


def _why_losing(losing: list[int]) -> str:
    """Why the CPU computes blocks that the GPU could compute; empty for none."""
    if not losing:
        return ""
    crossing = f"a hidden state takes {CROSSING_S * 1000:.1f} ms to the GPU and back, by reckoning"
    return f"{counted(len(losing), 'block')} that it could compute would lose time there: {crossing}"


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
    if room is None:
        return planner.plan_layers(asked)
    is_choice = automatic and request.leaves_experts_open and expert_blocks(model)
    return (planner.plan_experts if is_choice else planner.plan_within)(asked, room)
