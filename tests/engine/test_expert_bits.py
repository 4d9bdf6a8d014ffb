"""A token's logits have the same bits with experts, whatever other rows do and whichever experts these use."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.engine import failover
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.protocol import Segment, Stopped
from edgellm.gguf import GGUFFile
from edgellm.gguf.page_cache import advise_function
from support.engine_bits import extend, forked, forward, fresh, neighbours, opened, trimmed
from support.logits_bits import IDS, Bits, logits_bits
from support.make_gguf import EXPERT_RECIPES, write_model
from support.model_file import ModelFile

OTHER = [1, *map(int, np.random.default_rng(3).integers(3, 320, 149))]

SIZES: dict[str, Any] = {"arch": "qwen3moe", "width": 256, "ffn": 256, "heads": 4, "kv_heads": 2, "experts": 8}
RECIPES = list(EXPERT_RECIPES)
ROUTERS: dict[str, dict[str, Any]] = {
    "ties": {"router": "twins"},
    "near ties": {"router": "near twins"},
    "one expert of all rows": {"router": "zero", "used": 1},
    "all experts": {"used": 8},
    "one of many": {"experts": 40, "used": 1},
}


def expert_file(model_file: ModelFile, recipe: str = "F32 experts", **options: Any) -> Path:
    return model_file(types=recipe, **{**SIZES, "router": "near twins", **options})


def chosen_experts(engine: NativeEngine, rows: int, used: int) -> NDArray[np.int32]:
    """The experts that the rows of the last batch have in the last layer."""
    (device,) = {id(device): device for device in engine._runner.devices}.values()
    buffers = {buffer.name: memory for buffer, memory in device._buffers.items()}
    return buffers[f"chosen[{used}]"].view(np.int32).ravel()[: rows * used].reshape(rows, used)


@pytest.mark.parametrize("recipe", RECIPES)
def test_chunks_and_threads_change_no_bit(model_file: ModelFile, recipe: str) -> None:
    path = expert_file(model_file, recipe)
    whole = logits_bits(path, 2, None)
    assert np.isfinite(whole.view(np.float32)).all() and len(np.unique(whole, axis=0)) == len(whole)
    for threads, chunk in ((1, 1), (1, 7), (1, 64), (1, None), (2, 1), (2, 9), (3, 1), (3, 7), (3, 64), (3, None)):
        assert np.array_equal(logits_bits(path, threads, chunk), whole), f"{threads} threads, chunks of {chunk}"


@pytest.mark.parametrize("recipe", RECIPES)
def test_large_batches_change_no_bit(model_file: ModelFile, recipe: str) -> None:
    """Models with experts compute more rows at once than others; one expert has most of them here."""
    path = expert_file(model_file, recipe, context_length=1024, layers=1, router="zero", used=2)
    ids = (IDS * 5)[:700]
    with opened(path, ctx=1024) as engine:
        assert engine.max_rows == 1024
        whole = fresh(engine, ids)
        assert np.array_equal(extend(engine, engine.new_sequence(), ids, 64), whole)
        parts = (engine.new_sequence(), ids[:300]), (engine.new_sequence(), ids), (engine.new_sequence(), ids[:1])
        first, second, third = forward(engine, *parts)
    assert np.array_equal(first, whole[:300]) and np.array_equal(second, whole) and np.array_equal(third, whole[:1])


@pytest.mark.parametrize("name", ROUTERS)
def test_whichever_experts_there_are(model_file: ModelFile, name: str) -> None:
    path = expert_file(model_file, **ROUTERS[name])
    whole = logits_bits(path, 2, None)
    for threads, chunk in ((1, 1), (1, 64), (3, 7)):
        assert np.array_equal(logits_bits(path, threads, chunk), whole), f"{threads} threads, chunks of {chunk}"


@pytest.mark.parametrize("recipe", RECIPES)
def test_neighbours_with_the_same_and_with_other_experts_change_no_bit(model_file: ModelFile, recipe: str) -> None:
    with opened(expert_file(model_file, recipe)) as engine:
        whole = fresh(engine, IDS)
        for others in (IDS, OTHER, IDS[::-1]):
            assert np.array_equal(neighbours(engine, IDS, others), whole)


NAN_TOKEN = next(token for token in range(3, 320) if token not in IDS)


def file_with_nan(path: Path, recipe: str) -> Path:
    """A model whose embedding of NAN_TOKEN begins with NaN."""
    write_model(path, **SIZES, types={**EXPERT_RECIPES[recipe], "token_embd": "F32"}, tied=False)
    with GGUFFile.open(path) as file:
        embeddings = file.tensors["token_embd.weight"]
        at = embeddings.offset + 4 * NAN_TOKEN * embeddings.shape[1]
        del embeddings
    data = bytearray(path.read_bytes())
    data[at : at + 4] = np.float32(np.nan).tobytes()
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("recipe", RECIPES)
def test_neighbours_that_are_nan_change_no_bit(recipe: str, tmp_path: Path) -> None:
    """The router has the first experts for such a row, whose slots lie among those of other rows, and hold NaN."""
    with opened(file_with_nan(tmp_path / "nan.gguf", recipe), threads=3) as engine:
        whole = fresh(engine, IDS)
        assert np.isfinite(whole.view(np.float32)).all()
        assert np.isnan(fresh(engine, [NAN_TOKEN] * 9).view(np.float32)).all()
        assert np.array_equal(neighbours(engine, IDS, [NAN_TOKEN] * 150), whole)
        assert np.array_equal(fresh(engine, IDS), whole), "a later batch"


@pytest.mark.parametrize("recipe", RECIPES)
def test_forks_and_trims_change_no_bit(model_file: ModelFile, recipe: str) -> None:
    with opened(expert_file(model_file, recipe), threads=3) as engine:
        whole = fresh(engine, IDS)
        for at in (64, 100):
            assert np.array_equal(forked(engine, IDS, OTHER, at), whole[at:])
        reached, logits = trimmed(engine, IDS, 70, 33)
        assert np.array_equal(logits, whole[reached:])


def test_what_else_is_wanted_changes_no_bit(model_file: ModelFile) -> None:
    """The experts of the last layer compute the wanted rows alone: none, some and all."""
    with opened(expert_file(model_file)) as engine:
        whole = fresh(engine, IDS)
        for wanted in ([], [0], [3, 17, 149], [149], list(range(150))):
            sequence = engine.new_sequence()
            found: Bits = engine.forward([Segment(sequence, IDS, wanted)]).view(np.uint32)
            assert np.array_equal(found, whole[wanted])


def test_a_stopped_batch_computes_the_same_again(model_file: ModelFile) -> None:
    with opened(expert_file(model_file, layers=6)) as engine:
        whole, sequence, stops = fresh(engine, IDS), engine.new_sequence(), 0
        for delay in (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008):
            stopper = threading.Timer(delay, engine.stop)
            stopper.start()
            try:
                forward(engine, (sequence, IDS))
            except Stopped:
                stops += 1
            stopper.join()
            engine.clear_stop()
            sequence.trim(0)
            assert np.array_equal(extend(engine, sequence, IDS, 50), whole)
            sequence.trim(0)
        assert stops > 0


def test_experts_that_are_read_ahead_change_no_bit(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = expert_file(model_file)
    whole = logits_bits(path, 2, None)
    monkeypatch.setattr(failover, "prepare_for_disk", lambda file, model: True)
    with opened(path, threads=3) as engine:
        (device,) = {id(device): device for device in engine._runner.devices}.values()
        assert advise_function() == 0 or any("read_ahead" in name for name in device._kernels)
        assert np.array_equal(extend(engine, engine.new_sequence(), IDS, 7), whole)


def test_rows_of_a_batch_use_different_experts(model_file: ModelFile) -> None:
    """What these tests are about: all experts are used, and no two rows need use the same."""
    with opened(expert_file(model_file)) as engine:
        fresh(engine, IDS)
        chosen = chosen_experts(engine, len(IDS), 3)
    assert set(chosen.ravel().tolist()) == set(range(8))
    assert len(np.unique(chosen, axis=0)) > 10
    with opened(expert_file(model_file, router="zero", used=1)) as engine:
        fresh(engine, IDS)
        assert (chosen_experts(engine, len(IDS), 1) == 0).all()
