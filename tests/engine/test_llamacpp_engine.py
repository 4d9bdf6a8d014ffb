"""The second engine: the same logits, text and stats as llama.cpp itself.

The oracle is llama.cpp by another way (`oracle.py`), with the attention kernel that the engine uses.
"""

import signal
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from edgellm import ContextOverflowError, EdgeLLMError, Model, OptionError
from edgellm.engine.protocol import Segment, Stopped
from edgellm.gguf import GGUFFile
from edgellm.llamacpp.engine import LlamaCppEngine
from support.model_file import ModelFile
from support.oracle import llama_cpp_greedy, llama_cpp_logits

pytestmark = pytest.mark.skipif(find_spec("llama_cpp") is None, reason="needs llama-cpp-python, the engine itself")

IDS = [1, *range(3, 150)]
PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def path(model_file: ModelFile) -> Path:
    return model_file(types="F32")


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, engine="llama.cpp", threads=2) as model:
        yield model


@pytest.fixture(scope="module")
def engine(path: Path) -> Iterator[LlamaCppEngine]:
    with GGUFFile.open(path) as file:
        engine = LlamaCppEngine(file, threads=2, ctx=128, kv_type="f32")
        yield engine
        engine.close()


@pytest.mark.parametrize("types", ["F32", "F16", "BF16", "Q8_0", "Q4_K"])
def test_logits_are_those_of_llama_cpp(model_file: ModelFile, types: str) -> None:
    path = model_file(types=types)
    with Model.open(path, engine="llama.cpp", threads=2) as model:
        logits = model.logits(IDS)
    oracle = llama_cpp_logits(path, IDS, flash_attention=True)
    assert logits.shape == oracle.shape
    assert np.abs(logits - oracle).max() < 1e-4


@pytest.mark.parametrize(("kv_type", "flash"), [("f32", False), ("q8_0", True)])
def test_logits_of_the_kv_type_that_was_asked_for(model_file: ModelFile, kv_type: str, flash: bool) -> None:
    path = model_file(types="F16", heads=4, kv_heads=2, head_dim=64)
    with Model.open(path, engine="llama.cpp", threads=2, kv_type=kv_type) as model:
        logits = model.logits(IDS)
    oracle = llama_cpp_logits(path, IDS, kv_type=kv_type, flash_attention=flash)
    assert np.abs(logits - oracle).max() < 1e-4
    assert np.abs(logits - llama_cpp_logits(path, IDS, flash_attention=True)).max() > 1e-4


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_logits_in_chunks(model: Model, chunk: int) -> None:
    assert np.abs(model.logits(IDS, chunk) - model.logits(IDS)).max() < 0.1  # f16 rounds them differently


def test_greedy_text_is_that_of_llama_cpp_and_of_our_engine(model: Model, path: Path) -> None:
    told = model.generate(PROMPT, temp=0, max_tokens=60)
    # llama-cpp-python leaves out bytes that are no UTF-8.
    assert told.text.replace("\ufffd", "") == llama_cpp_greedy(path, PROMPT, 60)
    with Model.open(path, threads=2) as ours:
        assert told.tokens == ours.generate(PROMPT, temp=0, max_tokens=60).tokens


def test_it_tells_the_golden_story(shared: Path) -> None:
    stories = shared / "models/stories260K"
    with Model.open(stories / "stories260K-f32.gguf", engine="llama.cpp", threads=2) as model:
        assert PROMPT + model.generate(PROMPT, temp=0, max_tokens=196).text == (stories / "golden.txt").read_text()


def test_stats(model: Model, path: Path) -> None:
    first = model.generate("A new prompt of many tokens, first time", temp=0, max_tokens=8)
    again = model.generate("A new prompt of many tokens, first time", temp=0, max_tokens=8)
    assert again.tokens == first.tokens
    assert again.stats.cached_tokens == again.stats.prompt_tokens - 1
    assert first.stats.cached_tokens < first.stats.prompt_tokens - 1
    with GGUFFile.open(path) as file:
        weights = sum(tensor.nbytes for tensor in file.tensors.values())
    assert first.stats.devices == [{"name": "llama.cpp CPU", "blocks": 5, "bytes": weights}]
    assert first.stats.mbu is None


def test_it_runs_what_our_engine_cannot(model_file: ModelFile, path: Path) -> None:
    # llama.cpp computes internlm2 as it does llama: with the same weights it must give the same logits.
    options = {"types": "F32", "tied": False}
    with Model.open(model_file(arch="internlm2", **options), engine="llama.cpp", threads=2) as model:
        logits = model.logits(IDS)
    assert np.abs(logits - llama_cpp_logits(model_file(**options), IDS, flash_attention=True)).max() < 1e-4


def test_logits_belong_to_the_caller(engine: LlamaCppEngine) -> None:
    logits = engine.forward([Segment(engine.new_sequence(), [1, 5, 9], [0, 2])])
    assert logits.shape == (2, engine.vocab)
    logits += 1.0


def test_sequences_part_and_go_back(engine: LlamaCppEngine) -> None:
    def last(sequence: object, tokens: list[int]) -> np.ndarray:
        return engine.forward([Segment(sequence, tokens, [len(tokens) - 1])])[0]

    stem = engine.new_sequence()
    last(stem, IDS[:40])
    branch = stem.fork()
    assert branch.tokens == IDS[:40]
    left, right = last(stem, [7, 8, 9]), last(branch, [17, 18, 19])
    assert np.abs(left - last(engine.new_sequence(), [*IDS[:40], 7, 8, 9])).max() < 2e-3
    assert np.abs(right - last(engine.new_sequence(), [*IDS[:40], 17, 18, 19])).max() < 2e-3
    assert np.abs(left - right).max() > 0.5
    assert branch.trim(20) == len(branch) == 20
    assert stem.tokens == [*IDS[:40], 7, 8, 9]
    assert np.abs(last(branch, [5]) - last(engine.new_sequence(), [*IDS[:20], 5])).max() < 2e-3


