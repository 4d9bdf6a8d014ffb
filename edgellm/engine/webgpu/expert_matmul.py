"""Matmuls of the slots of experts as dispatches: matrix × vector for few rows, matrix × matrix for many.

For few rows the slots of a row follow each other, and each slot reads its expert. For many rows the slots are sorted by
expert (`shaders/plan.wgsl`), so that an expert's weights are unpacked once for up to SIDE slots.
"""

from collections.abc import Sequence

from edgellm.arch.blocks import Activation
from edgellm.engine.webgpu.batch_layout import SIDE
from edgellm.engine.webgpu.commands import Buffer, Dispatch, RowBuffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.expert_blocks import ExpertSizes, GPUStack, StackSlice
from edgellm.engine.webgpu.expert_scratch import ExpertScratch, slots_name, tiles_name
from edgellm.engine.webgpu.matmul import (
    MATMUL_LANES,
    MATVEC_TILE,
    Epilogue,
    MatmulLowering,
    tiles_of_a_workgroup,
)
from edgellm.engine.webgpu.row_ops import RowOps
from edgellm.engine.webgpu.scratch import Scratch
from edgellm.engine.webgpu.shaders import ACTIVATIONS, Constant


class ExpertMatmuls:
    """Makes dispatches of the products of stacks on the activations of mixtures of some sizes."""

    def __init__(
        self, gpu: GPUContext, scratch: Scratch, ops: RowOps, matmuls: MatmulLowering, sizes: ExpertSizes
    ) -> None:
        self._gpu, self._scratch, self._ops, self._matmuls, self._sizes = gpu, scratch, ops, matmuls, sizes
        self._own: ExpertScratch = scratch.experts[sizes]

    def few(
        self, stacks: Sequence[GPUStack], x: RowBuffer, y: RowBuffer, slots: int, gated: Activation | None = None
    ) -> list[Dispatch]:
        """y = W x for each slot, where x has a row for each `slots` slots; with `gated` y = f(gate x) · (up x)."""
        first, last = stacks[0], stacks[-1]
        epilogue = Epilogue(None if gated else first.bias)
        tiles = -(-first.rows // MATVEC_TILE)
        each = tiles_of_a_workgroup(tiles * self._sizes.used)
        packs = all(self._matmuls.uses_packed_dot(stack.format) for stack in stacks)
        constants: dict[str, Constant] = {"EPS": 0.0, "NORMED": False, "GATED": gated is not None, "EACH": each}
        constants |= {"SLOTS": slots, "UP_STORED": last.stored, "UP_FIRST": last.first, **epilogue.constants}
        nothing, function = self._scratch.nothing, ACTIVATIONS[gated or Activation.SILU]
        files = [function, *(["rounding", "x_packed"] if packs else ["x_values"]), "expert_matrices"]
        return [
            self._ops.dispatch(
                "matvec",
                constants | _slice_constants(first, parts[0]),
                [
                    *[self._shape(first, x, y), self._own.chosen, x.buffer, nothing, epilogue.bias or nothing],
                    *[y.buffer, *(part.buffer for part in parts)],
                ],
                (-(-tiles // each), slots_name(self._sizes), 1),
                files,
                formats=[stack.format for stack in stacks],
            )
            for parts in zip(*(stack.slices for stack in stacks), strict=True)
        ]

    def many(self, stack: GPUStack, x: RowBuffer, y: RowBuffer, slots: int) -> list[Dispatch]:
        """y = W x for each slot. Where the adapter has packed dot products, x must be quantized (`quantize`)."""
        s, epilogue = self._scratch, Epilogue(stack.bias)
        packs = self._matmuls.uses_packed_dot(stack.format)
        constants: dict[str, Constant] = {"SLOTS": slots, "CHOICES_AT": self._own.choices_at, **epilogue.constants}
        constants |= {} if packs else {"W_TYPE": self._matmuls.tile_type(stack.format)}
        return [
            self._ops.dispatch(
                "matmul_packed" if packs else "matmul",
                constants | _slice_constants(stack, part),
                [
                    *[self._shape(stack, x, y), self._own.plan, *([s.packed, s.scales] if packs else [x.buffer])],
                    *[epilogue.bias or s.nothing, y.buffer, part.buffer],
                ],
                (-(-stack.rows // SIDE), tiles_name(self._sizes), 1),
                ["matmul_tile", "expert_tiles"],
                formats=[stack.format],
                lanes=MATMUL_LANES,
            )
            for part in stack.slices
        ]

    def quantize(self, stacks: Sequence[GPUStack], x: RowBuffer, slots: int) -> list[Dispatch]:
        """x as int8, if one of these stacks is multiplied in integers."""
        rows = slots_name(self._sizes) if slots == 1 else "rows"
        return [self._matmuls.quantize(x, rows)] if any(map(self._packs, stacks)) else []

    def _packs(self, stack: GPUStack) -> bool:
        return self._matmuls.uses_packed_dot(stack.format)

    def _shape(self, stack: GPUStack, x: RowBuffer, y: RowBuffer) -> Buffer:
        """See `shaders/shape.wgsl`."""
        return self._gpu.uniform([stack.rows, 0, stack.columns, x.width // 4, y.width, stack.rows, 0, 0])


def _slice_constants(stack: GPUStack, part: StackSlice) -> dict[str, Constant]:
    """Which matrices a buffer has, and which of their rows are multiplied."""
    matrices: dict[str, Constant] = {"FIRST_MATRIX": part.first, "MATRICES": part.matrices}
    return matrices | {"STORED": stack.stored, "FIRST": stack.first}
