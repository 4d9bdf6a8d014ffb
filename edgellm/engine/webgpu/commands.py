"""Dispatches, and the commands of wgpu that start them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Buffer = Any
Grid = tuple[int | str, int | str, int | str]
"""Workgroups of a dispatch; a name stands for a number that depends on the batch."""

Numbers = Mapping[str, int]
NO_NUMBERS: Numbers = {}
Copy = tuple[Buffer, int, Buffer, int, int]
"""Source, offset, target, offset, bytes."""


@dataclass(frozen=True)
class Dispatch:
    """A pipeline with its buffers, and how many workgroups of it run."""

    pipeline: Any
    bindings: Any
    grid: Grid


class Commands(NamedTuple):
    """What can be submitted once: an encoder that is to be finished for that.

    wgpu 0.32 never lets go of finished commands that are not submitted, but of unfinished ones it does.
    """

    dispatches: int
    encoder: Any


class Ready(NamedTuple):
    """Commands made ahead, what they are for, and what keeps the objects alive whose ids are in the key."""

    key: tuple[object, ...]
    kept: object
    commands: Commands


def encode(device: Any, dispatches: Sequence[Dispatch], numbers: Numbers, copies: Sequence[Copy]) -> Commands:
    """Commands for dispatches, one after the other, then copies; a dispatch of no workgroups is left out.

    `numbers` has what the names in grids stand for. Raises what wgpu raises.
    """
    grids = [[numbers[n] if isinstance(n, str) else n for n in each.grid] for each in dispatches]
    work = [(each, grid) for each, grid in zip(dispatches, grids, strict=True) if 0 not in grid]
    encoder = device.create_command_encoder()
    if work:
        compute = encoder.begin_compute_pass()
        for each, grid in work:
            compute.set_pipeline(each.pipeline)
            compute.set_bind_group(0, each.bindings)
            compute.dispatch_workgroups(*grid)
        compute.end()
    for copy in copies:
        encoder.copy_buffer_to_buffer(*copy)
    return Commands(len(work), encoder)
