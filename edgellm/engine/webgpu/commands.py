"""Dispatches, and their encoding as commands of wgpu."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Buffer = Any
Grid = tuple[int | str, int | str, int | str]
"""Workgroups of a dispatch in x, y and z; a name is a key of Numbers."""


class RowBuffer(NamedTuple):
    """A buffer of rows of `width` float32."""

    buffer: Buffer
    width: int


Numbers = Mapping[str, int]
"""The sizes that depend on the batch, by the names that grids have for them."""

NO_NUMBERS: Numbers = {}
Copy = tuple[Buffer, int, Buffer, int, int]
"""Source, offset, target, offset, bytes."""


@dataclass(frozen=True)
class Dispatch:
    """A pipeline with its buffers and its workgroups."""

    pipeline: Any
    bindings: Any
    grid: Grid


class Commands(NamedTuple):
    """Encoded commands, which can be submitted once. The encoder is finished just before.

    wgpu 0.32 leaks finished commands that are not submitted, but not unfinished ones.
    """

    dispatches: int
    encoder: Any


class EncodedAhead(NamedTuple):
    """Commands that were encoded ahead for `key`; `kept` keeps the objects alive whose ids are keys."""

    key: tuple[object, ...]
    kept: object
    commands: Commands


def encode(device: Any, dispatches: Sequence[Dispatch], numbers: Numbers, copies: Sequence[Copy]) -> Commands:
    """Encode dispatches, one after the other, then copies; dispatches without workgroups are left out.

    `numbers` has the values of the names in grids. Raises the errors of wgpu.
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
