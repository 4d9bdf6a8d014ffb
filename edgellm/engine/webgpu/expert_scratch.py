"""The activations of mixtures of experts on a GPU. A row has a slot for each of its experts."""

from typing import NamedTuple

from edgellm.engine.webgpu.batch_layout import SIDE
from edgellm.engine.webgpu.commands import Buffer, RowBuffer
from edgellm.engine.webgpu.expert_blocks import ExpertSizes
from edgellm.engine.webgpu.weights import padded_width


class ExpertScratch(NamedTuple):
    """The buffers of mixtures of some sizes; `gate`, `up` and `result` have a row for each slot.

    `plan` and `slots` are as `shaders/plan.wgsl` writes them: choices are at word `choices_at` of the plan.
    """

    logits: RowBuffer
    chosen: Buffer
    weights: Buffer
    plan: Buffer
    slots: Buffer
    gate: RowBuffer
    up: RowBuffer
    result: RowBuffer
    choices_at: int


def most_tiles(sizes: ExpertSizes, rows: int) -> int:
    """The most tiles of SIDE slots of an expert that a batch of some rows can have."""
    slots = rows * sizes.used
    return slots // SIDE + min(sizes.experts, slots)


def slot_sizes(all_sizes: list[ExpertSizes], rows: int) -> dict[str, int]:
    """The sizes that grids name, see `edgellm.engine.webgpu.commands.Grid`."""
    slots = {slots_name(sizes): rows * sizes.used for sizes in all_sizes}
    return slots | {tiles_name(sizes): most_tiles(sizes, rows) for sizes in all_sizes}


def slots_name(sizes: ExpertSizes) -> str:
    """The name of the number of slots."""
    return f"slots {sizes.used}"


def tiles_name(sizes: ExpertSizes) -> str:
    """The name of the number of tiles."""
    return f"tiles of {sizes.used} of {sizes.experts} experts"


def expert_floats(all_sizes: list[ExpertSizes], rows: int, width: int) -> dict[str, int]:
    """Words of each buffer for batches of up to `rows` rows of `width` values, by name."""
    found = dict[str, int]()
    for sizes in all_sizes:
        slots = rows * sizes.used
        words = {
            "logits": rows * sizes.experts,
            "chosen": slots,
            "weights": slots,
            "plan": 3 * most_tiles(sizes, rows) + slots,
            "slots": slots,
            "gate": slots * padded_width(sizes.ffn),
            "up": slots * padded_width(sizes.ffn),
            "result": slots * padded_width(width),
        }
        found |= {_name(sizes, name): n for name, n in words.items()}
    return found


def expert_scratch(made: dict[str, Buffer], sizes: ExpertSizes, rows: int, width: int) -> ExpertScratch:
    """The buffers of some sizes, out of all that were made."""

    def own(name: str) -> Buffer:
        return made[_name(sizes, name)]

    ffn = padded_width(sizes.ffn)
    return ExpertScratch(
        logits=RowBuffer(own("logits"), sizes.experts),
        chosen=own("chosen"),
        weights=own("weights"),
        plan=own("plan"),
        slots=own("slots"),
        gate=RowBuffer(own("gate"), ffn),
        up=RowBuffer(own("up"), ffn),
        result=RowBuffer(own("result"), padded_width(width)),
        choices_at=3 * most_tiles(sizes, rows),
    )


def _name(sizes: ExpertSizes, name: str) -> str:
    return f"{name} of {sizes.used} of {sizes.experts} experts of {sizes.ffn}"
