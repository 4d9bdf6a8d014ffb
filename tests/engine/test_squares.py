"""Sums of squares of what matrices are multiplied by: those of llama.cpp, the same bits however a text is computed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.engine.build_program import build_program
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.outputs import InputSquares, OutputSettings
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile, Tensor
from edgellm.system.folders import cache_folder
from kquants.records import MatmulOp
from support.archs import ArchFixture
from support.families import CASES
from support.families.files import convert_case
from support.model_file import FamilyFile, ModelFile
from support.oracle import llama_cpp_squares

IDS = [1, *map(int, np.random.default_rng(5).integers(3, 250, 47))]

NEAR_TRANSFORMERS = ["qwen3_moe", "phi3_long", "cohere2", "llama4", "deepseek_v3", "granitehybrid", "qwen3_next"]
"""Fixtures of a mixture, of fused and of parallel projections, of scaled inputs of experts, of latent attention, and of
recurrent layers, that llama.cpp computes as `transformers` does."""


@contextmanager
def opened(path: Path, threads: int = 2, squares: bool = True) -> Iterator[NativeEngine]:
    with GGUFFile.open(path) as file:
        outputs = OutputSettings(squares=squares)
        engine = NativeEngine(file, threads=threads, ctx=128, kv_type="f32", cache=cache_folder(), outputs=outputs)
        yield engine
        engine.close()


def computed(engine: NativeEngine, ids: list[int], chunk: int = 64) -> NDArray[np.float32]:
    """The logits of every second token."""
    sequence, found = engine.new_sequence(), []
    for first in range(0, len(ids), chunk):
        part = ids[first : first + chunk]
        found.append(engine.forward([Segment(sequence, part, range(first % 2, len(part), 2))]))
    return np.concatenate(found)


def by_name(squares: list[InputSquares]) -> dict[str, tuple[NDArray[np.float64], NDArray[np.int64]]]:
    return {name: (each.sums, each.counts) for each in squares for name in each.names}


@pytest.mark.parametrize("name", NEAR_TRANSFORMERS)
def test_they_are_those_of_llama_cpp(shared: Path, name: str) -> None:
    """Of all rows, whatever logits are wanted; experts have theirs, and so have the matrices of heads."""
    fixture = ArchFixture.of(shared, name)
    expected = llama_cpp_squares(fixture.gguf, fixture.ids)
    with opened(fixture.gguf) as engine:
        computed(engine, fixture.ids)
        found = by_name(engine.take_squares())
    assert found.keys() == expected.keys()
    for tensor, (sums, counts) in expected.items():
        assert np.array_equal(found[tensor][1], counts), tensor
        assert np.linalg.norm(found[tensor][0] - sums) <= 1e-5 * np.linalg.norm(sums), tensor


@pytest.mark.parametrize("types", ["F32", "Q4_K experts"])
def test_the_same_bits_with_any_threads_and_chunks(model_file: ModelFile, types: str) -> None:
    """Also of a matrix in two parts, and after other rows were taken; sums then begin again."""
    path = model_file(types=types, arch="qwen3moe", width=512, heads=4, ffn=256, experts=8, used=3)
    taken = []
    for threads, chunk in ((1, 64), (2, 7), (3, 64), (2, 1)):
        with opened(path, threads) as engine:
            for ids in (IDS[:9], IDS):
                engine.take_squares()
                computed(engine, ids, chunk)
            taken.append(engine.take_squares())
            assert not any(each.sums.any() or each.counts.any() for each in engine.take_squares())
    for others in taken[1:]:
        for one, other in zip(taken[0], others, strict=True):
            assert np.array_equal(one.sums, other.sums) and np.array_equal(one.counts, other.counts), one.names


@pytest.mark.parametrize("name", ["gemma4_e2b", "cohere2", "deepseek_v3", "granite4_h_tiny", "kimi_linear"])
def test_logits_have_the_same_bits_with_and_without(tmp_path: Path, name: str) -> None:
    """Where matrices are quantized, inputs are written as float32 beside the form that they read."""
    path = convert_case(tmp_path, f"wide_{name}", "Q4_K_M")
    with opened(path, squares=False) as plain, opened(path) as observed:
        assert np.array_equal(computed(plain, IDS, chunk=23), computed(observed, IDS, chunk=23))
        assert not plain.take_squares()
        assert observed.take_squares()


@pytest.mark.parametrize("name", CASES)
def test_every_matrix_of_a_product_is_observed(family_file: FamilyFile, name: str) -> None:
    with GGUFFile.open(family_file(name)) as file:
        program = build_program(describe(file), "f16", outputs=OutputSettings(squares=True))
        matmuls = [op.arguments.w for op in program.ops if isinstance(op.arguments, MatmulOp)]
        multiplied = {w.stored_name for w in matmuls if isinstance(w, Tensor)}
        assert {name for each in program.observed for name in each.names} == multiplied
