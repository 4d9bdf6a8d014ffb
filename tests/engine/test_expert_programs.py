"""Programs of mixtures of experts of every kind: threads wait where they must, and no op reaches out of bounds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgellm.arch import describe
from edgellm.arch.blocks import Activation, FeedForward, Linear, Norm, StackedLinear
from edgellm.arch.description import Description
from edgellm.arch.mixture import MixtureOfExperts
from edgellm.engine import expert_ops
from edgellm.engine.build_program import build_program
from edgellm.engine.outputs import OutputSettings
from edgellm.engine.program import Op
from edgellm.gguf import GGUFFile, Tensor
from kquants.ggml import NAMED_TYPES
from support.model_file import ModelFile
from support.op_extents import out_of_bounds
from support.op_hazards import ops_that_mix_rows, ops_without_barrier

WIDTH, FFN, EXPERTS = 512, 256, 8
FILE: dict[str, Any] = {"arch": "qwen3moe", "width": WIDTH, "ffn": FFN, "experts": EXPERTS, "used": 3, "heads": 4}

Change = Callable[[MixtureOfExperts], MixtureOfExperts]


def tensor(name: str, *shape: int, kind: str = "F32") -> Tensor:
    """A tensor of zeros."""
    rows, row_bytes = int(np.prod(shape[:-1])), NAMED_TYPES[kind].row_bytes(shape[-1])
    data = np.zeros(rows * row_bytes, np.uint8)
    return Tensor(name, NAMED_TYPES[kind], shape, data, 0, None)  # type: ignore[arg-type]


def norm(name: str) -> Norm:
    return Norm(tensor(name, WIDTH), None, 1e-6)


def shared(own_norm: bool = False, kind: str = "Q8_0") -> FeedForward:
    gate, up = (Linear(tensor(name, FFN, WIDTH, kind=kind)) for name in ("gate", "up"))
    down = Linear(tensor("down", WIDTH, FFN, kind=kind), tensor("down.bias", WIDTH))
    return FeedForward(norm("n") if own_norm else None, gate, up, down, post_norm=norm("p") if own_norm else None)


def fused(block: MixtureOfExperts) -> MixtureOfExperts:
    """Gate and up in one stack, with biases: gpt-oss."""
    stack = replace(block.up.weight, name="both", shape=(EXPERTS, 2 * FFN, WIDTH))
    stack = replace(stack, data=np.zeros(2 * block.up.weight.nbytes, np.uint8))
    bias = tensor("both.bias", EXPERTS, 2 * FFN)
    gate, up = (StackedLinear(stack, FFN, first, bias) for first in (0, FFN))
    down = replace(block.down, bias=tensor("down.bias", EXPERTS, WIDTH))
    return replace(block, gate=gate, up=up, down=down, activation=Activation.CLAMPED_SWIGLU, parameters=(7.0, 1.702))


KINDS: dict[str, Change] = {
    "plain": lambda block: block,
    "no gate": lambda block: replace(block, gate=None, activation=Activation.RELU2),
    "fused, biases": fused,
    "weighted inputs": lambda block: replace(block, router=replace(block.router, weighs_input=True)),
    "router": lambda block: replace(
        block,
        router=replace(
            block.router,
            norm=norm("router"),
            selection_bias=tensor("b", EXPERTS),
            expert_scales=tensor("s", EXPERTS),
            groups=4,
            used_groups=2,
        ),
    ),
    "shared": lambda block: replace(block, shared=shared(), shared_gate=Linear(tensor("g", 1, WIDTH))),
    "shared of another type": lambda block: replace(block, shared=shared(kind="Q4_K")),
    "gemma 4": lambda block: replace(
        block,
        router=replace(block.router, norm=norm("router")),
        shared=shared(own_norm=True),
        sum_norm=norm("sum"),
        post_norm=norm("post"),
    ),
    "post norm": lambda block: replace(block, post_norm=norm("post")),
}
IN_PARALLEL = ("plain", "shared", "shared of another type", "fused, biases")
"""Those without norms of their own, which parallel layers may have."""
CASES = [(kind, False) for kind in KINDS] + [(kind, True) for kind in IN_PARALLEL]


def changed(model: Description, change: Change, parallel: bool) -> Description:
    layers = [replace(each, feed_forward=change(each.feed_forward), parallel=parallel) for each in model.layers]
    return replace(model, layers=tuple(layers), residual_scale=0.5)


def tensors_of(block: MixtureOfExperts) -> dict[str, Tensor]:
    """The tensors of a block's stacks, by name."""
    stacks = [linear for linear in (block.gate, block.up, block.down) if linear]
    return {t.name: t for linear in stacks for t in (linear.weight, linear.bias) if t}


