"""`edgellm plan`: the memory that a model takes and its speed, predicted from its file before it is loaded."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.engine.backends import find_backend, load_backend
from edgellm.engine.budget import KVBudget
from edgellm.engine.build_program import build_program
from edgellm.engine.device import DeviceFault
from edgellm.engine.kv_pages import most_pages
from edgellm.engine.limits import BatchLimits, context_length, max_batch_rows
from edgellm.engine.offload import OffloadRequest, active_bytes_by_device, device_figures, expert_option_note
from edgellm.engine.placement import GPU, Placement, on_cpu
from edgellm.engine.position_tables import table_bytes
from edgellm.engine.program import Program
from edgellm.engine.recurrent_states import NEEDED_STATE_PAGES, most_checkpoint_pages, most_state_pages
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile
from edgellm.gguf.page_cache import resident_bytes
from edgellm.options import MAX_DRAFT, LoadOptions
from edgellm.perf.disk import DiskForecast, forecast
from edgellm.perf.machine_profile import MEMORY
from edgellm.perf.roofline import Roofline, decode_tps, relative_cost
from edgellm.system.machine import available_memory, default_threads
from kquants.kv_layout import PAGE

PARTS = ("weights", "kv_cache", "states", "activations", "scratch")
"""The parts of the memory that a model takes: fields of `Plan`."""


@dataclass(frozen=True)
class GPUPlan:
    """Bytes of GPU memory that a model takes with a full context, by part; `available` is None if unknown.

    `choice` says why these blocks, where `auto` had a choice.
    """

    name: str
    weights: int
    kv_cache: int
    activations: int
    available: int | None
    choice: str = ""

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return self.weights + self.kv_cache + self.activations


@dataclass(frozen=True)
class DraftModelPlan:
    """The plan of a draft model or head beside a model; `name` is its file's. See `edgellm.speculation`."""

    name: str
    plan: "Plan"

    def relative_cost(self, target: "Plan", speeds: Mapping[str, float]) -> float:
        """The time of a draft relative to a step of the target, to be expected at these `speeds` of the machine.

        Without them, it is the relation of the weights that are read.
        """
        return relative_cost(
            (self.plan.roofline, self.plan.layers), (target.roofline, target.layers), speeds, target.threads
        )

    def figures(self, target: "Plan", speeds: Mapping[str, float]) -> dict[str, Any]:
        """Its part of the object that `edgellm plan --json` prints. `cost` is `relative_cost`."""
        plan = self.plan
        parts = {name: getattr(plan, name) for name in (*PARTS, "total")}
        limits = {"ctx": plan.ctx, "kv_memory": plan.kv_memory, "kv_tokens": plan.kv_tokens}
        return {"name": self.name, "memory": parts, **limits, "cost": self.relative_cost(target, speeds)}


