"""Mixtures of experts as dispatches: norm, router, choice, products of the chosen experts, weighted sum."""

from edgellm.arch.blocks import Activation
from edgellm.arch.mixture import Scoring
from edgellm.engine.webgpu.blocks import GPUFeedForward
from edgellm.engine.webgpu.commands import Dispatch
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.expert_blocks import GPUMixture, GPURouter
from edgellm.engine.webgpu.expert_matmul import ExpertMatmuls
from edgellm.engine.webgpu.expert_scratch import ExpertScratch, slots_name
from edgellm.engine.webgpu.matmul import Epilogue, MatmulLowering
from edgellm.engine.webgpu.row_ops import LANES, RowOps
from edgellm.engine.webgpu.scratch import Scratch
from edgellm.engine.webgpu.shaders import Constant

_PLAN_LANES = 256
"""Threads that sort the choices of a batch; each has an expert at a time."""


class ExpertLowering:
    """Makes the dispatches of mixtures of experts; what they add to x is scaled by `residual_scale`."""

    def __init__(
        self, gpu: GPUContext, scratch: Scratch, ops: RowOps, matmuls: MatmulLowering, residual_scale: float
    ) -> None:
        self._gpu, self._scratch, self._ops, self._matmuls = gpu, scratch, ops, matmuls
        self._residual_scale = residual_scale

    def dispatches(self, block: GPUMixture, few: bool) -> list[Dispatch]:
        """x += the weighted sum of the chosen experts of norm(x), and what is shared."""
        own = self._scratch.experts[block.sizes]
        return [
            self._ops.norm(block.norm, gathered=False),
            *self._choose(block.router, own, few),
            *self._compute(block, own, few),
            self._combine(block, own, few),
            *(self._shared(block, block.shared, few) if block.shared else []),
        ]

    def _choose(self, router: GPURouter, own: ExpertScratch, few: bool) -> list[Dispatch]:
        """The experts of each row with their weights, and for many rows the plan of their slots."""
        s, ops, settings = self._scratch, self._ops, router.settings
        sizes: dict[str, Constant] = {"EXPERTS": settings.experts, "USED": settings.used}
        constants = sizes | {
            "SOFTMAX": settings.scoring is Scoring.SOFTMAX,
            "NORMALIZED": settings.normalized,
            "BIASED": router.selection_bias is not None,
            "SCALED": router.expert_scales is not None,
            "GROUPS": settings.groups,
            "USED_GROUPS": settings.used_groups,
            "GROUP_SCORES": settings.group_scores,
            "LOGIT_SCALE": settings.logit_scale,
            "SCALE": settings.scale,
        }
        vectors = [router.selection_bias or s.nothing, router.expert_scales or s.nothing]
        route = ops.dispatch("route", constants, [own.logits.buffer, *vectors, own.chosen, own.weights], ("rows", 1, 1))
        buffers = [s.batches[0], own.chosen, own.plan, own.slots]
        plan_constants = sizes | {"CHOICES_AT": own.choices_at}
        logits = self._matmuls.linear(few, router.logits, s.normed, own.logits, Epilogue(router.bias))
        if few:
            return [*logits, route]
        return [*logits, route, ops.dispatch("plan", plan_constants, buffers, (1, 1, 1), lanes=_PLAN_LANES)]

    def _compute(self, block: GPUMixture, own: ExpertScratch, few: bool) -> list[Dispatch]:
        """result = down(f(gate(h)) · up(h)) for each slot."""
        products = ExpertMatmuls(self._gpu, self._scratch, self._ops, self._matmuls, block.sizes)
        h, used, activation = self._scratch.normed, block.sizes.used, block.block.activation
        is_fused = len(block.gate_up) == 2 and not any(stack.bias for stack in block.gate_up)
        if few and is_fused and activation is not Activation.CLAMPED_SWIGLU:
            steps = products.few(block.gate_up, h, own.gate, used, gated=activation)
            return [*steps, *products.few([block.down], own.gate, own.result, 1)]
        steps = [] if few else products.quantize(block.gate_up, h, used)
        for stack, y in zip(block.gate_up, (own.gate, own.up), strict=False):
            steps += products.few([stack], h, y, used) if few else products.many(stack, h, y, used)
        up, slots = own.up if len(block.gate_up) == 2 else None, slots_name(block.sizes)
        steps.append(self._ops.activate(activation, own.gate, up, block.block.parameters, slots))
        if few:
            return [*steps, *products.few([block.down], own.gate, own.result, 1)]
        quantized = products.quantize([block.down], own.gate, 1)
        return [*steps, *quantized, *products.many(block.down, own.gate, own.result, 1)]

    def _combine(self, block: GPUMixture, own: ExpertScratch, few: bool) -> Dispatch:
        """x += the sum of the results of each row's slots, times their weights."""
        x = self._scratch.x
        vec4s = x.width // 4
        constants = {"USED": block.sizes.used, "X_VEC4S": vec4s, "PLANNED": not few, "FACTOR": self._residual_scale}
        buffers = [own.weights, own.slots, own.result.buffer, x.buffer]
        return self._ops.dispatch("combine", constants, buffers, (-(-vec4s // LANES), "rows", 1))

    def _shared(self, block: GPUMixture, shared: GPUFeedForward, few: bool) -> list[Dispatch]:
        """x += shared_scale · shared(h), times sigmoid(shared_gate(h)) if there is a gate, before the last product."""
        s, linear = self._scratch, self._matmuls.linear
        (columns,) = {matrix.columns for matrix in shared.down}
        gate, up, steps = s.gate[columns], s.up[columns], list[Dispatch]()
        for matrix, bias, y in zip(shared.gate_up, shared.gate_up_bias, (gate, up), strict=False):
            steps += linear(few, [matrix], s.normed, y, Epilogue(bias))
        steps.append(self._ops.activate(shared.activation, gate, up if len(shared.gate_up) == 2 else None))
        if block.shared_gate:
            steps += linear(few, block.shared_gate, s.normed, s.shared_gate)
            steps.append(self._ops.gate_rows(gate, s.shared_gate))
        factor = self._residual_scale * block.block.shared_scale
        epilogue = Epilogue(shared.down_bias, added=True, factor=factor)
        return [*steps, *linear(few, shared.down, gate, s.x, epilogue)]
