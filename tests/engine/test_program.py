"""The list of ops: on which rows they work, and what they write."""

import pytest

from edgellm.arch import describe
from edgellm.engine.build_program import build_program
from edgellm.engine.placement import CPU, GPU, Placement
from edgellm.gguf import GGUFFile
from support.model_file import ModelFile


@pytest.mark.parametrize(
    ("placement", "block", "before"),
    [
        ((CPU,) * 5, 2, "attention_f16"),
        ((GPU, CPU, GPU, CPU, CPU), 3, "rms_norm"),
        ((CPU, CPU, CPU, GPU, CPU), 4, "rms_norm"),
        ((CPU, CPU, GPU, GPU, CPU), 4, "rms_norm"),
        ((CPU, CPU, CPU, CPU, GPU), None, ""),
        ((CPU, CPU, GPU, GPU, GPU), None, ""),
    ],
)
def test_rows_without_wanted_logits_are_dropped_once_nothing_needs_them(
    model_file: ModelFile, placement: Placement, block: int | None, before: str
) -> None:
    """Keys and values of the last layer need all rows, and so does another device that goes on."""
    with GGUFFile.open(model_file(layers=2)) as file:
        program = build_program(describe(file), "f16", placement)
    names, outputs = [op.kernel for op in program.ops], [op.outputs for op in program.ops]
    if block is None:
        assert "keep_outputs" not in names
        assert not any(outputs)
        return
    at = names.index("keep_outputs")
    assert names.count("keep_outputs") == 1
    assert outputs == [False] * at + [True] * (len(names) - at)
    assert program.starts[block] <= at < program.starts[block + 1] if block < 4 else at == program.starts[block]
    assert names[at + 1] == before


@pytest.mark.parametrize(
    ("types", "wanted"), [("F16", "normed["), ("Q8_0", "normed.q8["), ("Q4_K", "normed.super_q8[")]
)
def test_normed_rows_are_written_only_in_the_form_that_matmuls_read(
    model_file: ModelFile, types: str, wanted: str
) -> None:
    with GGUFFile.open(model_file(types=types)) as file:
        program = build_program(describe(file), "f16")
    (name,) = [buffer.name for buffer in program.buffers if buffer.name.startswith("normed")]
    assert name.startswith(wanted)