@dataclass(frozen=True)
class Plan:
    """Where a model's blocks are computed, and the bytes of memory that it takes with a full context.

    Memory on a GPU is counted in `gpu` alone; `notes` are lines that say why not more blocks are there.

    `total_weights` are the bytes of all weights, on whatever device, of which `roofline` has those that a token reads.
    `weights` are pages of the mapped file, which the system can evict and read again. `kv_cache` grows with the tokens
    in the context; with `states` it is limited to `kv_memory`, which holds `kv_tokens` tokens beside all states, or
    beside those that are needed where all leave no room. `state_bytes` are those of the states of recurrent layers
    behind one token, whatever the context. A sequence needs two of them; up to `checkpoints` to which it can go back,
    and up to `drafts` behind draft tokens, are kept where there is memory.

    `scratch` is that of all threads, with the logits of one token. `available` is the free memory of the machine,
    `resident` the bytes of the weights that are in memory now (None if the system does not tell), and `disk` the
    forecast for weights that exceed the free memory. `devices` are as in `Stats`, with `active`, the bytes of weights
    that a token reads there. `cpu_roofline` is that of the CPU's blocks where experts are among them, and other blocks
    are on a GPU: the CPU then limits the speed. `draft` is the plan of a draft model, whose memory counts in `total`.
    """

    ctx: int
    kv_type: str
    threads: int
    layers: int
    roofline: Roofline
    total_weights: int
    weights: int
    kv_cache: int
    state_bytes: int
    checkpoints: int
    drafts: int
    kv_memory: int
    kv_tokens: int
    activations: int
    scratch: int
    available: int
    resident: int | None
    disk: DiskForecast | None
    devices: list[dict[str, Any]]
    gpu: GPUPlan | None = None
    cpu_roofline: Roofline | None = None
    draft: DraftModelPlan | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def states(self) -> int:
        """The most bytes of states of recurrent layers."""
        return self.state_bytes * most_state_pages(self.checkpoints, self.drafts)

    @property
    def total(self) -> int:
        """The most bytes that all parts take, with a full context."""
        return self._own + (self.draft.plan.total if self.draft else 0)

    @property
    def _own(self) -> int:
        """The most bytes that the model itself takes."""
        return sum(getattr(self, part) for part in PARTS)

    def needed(self, tokens: int) -> int:
        """Bytes without which a conversation of `tokens` tokens, or of a full context, does not run in memory.

        Checkpoints and states behind drafts are not needed: where they are not kept, tokens are computed again.
        """
        kv_cache = self.kv_cache * min(tokens, self.ctx) // self.ctx
        states = self.state_bytes * NEEDED_STATE_PAGES
        own = self._own - self.kv_cache - self.states + kv_cache + states
        return own + (self.draft.plan.needed(tokens) if self.draft else 0)

    @property
    def fits(self) -> bool:
        """Whether all parts fit in the memory with a full context."""
        return self.total <= self.available and self.kv_tokens >= self.ctx

    @property
    def from_disk(self) -> bool:
        """Whether the weights that the CPU reads exceed the free memory: every token then reads the disk."""
        return self.disk is not None

    @property
    def profile_names(self) -> list[str]:
        """The speeds of this machine (see `edgellm.perf.machine_profile`) that the decoding speed follows from.

        Empty if the disk decides, and with a GPU, whose bandwidth is unknown, unless experts are on the CPU.
        """
        own = self.cpu_roofline if self.gpu else self.roofline
        return [] if self.from_disk or own is None else own.profile_names

    def figures(self, speeds: Mapping[str, float]) -> dict[str, Any]:
        """The object that `edgellm plan --json` prints, given the `speeds` of this machine.

        `active_weights` are the bytes of weights that a token reads, of `total_weights`: it reads no experts that it
        does not use, and few embeddings.

        `bandwidth` is that of the memory in bytes per second, `arithmetic` the bytes of these weights that are
        multiplied per second if they need not be read from memory. `decode` has the tokens per second of an empty and
        of a full context. Each of the three is None if a speed that it needs is unknown. `decode_limit` has, where
        experts are on the CPU and other blocks on a GPU, the tokens per second that the CPU's part allows.
        """
        parts = {name: getattr(self, name) for name in (*PARTS, "total", "available")}
        tps, tps_full = (
            None if self.gpu else decode_tps(self.roofline, self.layers, speeds, self.threads, depth)
            for depth in (0, self.ctx - 1)
        )
        cpu = self.cpu_roofline
        multiplied = cpu or self.roofline
        return {
            "ctx": self.ctx,
            "kv_type": self.kv_type,
            "threads": self.threads,
            "memory": parts,
            "total_weights": self.total_weights,
            "active_weights": self.roofline.weight_bytes,
            "kv_memory": self.kv_memory,
            "kv_tokens": self.kv_tokens,
            "state_bytes": self.state_bytes,
            "checkpoints": self.checkpoints,
            "drafts": self.drafts,
            "needed": self.needed(self.ctx),
            "fits": self.fits,
            "resident": self.resident,
            "disk": self.disk and {**vars(self.disk), "tps": self.disk.tps},
            "draft": self.draft and self.draft.figures(self, speeds),
            "gpu": self.gpu and {**vars(self.gpu), "total": self.gpu.total},
            "notes": self.notes,
            "devices": self.devices,
            "bandwidth": speeds.get(MEMORY),
            "arithmetic": multiplied.matmul_bandwidth(speeds),
            "decode": None if tps is None else {"tps": tps, "tps_full": tps_full},
            "decode_limit": None if cpu is None else decode_tps(cpu, self.layers, speeds, self.threads),
        }


def make_plan(file: GGUFFile, options: LoadOptions) -> Plan:
    """The plan for an open file; only its header is read.

    Raises UnsupportedModelError, ModelFileError (also for a file without weights), OptionError (a `ctx` above the
    model's) and EdgeLLMError for devices that this version does not have.
    """
    return plan_of(describe(file), file, sum(tensor.nbytes for tensor in file.tensors.values()), options)


