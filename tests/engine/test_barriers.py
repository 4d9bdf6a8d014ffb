"""Ops without a barrier before them: they read nothing that was written since the last one, and write nothing used."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from edgellm.arch import ARCHITECTURES, describe
from edgellm.arch.description import Linear
from edgellm.engine.build_program import build_program
from edgellm.engine.outputs import OutputSettings
from edgellm.engine.placement import on_cpu, runs
from edgellm.engine.program import Buffer, Op
from edgellm.gguf import GGUFFile, Tensor
from kquants import records
from kquants.ggml import NAMED_TYPES, GGMLType
from support.archs import DENSE, ArchFixture
from support.model_file import ModelFile

WRITTEN: dict[type[Any], tuple[str, ...]] = {
    records.EmbedOp: ("x",),
    records.NormOp: ("h", "q8", "super_q8"),
    records.AddNormOp: ("x",),
    records.AddScaledOp: ("x",),
    records.HeadNormOp: ("y",),
    records.KeepOutputsOp: ("x",),
    records.AddBiasOp: ("y",),
    records.QuantizeOp: ("q8", "super_q8"),
    records.ActivationOp: ("gate", "q8", "super_q8"),
    records.SigmoidGateOp: ("x",),
    records.SoftCapOp: ("y",),
    records.TopActivationsOp: ("x",),
    records.MatchMagnitudeOp: ("to",),
    records.PredictStreamsOp: ("x", "x_1", "x_2", "x_3", "predicted"),
    records.CorrectStreamsOp: ("x", "x_1", "x_2", "x_3", "scaled"),
    records.MatmulOp: ("y",),
    records.RopeStoreOp: ("q", "k"),
    records.AttentionOp: ("out", "partials"),
}
"""The fields of each record whose buffers the op writes. It reads those of all other fields, and these too."""


def used(op: Op) -> tuple[set[str], set[str]]:
    """The names of the buffers that an op touches, and of those that it writes; KV pages are "pages"."""
    touched = {argument.name for argument in op.arguments if isinstance(argument, Buffer)}
    arguments = [getattr(op.arguments, field) for field in WRITTEN[type(op.arguments)]]
    written = {argument.name for argument in arguments if isinstance(argument, Buffer)}
    if isinstance(op.arguments, records.RopeStoreOp) and op.arguments.k:
        written.add("pages")
    return touched | ({"pages"} if isinstance(op.arguments, records.AttentionOp) else set()), written


def races(ops: list[Op]) -> list[str]:
    """The ops that another one may overtake, with the buffers that both use."""
    found, touched, written = list[str](), set[str](), set[str]()
    for i, op in enumerate(ops):
        touches, writes = used(op)
        if op.barrier:
            touched, written = set(), set()
        elif shared := (writes & touched) | (touches & written):
            found.append(f"op {i}, {op.kernel}: {', '.join(sorted(shared))}")
        touched, written = touched | touches | writes, written | writes
    return found


def of_type(part: Any, kind: GGMLType) -> Any:
    """A part of a description with all its projections of another type; their data is not that of the type."""
    if isinstance(part, Linear):
        return replace(part, weight=replace(part.weight, type=kind))
    if isinstance(part, tuple):
        return tuple(of_type(each, kind) for each in part)
    if is_dataclass(part) and not isinstance(part, type | Tensor):
        return replace(part, **{field.name: of_type(getattr(part, field.name), kind) for field in fields(part)})
    return part


def programs(path: Path, types: str = "F32") -> Iterator[list[Op]]:
    """The ops that threads run without coming back, of a file's model with all that it can give."""
    with GGUFFile.open(path) as file:
        model = of_type(describe(file), NAMED_TYPES[types])
        last = len(model.layers) - 1
        for outputs in (OutputSettings(), OutputSettings(hidden=True, taps=frozenset({0, last}))):
            program = build_program(model, "f16", outputs=outputs, ctx=64)
            for _, blocks in runs(on_cpu(last + 1), outputs.taps):
                first = program.starts[blocks.start] if blocks.start else 0
                yield program.ops[first : program.starts[blocks.stop]]


@pytest.mark.parametrize("types", ["F32", "Q8_0", "Q4_K"])
@pytest.mark.parametrize("name", DENSE)
def test_no_op_of_a_family_races_with_another(shared: Path, name: str, types: str) -> None:
    if DENSE[name] not in ARCHITECTURES:
        pytest.skip(f"architecture {DENSE[name]} is not supported")
    for ops in programs(ArchFixture.of(shared, name).gguf, types):
        assert races(ops) == []


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3"])
def test_no_op_races_with_another(model_file: ModelFile, arch: str) -> None:
    for ops in programs(model_file(arch=arch)):
        assert races(ops) == []


def test_a_race_is_found(model_file: ModelFile) -> None:
    ops = next(programs(model_file()))
    needed = [i for i, op in enumerate(ops) if op.barrier and i > 0]
    for i in needed[:12]:
        wrong = [*ops]
        wrong[i] = Op(
            *(getattr(ops[i], field) for field in ("kernel", "arguments", "units", "per_row", "outputs")), False
        )
        assert races(wrong), f"the barrier before {ops[i].kernel} has no effect"
