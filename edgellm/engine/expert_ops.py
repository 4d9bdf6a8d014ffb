"""The ops of a mixture of experts: route, plan, gather, grouped matmuls, combine.

A row has `used` slots, one for each of its experts. Slots of the same expert lie side by side, and so are multiplied by
its weights together: what is read of the weights depends on the number of different experts of a batch.
"""

import mmap
from dataclasses import dataclass

from edgellm.arch.blocks import StackedLinear
from edgellm.arch.mixture import MixtureOfExperts, Router, Scoring
from edgellm.engine.activations import MatmulInput, float_buffer
from edgellm.engine.op_writer import OpWriter, pieces
from edgellm.engine.program import Buffer
from edgellm.gguf.page_cache import advise_function
from kquants import records
from kquants.layout import PIECE, route_scratch

_SCORING = {
    Scoring.SOFTMAX: records.SCORES_SOFTMAX,
    Scoring.SIGMOID: records.SCORES_SIGMOID,
    Scoring.SPARSE_MIXER: records.SCORES_SPARSE_MIXER,
}


@dataclass(frozen=True)
class ExpertBuffers:
    """The activations of a mixture of experts.

    For each row of the batch: `logits` of the router, `chosen` experts, their `weights`, and the `slots` of these
    choices. For each slot, of which a row has `used`: the choice that it belongs to (`choices`), what its expert reads
    (`x`), and `gate`, `up` and `result` of the expert. `groups` lists the slots of each expert. See `kquants.records`.
    """

    logits: Buffer
    chosen: Buffer
    weights: Buffer
    groups: Buffer
    choices: Buffer
    slots: Buffer
    x: MatmulInput
    gate: MatmulInput
    up: Buffer
    result: Buffer

    @classmethod
    def of(cls, block: MixtureOfExperts) -> "ExpertBuffers":
        """The buffers for a block's sizes; blocks of the same sizes share them."""
        experts, used = block.router.experts, block.router.used
        width, ffn = block.up.weight.shape[-1], block.down.weight.shape[-1]
        return cls(
            logits=float_buffer("router_logits", experts),
            chosen=Buffer(f"chosen[{used}]", 4 * used),
            weights=Buffer(f"expert_weights[{used}]", 4 * used),
            groups=Buffer(f"groups[{experts}]", records.group_list_bytes(experts), rows=1),
            choices=Buffer(f"choices[{used}]", 4 * used),
            slots=Buffer(f"slots[{used}]", 4 * used),
            x=MatmulInput.named("gathered", width).with_slots(used),
            gate=MatmulInput.named("expert_gate", ffn).with_slots(used),
            up=float_buffer("expert_up", ffn).with_slots(used),
            result=float_buffer("expert_result", width).with_slots(used),
        )


class ExpertOps:
    """Appends the ops of mixtures of experts to a program."""

    def __init__(self, ops: OpWriter, read_ahead: bool) -> None:
        self._ops, self._advise = ops, advise_function() if read_ahead else 0

    def choose(self, router: Router, h: MatmulInput, b: ExpertBuffers) -> None:
        """The experts of each row by the router's logits of h, and the slots of all rows."""
        self._ops.linear(h, (router.logits, b.logits))
        arguments = records.RouteOp(
            logits=b.logits,
            logits_bytes=b.logits.row_bytes,
            experts=router.experts,
            used=router.used,
            scoring=_SCORING[router.scoring],
            normalized=int(router.normalized),
            selection_bias=router.selection_bias,
            expert_scales=router.expert_scales,
            groups=router.groups,
            used_groups=router.used_groups,
            group_scores=router.group_scores,
            chosen=b.chosen,
            weights=b.weights,
            logit_scale=router.logit_scale,
            scale=router.scale,
        )
        self._ops.need_scratch(route_scratch(router.experts))
        self._ops.add("route", arguments, per_row=1)
        plan = records.PlanOp(b.chosen, router.experts, router.used, b.groups, b.choices, b.slots)
        self._ops.add("plan", plan, units=1)

    def compute(self, block: MixtureOfExperts, h: Buffer, b: ExpertBuffers) -> None:
        """The result of each slot from h, the rows that the experts read, as float32."""
        used, first = block.router.used, [linear for linear in (block.gate, block.up) if linear]
        self._gather(block, first, h, b)
        self._ops.observe(b.x, first, b.groups, used, block.router.experts)
        targets = [b.gate.f32, b.up] if block.gate else [b.gate.f32]
        for i, (linear, y) in enumerate(zip(first, targets, strict=True)):
            self._ops.grouped_matmul(linear, b.x, y, b.groups, used, barrier=i == 0)
        up = b.up if block.gate else None
        self._ops.activate(block.activation, b.gate, up, [block.down], block.parameters, slots=used)
        self._ops.observe(b.gate, [block.down], b.groups, used, block.router.experts)
        self._ops.grouped_matmul(block.down, b.gate, b.result, b.groups, used)

    def read_ahead(self, block: MixtureOfExperts, b: ExpertBuffers) -> None:
        """Have the weights of the chosen experts read from the disk, where they are not all in memory.

        Systems without madvise read them when they are used.
        """
        if not self._advise:
            return
        for i, stack in enumerate(dict.fromkeys(stack.weight for stack in block.stacks)):
            arguments = records.ReadAheadOp(
                self._advise, mmap.PAGESIZE, b.groups, stack, stack.nbytes // stack.shape[0]
            )
            self._ops.add("read_ahead", arguments, units=1, barrier=i == 0, units_factor=b.groups)

    def _gather(self, block: MixtureOfExperts, first: list[StackedLinear], h: Buffer, b: ExpertBuffers) -> None:
        f32, q8, super_q8 = self._ops.targets(b.x, first)
        arguments = records.GatherOp(
            x=h,
            x_bytes=h.row_bytes,
            n=b.x.width,
            used=block.router.used,
            choices=b.choices,
            weights=b.weights if block.router.weighs_input else None,
            h=f32,
            h_bytes=b.x.f32.row_bytes,
            q8=q8,
            super_q8=super_q8,
        )
        self._ops.need_scratch(4 * PIECE)
        self._ops.add("gather", arguments, per_row=pieces(b.x.width), slots=block.router.used)

    def combine(self, block: MixtureOfExperts, x: Buffer, accumulate: bool, scale: float, b: ExpertBuffers) -> None:
        """x = scale · the weighted sum of the results of each row's slots, or x += it with `accumulate`."""
        arguments = records.CombineOp(
            x=x,
            x_bytes=x.row_bytes,
            y=b.result,
            y_bytes=b.result.row_bytes,
            n=b.x.width,
            used=block.router.used,
            slots=b.slots,
            weights=None if block.router.weighs_input else b.weights,
            accumulate=int(accumulate),
            scale=scale,
        )
        self._ops.add("combine", arguments, per_row=pieces(b.x.width))
