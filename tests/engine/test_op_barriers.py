"""Threads wait for each other before each op that needs what others wrote, in models of every family."""

import pytest

from edgellm.arch import describe
from edgellm.engine.build_program import build_program
from edgellm.engine.outputs import OutputSettings
from edgellm.gguf import GGUFFile
from support.families import CASES
from support.model_file import FamilyFile
from support.op_hazards import ops_without_barrier


@pytest.mark.parametrize("name", CASES)
def test_no_op_starts_before_what_it_needs_is_done(family_file: FamilyFile, name: str) -> None:
    with GGUFFile.open(family_file(name)) as file:
        model = describe(file)
        for taps in [(), (0,), (len(model.layers) - 1,)]:
            outputs = OutputSettings(hidden=True, taps=frozenset(taps))
            assert list(ops_without_barrier(build_program(model, "f16", outputs=outputs))) == [], f"taps {taps}"
