"""Programs of models of every family: threads wait where they must, and no op reaches out of bounds."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from edgellm.arch import describe
from edgellm.arch.blocks import Linear, StackedLinear
from edgellm.engine.build_program import build_program
from edgellm.engine.outputs import OutputSettings
from edgellm.gguf import GGUFFile, Tensor
from kquants.ggml import NAMED_TYPES, GGMLType
from kquants.records import NormOp
from support.families import CASES
from support.model_file import FamilyFile
from support.op_extents import out_of_bounds
from support.op_hazards import ops_that_mix_rows, ops_without_barrier


def of_type(part: Any, kind: GGMLType) -> Any:
    """A part of a description with all its projections of another type; their data is not that of the type."""
    if isinstance(part, Linear | StackedLinear):
        return replace(part, weight=replace(part.weight, type=kind))
    if isinstance(part, tuple):
        return tuple(of_type(each, kind) for each in part)
    if is_dataclass(part) and not isinstance(part, type | Tensor):
        return replace(part, **{field.name: of_type(getattr(part, field.name), kind) for field in fields(part)})
    return part


@pytest.mark.parametrize("types", ["F32", "Q8_0", "Q4_K"])
@pytest.mark.parametrize("name", CASES)
def test_no_op_starts_before_the_rows_that_it_needs_are_there(family_file: FamilyFile, name: str, types: str) -> None:
    """Projections of each type read their inputs in another form."""
    with GGUFFile.open(family_file(name)) as file:
        model = of_type(describe(file), NAMED_TYPES[types])
        kinds = [OutputSettings(True, True, frozenset(taps)) for taps in [(), (0,), (len(model.layers) - 1,)]]
        for outputs in (*kinds, OutputSettings(squares=True)):
            program = build_program(model, "f16", outputs=outputs)
            assert list(ops_without_barrier(program)) == list(ops_that_mix_rows(program)) == [], outputs


@pytest.mark.parametrize("name", CASES)
def test_no_op_reaches_behind_a_tensor_a_row_or_a_page(family_file: FamilyFile, name: str) -> None:
    with GGUFFile.open(family_file(name)) as file:
        model = describe(file)
        for kv_type, squares in (("f32", False), ("q8_0", False), ("f16", True)):
            program = build_program(model, kv_type, outputs=OutputSettings(squares=squares))
            assert list(out_of_bounds(program, kv_type, file.tensors)) == []


def test_these_checks_find_what_is_wrong(family_file: FamilyFile) -> None:
    with GGUFFile.open(family_file("llama3")) as file:
        program = build_program(describe(file), "f16")
        norm = next(i for i, op in enumerate(program.ops) if isinstance(op.arguments, NormOp))
        kept, given = program.ops[norm], program.ops[norm].arguments
        program.ops[norm] = replace(kept, arguments=given._replace(n=given.n + 1), barrier=False)
        assert list(ops_without_barrier(program)) == [f"op {norm}, rms_norm"]
        assert any("of weight, which has" in each for each in out_of_bounds(program, "f16", file.tensors))
        program.ops[norm] = kept
        program.ops = [op for op in program.ops if op.kernel != "keep_outputs"]
        assert any("add" in each or "matmul" in each for each in ops_that_mix_rows(program)), "x has all rows"
        del program, kept, given
