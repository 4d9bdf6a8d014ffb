"""Rows of what matrices are multiplied by: their squares are the sums, and nothing else changes."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.arch import describe
from edgellm.engine.build_program import build_program
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.outputs import InputSquares, Outputs, OutputSettings
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.families import CASES
from support.families.files import convert_case
from support.model_file import FamilyFile, ModelFile
from support.op_hazards import ops_that_mix_rows, ops_without_barrier

IDS = [1, *map(int, np.random.default_rng(5).integers(3, 250, 40))]
NAMES = frozenset({"blk.0.attn_q.weight", "blk.0.ffn_down.weight", "blk.1.attn_output.weight"})


def computed(path: Path, outputs: OutputSettings, chunk: int = 64) -> tuple[list[Outputs], list[InputSquares]]:
    with GGUFFile.open(path) as file:
        engine = NativeEngine(file, threads=2, ctx=128, kv_type="f32", cache=cache_folder(), outputs=outputs)
        sequence, found = engine.new_sequence(), []
        for first in range(0, len(IDS), chunk):
            part = IDS[first : first + chunk]
            found.append(engine.compute([Segment(sequence, part, range(len(part)))]))
        squares = engine.take_squares()
        engine.close()
    return found, squares


def rows_by_names(found: list[Outputs]) -> dict[tuple[str, ...], np.ndarray]:
    rows: dict[tuple[str, ...], list[np.ndarray]] = {}
    for each in found:
        for given in each.inputs:
            rows.setdefault(given.names, []).append(given.rows)
    return {names: np.concatenate(parts) for names, parts in rows.items()}


@pytest.mark.parametrize("types", ["F32", "Q4_K"])
def test_their_squares_are_the_sums(model_file: ModelFile, types: str) -> None:
    """Of all rows, in any chunks; also if nothing but the inputs is wanted, and the rest is not computed."""
    path = model_file(types=types, width=256, heads=4, ffn=512)
    found, squares = computed(path, OutputSettings(squares=True, inputs=NAMES))
    rows = rows_by_names(found)
    assert {name for names in rows for name in names} >= NAMES
    sums = {each.names: each.sums[0] for each in squares}
    for names, given in rows.items():
        assert np.allclose(np.square(given, dtype=np.float64).sum(axis=0), sums[names], rtol=1e-12)
    alone = rows_by_names(computed(path, OutputSettings(logits=False, inputs=NAMES), chunk=7)[0])
    assert alone.keys() == rows.keys()
    assert all(np.array_equal(alone[names], rows[names]) for names in rows)


@pytest.mark.parametrize("name", ["gemma4_e2b", "cohere2", "deepseek_v3", "granite4_h_tiny"])
def test_logits_have_the_same_bits_with_and_without(tmp_path: Path, name: str) -> None:
    path = convert_case(tmp_path, f"wide_{name}", "Q4_K_M")
    with GGUFFile.open(path) as file:
        names = frozenset(file.tensors)
    plain, _ = computed(path, OutputSettings(), chunk=23)
    observed, _ = computed(path, OutputSettings(inputs=names), chunk=23)
    assert any(each.inputs for each in observed)
    for one, other in zip(plain, observed, strict=True):
        assert one.logits is not None and other.logits is not None
        assert np.array_equal(one.logits, other.logits)
        assert not one.inputs


@pytest.mark.parametrize("name", CASES)
def test_what_comes_behind_the_last_input_is_left_out(family_file: FamilyFile, name: str) -> None:
    with GGUFFile.open(family_file(name)) as file:
        model = describe(file)
        wanted = frozenset(name for name in file.tensors if name.startswith("blk.0."))
        whole = build_program(model, "f16", outputs=OutputSettings(inputs=wanted))
        part = build_program(model, "f16", outputs=OutputSettings(logits=False, inputs=wanted))
        assert part.given == whole.given
        assert [op.kernel for op in part.ops] == [op.kernel for op in whole.ops[: len(part.ops)]]
        assert len(part.ops) == max(each.op for each in part.given) == part.starts[-1] < len(whole.ops)
        assert list(ops_without_barrier(whole)) == list(ops_that_mix_rows(whole)) == []