def test_one_batch_of_several_sequences(engine: LlamaCppEngine) -> None:
    one, other = engine.new_sequence(), engine.new_sequence()
    logits = engine.forward([Segment(one, IDS[:9], [3, 8]), Segment(other, IDS[20:26], [5])])
    assert logits.shape == (3, engine.vocab)
    assert np.abs(logits[:2] - engine.forward([Segment(engine.new_sequence(), IDS[:9], [3, 8])])).max() < 2e-3
    assert np.abs(logits[2:] - engine.forward([Segment(engine.new_sequence(), IDS[20:26], [5])])).max() < 2e-3


def test_more_sequences_than_llama_cpp_keeps(engine: LlamaCppEngine) -> None:
    """24 sequences of 30 tokens, in 16 slots with room for 256 tokens: the state that was lost is computed again."""
    starts = [[1, *range(3 + i, 32 + i)] for i in range(24)]
    sequences = [engine.new_sequence() for _ in starts]
    for sequence, tokens in zip(sequences, starts, strict=True):
        engine.forward([Segment(sequence, tokens)])
    for sequence, tokens in zip(sequences, starts, strict=True):
        logits = engine.forward([Segment(sequence, [50], [0])])
        assert sequence.tokens == [*tokens, 50]
        alone = engine.forward([Segment(engine.new_sequence(), [*tokens, 50], [30])])
        assert np.abs(logits - alone).max() < 2e-3


def test_what_does_not_fit_at_once_is_refused(engine: LlamaCppEngine) -> None:
    full = [engine.new_sequence() for _ in range(3)]
    with pytest.raises(EdgeLLMError, match="raise --ctx"):
        for _ in range(3):
            engine.forward([Segment(sequence, IDS[:40]) for sequence in full])
    assert [len(sequence) for sequence in full] == [80, 80, 80]  # llama.cpp makes room for 256
    del full
    engine.forward([Segment(engine.new_sequence(), IDS[:128])])


def test_bad_batches_are_refused(engine: LlamaCppEngine) -> None:
    sequence = engine.new_sequence()
    for tokens in ([engine.vocab], [-1], [], [1] * (engine.max_rows + 1)):
        with pytest.raises(EdgeLLMError):
            engine.forward([Segment(sequence, tokens)])
    with pytest.raises(ContextOverflowError, match="larger context"):
        engine.forward([Segment(sequence, [1] * 100)])
        engine.forward([Segment(sequence, [1] * 29)])
    assert len(sequence) == 100


def test_a_prompt_longer_than_the_context(model: Model) -> None:
    with pytest.raises(ContextOverflowError, match="context of 512"):
        model.generate("time " * 600)


def test_a_context_above_the_models(path: Path) -> None:
    with pytest.raises(OptionError, match="512 tokens"):
        Model.open(path, engine="llama.cpp", ctx=513)


def test_generation_ends_where_the_context_does(path: Path) -> None:
    with Model.open(path, engine="llama.cpp", threads=2, ctx=40) as model:
        told = model.generate(PROMPT, temp=0, logit_bias={2: float("-inf")})
    assert told.finish_reason == "length"
    assert told.stats.prompt_tokens + len(told.tokens) == 41  # the last one needs no place


def test_stop_holds_until_it_is_cleared(engine: LlamaCppEngine) -> None:
    sequence = engine.new_sequence()
    engine.forward([Segment(sequence, IDS[:20])])
    engine.stop()
    for _ in range(2):
        with pytest.raises(Stopped):
            engine.forward([Segment(sequence, IDS[20:40], [19])])
        assert sequence.tokens == IDS[:20]
    engine.clear_stop()
    logits = engine.forward([Segment(sequence, IDS[20:40], [19])])
    alone = engine.forward([Segment(engine.new_sequence(), IDS[:40], [39])])
    assert np.abs(logits - alone).max() < 2e-3


def test_an_interrupt_leaves_the_engine_usable(engine: LlamaCppEngine) -> None:
    sequence = engine.new_sequence()
    engine.forward([Segment(sequence, IDS[:10])])
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for microseconds in (1, 50, 200, 400, 800, 1600):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
                while True:
                    sequence.trim(10)
                    engine.forward([Segment(sequence, IDS[10:60], [49])])
    finally:
        signal.signal(signal.SIGALRM, before)
    sequence.trim(10)
    logits = engine.forward([Segment(sequence, IDS[10:60], [49])])
    alone = engine.forward([Segment(engine.new_sequence(), IDS[:60], [59])])
    assert np.abs(logits - alone).max() < 2e-3


def test_cancel_from_another_thread(model: Model) -> None:
    generation = model.stream(PROMPT, temp=0, logit_bias={2: float("-inf")})
    tokens = [next(generation).id for _ in range(5)]
    thread = threading.Thread(target=generation.cancel)
    thread.start()
    assert [*tokens, *(token.id for token in generation)] == generation.tokens
    thread.join()
    assert generation.finish_reason == "cancelled"
    assert model.generate(PROMPT, temp=0, max_tokens=5).tokens == tokens