@contextmanager
def described(path: Any) -> Iterator[tuple[Description, dict[str, Tensor]]]:
    with GGUFFile.open(path) as file:
        yield describe(file), dict(file.tensors)


@pytest.mark.parametrize("types", ["F32", "Q8_0", "Q4_K"])
@pytest.mark.parametrize(("kind", "parallel"), CASES)
def test_programs_are_in_order_and_in_bounds(model_file: ModelFile, kind: str, types: str, parallel: bool) -> None:
    with described(model_file(types=types, **FILE)) as (read, tensors):
        model = changed(read, KINDS[kind], parallel)
        for layer in model.layers:
            assert isinstance(layer.feed_forward, MixtureOfExperts)
            tensors |= tensors_of(layer.feed_forward)
        for taps in [(), (0,), (1,)]:
            outputs = OutputSettings(hidden=True, taps=frozenset(taps))
            program = build_program(model, "f16", outputs=outputs, read_ahead=True)
            assert list(ops_without_barrier(program)) == list(ops_that_mix_rows(program)) == [], f"taps {taps}"
            assert list(out_of_bounds(program, "f16", tensors)) == []
        del model, read, layer, program, tensors


def is_grouped_matmul(op: Op) -> bool:
    return op.kernel.startswith("matmul_") and op.units_factor is not None


DAMAGE: list[tuple[Callable[[Op], bool], Callable[[Op], Op], str]] = [
    (lambda op: op.kernel == "gather", lambda op: replace(op, slots=2), "3 slots of q8, of which it uses 2"),
    (lambda op: op.kernel == "combine", lambda op: argument(op, used=4), "16 bytes of weights, which has 12"),
    (lambda op: op.kernel == "route", lambda op: argument(op, experts=17), "68 bytes of logits, which has"),
    (is_grouped_matmul, lambda op: argument(op, matrix_bytes=64), "512 bytes of blk.0.ffn_gate_exps"),
    (is_grouped_matmul, lambda op: replace(op, units_factor=None), "do not belong together"),
    (is_grouped_matmul, lambda op: replace(op, slots=1), "3 slots of x, of"),
    (lambda op: op.kernel == "read_ahead", lambda op: argument(op, matrix_bytes=64), "512 bytes of blk.0.ffn_gate"),
    (lambda op: op.kernel == "read_ahead", lambda op: replace(op, units_factor=None), "do not belong together"),
]
"""Ops, how they are damaged, and what is found."""


def argument(op: Op, **changes: Any) -> Op:
    return replace(op, arguments=op.arguments._replace(**changes))


@pytest.mark.parametrize("case", range(len(DAMAGE)))
def test_these_checks_find_what_reaches_out_of_bounds(model_file: ModelFile, case: int) -> None:
    is_it, damage, problem = DAMAGE[case]
    with described(model_file(types="Q8_0", **FILE)) as (model, tensors):
        program = build_program(model, "f16", read_ahead=True)
        i = next(i for i, op in enumerate(program.ops) if is_it(op))
        program.ops[i] = damage(program.ops[i])
        found = list(out_of_bounds(program, "f16", tensors))
        del model, tensors, program
    assert any(problem in each for each in found), found


@pytest.mark.parametrize("kernel", ["route", "plan", "read_ahead", "gather", "combine"])
def test_each_op_of_experts_needs_its_barrier(model_file: ModelFile, kernel: str) -> None:
    with described(model_file(types="Q8_0", **FILE)) as (model, tensors):
        program = build_program(model, "f16", read_ahead=kernel == "read_ahead")
        i = next(i for i, op in enumerate(program.ops) if op.kernel == kernel)
        program.ops[i] = replace(program.ops[i], barrier=False)
        assert f"op {i}, {kernel}" in list(ops_without_barrier(program))
        del model, tensors, program


def test_experts_are_not_read_ahead_where_the_system_has_no_madvise(
    model_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows has none: the kernel would call address 0."""
    monkeypatch.setattr(expert_ops, "advise_function", lambda: 0)
    with described(model_file(types="Q8_0", **FILE)) as (model, tensors):
        assert "read_ahead" not in build_program(model, "f16", read_ahead=True).kernels
        del model, tensors
