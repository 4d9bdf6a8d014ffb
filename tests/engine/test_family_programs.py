"""Programs of models of every family: threads wait where they must, and no op reaches out of bounds."""

from dataclasses import replace

import pytest

from edgellm.arch import describe
from edgellm.engine.build_program import build_program
from edgellm.engine.outputs import OutputSettings
from edgellm.gguf import GGUFFile
from kquants.records import NormOp
from support.families import CASES
from support.model_file import FamilyFile
from support.op_extents import out_of_bounds
from support.op_hazards import ops_that_mix_rows, ops_without_barrier


@pytest.mark.parametrize("name", CASES)
def test_no_op_starts_before_the_rows_that_it_needs_are_there(family_file: FamilyFile, name: str) -> None:
    with GGUFFile.open(family_file(name)) as file:
        model = describe(file)
        for taps in [(), (0,), (len(model.layers) - 1,)]:
            outputs = OutputSettings(hidden=True, taps=frozenset(taps))
            program = build_program(model, "f16", outputs=outputs)
            assert list(ops_without_barrier(program)) == list(ops_that_mix_rows(program)) == [], f"taps {taps}"


@pytest.mark.parametrize("name", CASES)
def test_no_op_reaches_behind_a_tensor_a_row_or_a_page(family_file: FamilyFile, name: str) -> None:
    with GGUFFile.open(family_file(name)) as file:
        model = describe(file)
        for kv_type in ("f32", "q8_0"):
            assert list(out_of_bounds(build_program(model, kv_type), kv_type)) == []


def test_these_checks_find_what_is_wrong(family_file: FamilyFile) -> None:
    with GGUFFile.open(family_file("llama3")) as file:
        program = build_program(describe(file), "f16")
        norm = next(i for i, op in enumerate(program.ops) if isinstance(op.arguments, NormOp))
        kept, given = program.ops[norm], program.ops[norm].arguments
        program.ops[norm] = replace(kept, arguments=given._replace(n=given.n + 1), barrier=False)
        assert list(ops_without_barrier(program)) == [f"op {norm}, rms_norm"]
        assert any("of weight, which has" in each for each in out_of_bounds(program, "f16"))
        program.ops[norm] = kept
        program.ops = [op for op in program.ops if op.kernel != "keep_outputs"]
        assert any("add" in each or "matmul" in each for each in ops_that_mix_rows(program)), "x has all rows"
        del program, kept, given