def plan_of(model: Description, file: GGUFFile, weights: int, options: LoadOptions) -> Plan:
    """The plan for a model of an open file, which has `weights` bytes of weights; raises as `make_plan`."""
    ctx = context_length(file, model, options.ctx)
    rows = max_batch_rows(build_program(model, options.kv_type, ctx=ctx), ctx)
    placement, gpu, notes = _offload(model, rows, ctx, options)
    program = build_program(model, options.kv_type, placement, ctx=ctx)
    threads = options.threads or default_threads(file.nbytes)
    figures = device_figures(model, placement, weights, gpu.name if gpu else None)
    active = active_bytes_by_device(model, placement)
    cpu = Roofline.of_cpu(model, options.kv_type, placement)
    devices = [each | {"active": nbytes} for each, nbytes in zip(figures, active, strict=False)]
    logits = program.logits.row_bytes if program.logits in program.buffers else 0
    activations = program.activation_bytes(rows) + table_bytes(model, ctx)
    scratch = threads * program.scratch_bytes + logits
    others = activations + scratch if options.kv_memory is None else 0
    kv_memory = max(0, (budget := KVBudget.of(options.kv_memory)).room(0) - others)
    checkpoints = most_checkpoint_pages(model.state_bytes, budget) if model.is_recurrent else 0
    drafted = not gpu or options.asks_for_draft_model  # rows depend on their batch with a GPU: drafts on request alone
    drafts = MAX_DRAFT if model.is_recurrent and drafted else 0

    def beside(state_pages: int) -> int:
        """The tokens whose KV pages `kv_memory` holds beside this many state pages."""
        return _tokens_within(kv_memory - state_pages * model.state_bytes, model, program, rows, ctx)

    return Plan(
        ctx=ctx,
        kv_type=options.kv_type,
        threads=threads,
        layers=len(model.layers),
        roofline=Roofline.of(model, options.kv_type),
        total_weights=weights,
        weights=devices[0]["bytes"],
        kv_cache=_kv_cache(model, program, rows, ctx),
        state_bytes=model.state_bytes,
        checkpoints=checkpoints,
        drafts=drafts,
        kv_memory=kv_memory,
        kv_tokens=beside(most_state_pages(checkpoints, drafts)) or beside(NEEDED_STATE_PAGES),
        activations=activations,
        scratch=scratch,
        available=(available := available_memory()),
        resident=resident_bytes(file.tensors.values()),
        disk=forecast(file.path, cpu, available),
        devices=devices,
        gpu=gpu,
        cpu_roofline=cpu if gpu and cpu.expert_bytes else None,
        notes=notes + ([note] if (note := expert_option_note(model, options, placement)) else []),
    )


def _kv_cache(model: Description, program: Program, rows: int, tokens: int) -> int:
    """The most bytes of KV pages on the CPU for a sequence of `tokens` tokens."""
    most = (most_pages(window, tokens, rows) for window in model.kv_groups)
    return sum(pages * nbytes for pages, nbytes in zip(most, program.page_bytes, strict=True))


def _tokens_within(nbytes: int, model: Description, program: Program, rows: int, ctx: int) -> int:
    """The most tokens, up to `ctx`, in whole pages, whose KV pages take at most `nbytes` bytes."""
    pages = range(1, -(-ctx // PAGE) + 1)
    fitting = bisect_right(pages, nbytes, key=lambda count: _kv_cache(model, program, rows, count * PAGE))
    return min(ctx, fitting * PAGE)


def _offload(
    model: Description, rows: int, ctx: int, options: LoadOptions
) -> tuple[Placement, GPUPlan | None, list[str]]:
    """The placement of the blocks, the memory of the GPU, and notes for the user."""
    all_on_cpu, offload = on_cpu(len(model.layers)), OffloadRequest.of(options)
    if not (name := find_backend(offload)):
        return all_on_cpu, None, []
    try:
        plan = load_backend(name).plan_offload(model, BatchLimits(rows, ctx, options.kv_type), offload)
        if offload.strict and plan and plan.notes:
            raise DeviceFault("; ".join(plan.notes))
    except DeviceFault as fault:
        if offload.strict:
            raise EdgeLLMError(f"{fault}; without --gpu-strict the CPU would compute") from None
        return all_on_cpu, None, [fault.with_fallback()]
    if plan is None or GPU not in plan.placement:
        return all_on_cpu, None, plan.notes if plan else []
    return plan.placement, GPUPlan(plan.name, **plan.memory, available=plan.available, choice=plan.choice), plan.notes
