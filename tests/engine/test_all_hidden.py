"""Hidden states of all rows, and those before the last norm."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.arch import describe
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.outputs import Outputs, OutputSettings
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.logits_bits import IDS
from support.model_file import ModelFile

WANTED = (0, 7, 40)


def computed(path: Path, outputs: OutputSettings, chunk: int = 41) -> Outputs:
    """The outputs of the last chunk of a text."""
    with GGUFFile.open(path) as file:
        engine = NativeEngine(file, threads=2, ctx=256, kv_type="f32", cache=cache_folder(), outputs=outputs)
        sequence, ids = engine.new_sequence(), IDS[:41]
        for i in range(0, len(ids), chunk):
            part = ids[i : i + chunk]
            found = engine.compute([Segment(sequence, part, [j for j in WANTED if j < len(part)])])
        engine.close()
    return found


@pytest.mark.parametrize("types", ["F32", "Q8_0"])
def test_states_of_all_rows_are_those_of_wanted_ones(model_file: ModelFile, types: str) -> None:
    path = model_file(types=types, layers=2)
    every, wanted = computed(path, OutputSettings(all_hidden=True, hidden=True)), computed(path, OutputSettings())
    assert every.all_hidden is not None and every.hidden is not None and every.logits is not None
    assert every.all_hidden.shape == (41, 512)
    assert np.array_equal(every.all_hidden[list(WANTED)], every.hidden)
    assert wanted.logits is not None and np.array_equal(every.logits, wanted.logits), "logits keep their bits"
    last = computed(path, OutputSettings(all_hidden=True), chunk=20).all_hidden
    assert last is not None and np.array_equal(last, every.all_hidden[-1:]), "in any chunks"


@pytest.mark.parametrize("squares", [False, True])
def test_the_residual_is_the_state_before_the_last_norm(model_file: ModelFile, squares: bool) -> None:
    path = model_file(types="F32", layers=2)
    found = computed(path, OutputSettings(residual=True, hidden=True, taps=frozenset({1}), squares=squares))
    assert found.residual is not None and found.hidden is not None
    assert np.array_equal(found.residual, found.taps[1][list(WANTED)])
    with GGUFFile.open(path) as file:
        norm = describe(file).output_norm
        assert norm.weight
        x = found.residual.astype(np.float64)
        normed = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + norm.eps) * norm.weight.data.view("<f4")
    np.testing.assert_allclose(found.hidden, normed, rtol=1e-5, atol=1e-6)
