"""Two engines on one pool of threads: each computes what it computes alone, and a stop ends whichever runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from edgellm.arch import describe
from edgellm.engine.build_program import build_program
from edgellm.engine.limits import max_batch_rows
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.protocol import Segment, Stopped
from edgellm.engine.threadpool import ThreadPool
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.engine_bits import extend, fresh, opened
from support.logits_bits import IDS
from support.model_file import ModelFile


@contextmanager
def on_pool(path: Path, pool: ThreadPool) -> Iterator[NativeEngine]:
    with GGUFFile.open(path) as file:
        engine = NativeEngine(file, threads=1, ctx=256, kv_type="f16", cache=cache_folder(), pool=pool)
        yield engine
        engine.close()


@pytest.fixture(scope="module")
def paths(model_file: ModelFile) -> tuple[Path, Path]:
    """A small model, and one with more ops and wider rows."""
    return model_file(types="Q8_0", layers=2), model_file(types="Q4_0", layers=4)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_engines_in_turn_compute_what_they_compute_alone(
    paths: tuple[Path, Path], order: tuple[int, int], threads: int
) -> None:
    alone = []
    for i in order:
        with opened(paths[i]) as engine:
            alone.append(fresh(engine, IDS))
    with opened(paths[order[0]], threads=threads) as owner, on_pool(paths[order[1]], owner.pool) as guest:
        assert guest.threads == threads
        for chunk in (1, 7, 150):
            sequences = owner.new_sequence(), guest.new_sequence()
            found: tuple[list[np.ndarray], list[np.ndarray]] = [], []
            for start in range(0, len(IDS), chunk):
                for engine, sequence, each in zip((owner, guest), sequences, found, strict=True):
                    each.append(extend(engine, sequence, IDS[start : start + chunk], chunk))
            for each, expected in zip(found, alone, strict=True):
                assert np.array_equal(np.concatenate(each), expected)


def test_a_stop_ends_either_and_both_are_whole_afterwards(paths: tuple[Path, Path]) -> None:
    with opened(paths[0], threads=2) as owner, on_pool(paths[1], owner.pool) as guest:
        expected = [fresh(engine, IDS) for engine in (owner, guest)]
        for stopping in (owner, guest):
            for running in (owner, guest):
                sequence = running.new_sequence()
                stop = threading.Timer(0.002, stopping.stop)
                stop.start()
                with pytest.raises(Stopped):
                    while True:
                        running.compute([Segment(sequence, IDS)])
                        sequence.trim(0)
                stop.join()
                assert not sequence.tokens
                stopping.clear_stop()
                for engine, bits in zip((owner, guest), expected, strict=True):
                    assert np.array_equal(fresh(engine, IDS), bits)


def test_the_threads_outlive_a_guest_and_not_their_owner(paths: tuple[Path, Path]) -> None:
    with opened(paths[0]) as owner:
        expected = fresh(owner, IDS)
        with on_pool(paths[1], owner.pool):
            pass
        assert np.array_equal(fresh(owner, IDS), expected)
        with on_pool(paths[1], owner.pool) as guest:
            owner.close()
            with pytest.raises(EdgeLLMError, match="the threads were ended"):
                fresh(guest, IDS)
        with pytest.raises(EdgeLLMError, match="the engine was closed"):  # without an error, after the threads
            fresh(guest, IDS)


def test_scratch_that_the_pool_has_is_not_asked_for_again(
    paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first engine asks for activations and the scratch of three threads, the second one for activations alone."""
    asked = list[int]()
    monkeypatch.setattr("edgellm.engine.cpu.check_memory", lambda nbytes, what, advice: asked.append(nbytes))
    with opened(paths[0], threads=3) as owner, on_pool(paths[0], owner.pool), GGUFFile.open(paths[0]) as file:
        first, second = asked
        scratch = build_program(describe(file), "f16", ctx=256).scratch_bytes
        assert first - second == 3 * scratch > 0
    asked.clear()
    with opened(paths[0], threads=3) as owner, on_pool(paths[1], owner.pool), GGUFFile.open(paths[1]) as file:
        program = build_program(describe(file), "f16", ctx=256)
        rows = max_batch_rows(program, 256)
        assert asked[1] >= program.activation_bytes(rows) + 3 * program.scratch_bytes, "more ops: a larger pool"
