"""From what was asked for to a GPU with its blocks: which adapter, how many layers, and what fits."""

from collections.abc import Callable
from dataclasses import dataclass, field

from edgellm.arch.description import Description
from edgellm.engine.device import DeviceFault
from edgellm.engine.offload import Offload, Uploading, block_tensors
from edgellm.engine.placement import CPU, GPU, Placement, last_layers
from edgellm.engine.webgpu.adapters import Adapter, choose
from edgellm.engine.webgpu.cells import most_tokens
from edgellm.engine.webgpu.device import GPUDevice
from edgellm.engine.webgpu.fit import gpu_memory, obstacle
from edgellm.engine.webgpu.gpu import GPU as Opened  # noqa: N811
from edgellm.engine.webgpu.memory import free_memory
from edgellm.engine.webgpu.presence import worth_looking
from edgellm.engine.webgpu.scratch import Sizes

MARGIN = 0.9
"""The share of a GPU's free memory that `auto` fills: the screen and other programs want some, too."""


@dataclass(frozen=True)
class Choice:
    """An adapter, the blocks it gets, and what a person should know about that."""

    adapter: Adapter
    placement: Placement
    notes: list[str] = field(default_factory=list)


def choose_blocks(model: Description, sizes: Sizes, offload: Offload) -> Choice | None:
    """What `offload` asks for on this machine; None if that is nothing. Raises DeviceFault where it cannot be."""
    if not worth_looking(offload.layers, offload.gpu):
        return None
    if offload.layers == "auto":
        return _automatic(model, sizes, offload)
    layers = len(model.layers)
    n = layers + 1 if offload.layers == "all" else int(offload.layers)
    return _possible(model, sizes, choose(offload.gpu), n)


def _automatic(model: Description, sizes: Sizes, offload: Offload) -> Choice | None:
    """As many layers as fit the memory of a discrete GPU, or of the one that is asked for by name."""
    try:
        adapter = choose(offload.gpu)
    except DeviceFault:
        if offload.gpu is None:
            return None
        raise
    if offload.gpu is None and adapter.kind != "discrete GPU":
        return None
    free = offload.memory or free_memory(adapter)
    if free is None:
        note = (
            f"how much memory {adapter.name} has cannot be learned; --gpu-memory GB or --gpu-layers N puts layers there"
        )
        return Choice(adapter, last_layers(len(model.layers), 0), [note])
    for n in range(len(model.layers) + 1, 0, -1):
        choice = _possible(model, sizes, adapter, n)
        if sum(gpu_memory(model, choice.placement, sizes).values()) <= MARGIN * free:
            return choice
    return None


def _possible(model: Description, sizes: Sizes, adapter: Adapter, n: int) -> Choice:
    """The last `n` layers, but for the blocks that a GPU cannot compute."""
    wanted = last_layers(len(model.layers), n)
    obstacles = [obstacle(model, block, sizes.kv_type) if on == GPU else None for block, on in enumerate(wanted)]
    placement = tuple(CPU if why else on for on, why in zip(wanted, obstacles, strict=True))
    notes = list(dict.fromkeys(why for why in obstacles if why))
    tokens = most_tokens(model, sizes.kv_type, adapter.binding)
    if GPU in placement[:-1:2] and tokens < sizes.ctx:
        notes.append(f"past {tokens:,} tokens the CPU computes: {adapter.name} lets a layer have no larger KV cache")
    return Choice(adapter, placement, notes)


def open_gpu(
    model: Description, sizes: Sizes, offload: Offload, uploading: Uploading, notice: Callable[[str], None]
) -> tuple[Placement, GPUDevice] | None:
    """A GPU with the blocks that are asked for, or fewer where memory is short; `notice` gets a line about that.

    None if that is nothing. Raises DeviceFault where it cannot be.
    """
    choice = choose_blocks(model, sizes, offload)
    if choice and choice.notes and (offload.layers != "auto" or offload.gpu):
        if offload.strict:
            raise DeviceFault("; ".join(choice.notes))
        for note in choice.notes:
            notice(note)
    while choice and GPU in choice.placement:
        try:
            return choice.placement, _open(choice, model, sizes, uploading)
        except DeviceFault as fault:
            fewer = choice.placement.count(GPU) // 2 * 3 // 4
            if offload.strict or not fault.out_of_memory or not fewer:
                raise
            notice(f"{fault}: trying {fewer} layers")
            choice = _possible(model, sizes, choice.adapter, fewer)
    return None


def _open(choice: Choice, model: Description, sizes: Sizes, uploading: Uploading) -> GPUDevice:
    own = [block for block, on in enumerate(choice.placement) if on == GPU]
    total = sum(tensor.nbytes for block in own for tensor in block_tensors(model, block) if len(tensor.shape) == 2)
    done = 0

    def uploaded(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        uploading(done, total)

    gpu = Opened(choice.adapter)
    try:
        return GPUDevice(gpu, model, choice.placement, sizes, uploaded)
    except BaseException:
        gpu.close()
        raise
