"""Layers that read the keys and values of earlier ones compute wanted rows alone, with the same bits."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.arch import describe
from edgellm.engine.build_program import build_program
from edgellm.engine.outputs import OutputSettings
from edgellm.engine.placement import mixer
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile
from support.engine_bits import extend, fresh, opened
from support.gemma_files import (
    Shapes,
    altup_shapes,
    drawn_values,
    per_layer_shapes,
    plain_shapes,
    windowed_keys,
    write_shapes,
)

WINDOWED = [True, False, True, True, False]
"""Layers 3 and 4 read the keys and values of layers 2 and 1."""
IDS = list(map(int, np.random.default_rng(1).integers(0, 8, 90)))


def shapes_of(arch: str) -> Shapes:
    shapes = plain_shapes(5, head_norms=True) | per_layer_shapes(5, 4)
    return shapes | (altup_shapes(5) if arch == "gemma3n" else {})


@pytest.fixture(params=["gemma3n", "gemma4"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of random weights with shared keys and values."""
    arch, shapes = request.param, shapes_of(request.param)
    keys = windowed_keys(5, WINDOWED, shared=2) | {"embedding_length_per_layer_input": 4}
    keys |= {"attention.key_length_swa": 8, "attention.value_length_swa": 8} if arch == "gemma4" else {}
    keys |= {"activation_sparsity_scale": [0.25] * 3 + [float("-inf")] * 2} if arch == "gemma3n" else {}
    return write_shapes(tmp_path / "m.gguf", arch, keys, shapes, drawn_values(shapes))


def test_wanted_rows_have_the_bits_of_all_rows(path: Path) -> None:
    with opened(path) as engine:
        whole = fresh(engine, IDS)
        for wanted in ([89], [3, 50, 89], []):
            got = engine.forward([Segment(engine.new_sequence(), IDS, wanted)])
            assert np.array_equal(got.view(np.uint32), whole[wanted])
        one, other = engine.new_sequence(), engine.new_sequence()
        engine.forward([Segment(one, IDS[:60], [])])
        both = engine.forward([Segment(one, IDS[60:], [29]), Segment(other, IDS, [5, 7])])
        assert np.array_equal(both.view(np.uint32), whole[[89, 5, 7]])


def test_chunks_and_threads_change_no_bit(path: Path) -> None:
    with opened(path) as engine:
        whole = fresh(engine, IDS)
    for threads, chunk in ((1, 1), (3, 7)):
        with opened(path, threads) as engine:
            assert np.array_equal(extend(engine, engine.new_sequence(), IDS, chunk), whole)


@pytest.mark.parametrize(("taps", "first"), [([], 2), ([1], 2), ([2], 3), ([3], 4), ([4], 5)])
def test_other_rows_end_where_no_layer_needs_them(path: Path, taps: list[int], first: int) -> None:
    with GGUFFile.open(path) as file:
        program = build_program(describe(file), "f16", outputs=OutputSettings(taps=frozenset(taps)), ctx=128)
        wanted = [i for i, op in enumerate(program.ops) if op.outputs]
        assert program.starts[mixer(first)] <= wanted[0] < program.starts[mixer(first) + 1 if first < 5 else -1]
        assert all(op.outputs for op in program.ops[wanted[0] :])
