"""What `edgellm plan` shows: memory part by part, and the speed to expect."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgellm.fmt import counted, size, table

if TYPE_CHECKING:
    from edgellm.perf.disk import DiskForecast
    from edgellm.perf.plan import GPUPlan, Plan


def memory_lines(plan: "Plan") -> Iterator[str]:
    """A table of the memory of a plan, and its notes."""
    gpu = plan.gpu
    all_layers = f"{counted(plan.layers, 'layer')} and the output head, all"
    where = counted(plan.devices[0]["blocks"], "block") if gpu else all_layers
    rows = [
        ("weights", size(plan.weights), f"mapped from the file{_resident(plan)}; {where} on the CPU"),
        ("KV cache", size(plan.kv_cache), f"{_kv_contents(plan)}{_kv_verdict(plan)}"),
        *_state_rows(plan),
        ("activations", size(plan.activations), "of one batch of a prompt"),
        ("scratch", size(plan.scratch), f"of {counted(plan.threads, 'thread')}"),
        *_draft_rows(plan),
        ("total", size(plan.total), f"of {size(plan.available)} that are free{_verdict(plan)}"),
    ]
    if gpu:
        rows += _gpu_rows(gpu, plan.devices[1]["blocks"])
    yield from table(("memory", "size", ""), rows)
    if gpu and gpu.choice:
        yield f"choice of auto: {gpu.choice}"
    for note in plan.notes:
        yield f"note: {note}"


def _active_weights(plan: "Plan") -> str:
    active, total = size(plan.roofline.weight_bytes), size(plan.total_weights)
    experts = " or ".join(f"{used} of {count}" for count, used in plan.roofline.expert_bytes)
    line = f"active weights    {active} of {total} are read for a token, which uses {experts} experts of a layer"
    if not plan.gpu:
        return line
    return f"{line}; {size(plan.devices[0]['active'])} on the CPU, {size(plan.devices[1]['active'])} on the GPU"


def speed_lines(plan: "Plan", figures: dict[str, Any]) -> Iterator[str]:
    """The speed to expect, what limits it, and what drafts and experts take; `figures` are those of `Plan.figures`."""
    if expected := figures["decode"]:
        full = f"{expected['tps_full']:,.1f} after {counted(plan.ctx, 'token')}"
        yield f"decode, expected  {expected['tps']:,.1f} tokens/s at first, {full}"
        yield f"memory bandwidth  {size(figures['bandwidth'])}/s with {counted(plan.threads, 'thread')}"
        yield f"compute limit     {size(figures['arithmetic'])}/s  matmul speed while the weights are in the CPU cache"
    elif plan.disk:
        yield _from_disk(plan.disk)
    elif limit := figures["decode_limit"]:
        cpu = f"{size(plan.devices[0]['active'])} of weights there, at {size(figures['bandwidth'])}/s"
        yield f"decode, expected  at most {limit:,.1f} tokens/s, which is what the CPU allows: a token reads {cpu}"
    elif plan.gpu:
        yield "decode, expected  not predicted with a GPU; `edgellm bench` measures it"
    if plan.draft:
        cost = figures["draft"]["cost"]
        yield f"drafts            a draft takes {cost:.2f} of the time of a token; replies show how many are right"
    if plan.roofline.expert_bytes:
        yield _active_weights(plan)


def _resident(plan: "Plan") -> str:
    return "" if plan.resident is None else f", of which {size(plan.resident)} are in memory now"


def _from_disk(disk: "DiskForecast") -> str:
    read = f"{size(round(disk.bytes_per_token))} of each token are read from the disk"
    if disk.tps is None or disk.bandwidth is None:
        return f"decode, expected  at the speed of the disk: {read}"
    return f"decode, expected  about {disk.tps:,.1f} tokens/s: {read}, which gives {size(round(disk.bandwidth))}/s"


def _gpu_rows(gpu: "GPUPlan", blocks: int) -> list[tuple[str, str, str]]:
    free = "" if gpu.available is None else f"of {size(gpu.available)} that may be used"
    short = gpu.available is not None and gpu.total > gpu.available
    return [
        ("", "", ""),
        ("GPU weights", size(gpu.weights), f"{counted(blocks, 'block')} on {gpu.name}"),
        ("GPU KV cache", size(gpu.kv_cache), "with a full context"),
        ("GPU activations", size(gpu.activations), "with what the driver takes, about"),
        ("GPU total", size(gpu.total), free + (": too little; choose fewer --gpu-layers" if short else "")),
    ]


def _draft_rows(plan: "Plan") -> list[tuple[str, str, str]]:
    """The row of a draft model or head, if there is one."""
    if not plan.draft:
        return []
    own = plan.draft.plan
    parts = {
        "weights": own.weights,
        "KV cache": own.kv_cache,
        "states": own.states,
        "activations": own.activations + own.scratch,
    }
    contents = ", ".join(f"{name} {size(nbytes)}" for name, nbytes in parts.items() if nbytes)
    return [("drafts", size(own.total), f"{plan.draft.name}: {contents}{_kv_verdict(own)}")]


def _state_rows(plan: "Plan") -> list[tuple[str, str, str]]:
    """The row of the states of recurrent layers, if there are any."""
    if not plan.state_bytes:
        return []
    drafts = f" and {plan.drafts} for drafts" if plan.drafts else ""
    kept = f"two, and up to {counted(plan.checkpoints, 'checkpoint')}{drafts} as memory allows"
    return [("states", size(plan.states), f"of recurrent layers: {size(plan.state_bytes)} a state; {kept}")]


def _kv_contents(plan: "Plan") -> str:
    if not plan.kv_cache and not (plan.gpu and plan.gpu.kv_cache):
        return "the model has no attention"
    return f"{plan.kv_type}, with a full context of {counted(plan.ctx, 'token')}"


def _kv_verdict(plan: "Plan") -> str:
    if plan.kv_tokens >= plan.ctx:
        return ""
    allowed = f"; it may take {size(plan.kv_memory)}"
    if plan.state_bytes and not plan.kv_tokens:
        return f"{allowed} with the states, too little for these"
    states = " with the states" if plan.state_bytes else ""
    return f"{allowed}{states}, enough for {counted(plan.kv_tokens, 'token')}"


def _verdict(plan: "Plan") -> str:
    if plan.from_disk:
        return ": too little, it would run at the speed of the disk; choose a smaller quantization"
    needed = plan.needed(plan.ctx)
    if needed > plan.available:
        return ": too little for a full context; choose a smaller --ctx"
    most = f"; {size(needed)} are needed, the rest is for checkpoints and drafts" if needed < plan.total else ""
    return most if plan.total <= plan.available else f"{most}; choose a smaller --kv-memory for fewer of them"
