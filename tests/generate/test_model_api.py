"""A model that is cancelled, interrupted, shared by threads, closed while it computes."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgellm
from edgellm import EdgeLLMError, EdgeLLMWarning, Model, ModelFileError, OptionError
from edgellm.engine.outputs import OutputSettings
from edgellm.generate.generation import Generation
from support.model_file import ModelFile

SLOW: dict[str, Any] = {"types": "Q8_0", "context_length": 32768}
LONG = "z" * 20_000  # seconds of prefill: whatever interrupts it comes in the midst
PROMPT = "the time was and"
GREEDY: dict[str, Any] = {"max_tokens": 12, "temp": 0, "logit_bias": {2: -float("inf")}}


@pytest.fixture
def slow(model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**SLOW), threads=2) as model:
        yield model


@pytest.fixture(scope="module")
def expected(model_file: ModelFile) -> str:
    """The reply of a fresh model to PROMPT."""
    with Model.open(model_file(**SLOW), threads=2) as model:
        return model.generate(PROMPT, **GREEDY).text


def once(action: Callable[[], object]) -> Callable[[int, int], None]:
    """Progress that calls `action` from another thread, soon after the first part of a prompt was computed."""
    timers: list[threading.Timer] = []

    def progress(done: int, total: int) -> None:
        if done and not timers:
            timers.append(threading.Timer(0.02, action))
            timers[0].start()

    return progress


def test_cancel_amid_a_prefill(slow: Model, expected: str) -> None:
    generation = slow.stream(LONG, progress=once(lambda: generation.cancel()))
    reply = generation.completion()
    assert (reply.tokens, reply.text, reply.finish_reason) == ([], "", "cancelled")
    again = slow.stream(LONG, progress=once(lambda: again.cancel()))
    assert again.completion().stats.cached_tokens >= 256  # the parts that were whole
    assert slow.generate(PROMPT, **GREEDY).text == expected


def test_cancel_amid_decode(slow: Model, expected: str) -> None:
    generation = slow.stream(PROMPT, temp=0, logit_bias=GREEDY["logit_bias"])
    for token in generation:
        if token.stats.generated_tokens == 3:
            threading.Thread(target=generation.cancel).start()
    assert generation.finish_reason == "cancelled"
    assert 3 <= len(generation.tokens) < 32_000
    assert expected.startswith(generation.text[:3])
    assert slow.generate(PROMPT, **GREEDY).text == expected


@pytest.mark.parametrize("started", [False, True])
def test_cancel_between_tokens_ends_at_once(slow: Model, started: bool) -> None:
    generation = slow.stream(PROMPT)
    if started:
        next(generation)
    generation.cancel()
    assert generation.finish_reason == "cancelled"
    assert list(generation) == []
    assert generation.completion().finish_reason == "cancelled"
    generation.cancel()
    n = len(slow.tokenizer.encode(PROMPT, add_special=True))
    assert slow.generate(PROMPT, max_tokens=1).stats.cached_tokens == (n - 1 if started else 0)


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_ended_by_its_own_progress(slow: Model, expected: str, end: str) -> None:
    generation = slow.stream(LONG, progress=lambda done, total: getattr(generation, end)())
    assert list(generation) == []
    assert generation.finish_reason == "cancelled"
    assert generation.stats.prefill_tps is None
    assert slow.generate(PROMPT, **GREEDY).text == expected


def test_a_stopped_prefill_has_a_speed(slow: Model) -> None:
    generation = slow.stream(LONG, progress=lambda done, total: generation.close() if done else None)
    assert list(generation) == []
    assert (generation.stats.prefill_tps or 0) > 0
    assert slow.generate(LONG, max_tokens=0).stats.prefill_tps is None


def test_cancel_after_the_end_changes_nothing(slow: Model) -> None:
    generation = slow.stream(PROMPT, **GREEDY)
    reply = generation.completion()
    generation.cancel()
    generation.close()
    assert generation.completion() == reply
    assert reply.finish_reason == "length"


def test_cancelling_one_request_disturbs_no_other(slow: Model, expected: str) -> None:
    quit_ = threading.Event()

    def nuisance() -> None:
        while not quit_.wait(0.003):
            slow.stream("x").cancel()

    thread = threading.Thread(target=nuisance)
    thread.start()
    texts = {slow.generate(PROMPT, **GREEDY).text for _ in range(10)}
    quit_.set()
    thread.join()
    assert texts == {expected}


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to oneself there")
def test_ctrl_c_amid_a_prefill(slow: Model, expected: str) -> None:
    generation = slow.stream(LONG, progress=once(interrupt))
    with pytest.raises(KeyboardInterrupt):
        next(generation)
    assert generation.finish_reason == "cancelled"
    assert list(generation) == []
    assert slow.generate(LONG[:600], max_tokens=1, temp=0).stats.cached_tokens >= 256
    assert slow.generate(PROMPT, **GREEDY).text == expected


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to oneself there")
def test_ctrl_c_amid_logits(slow: Model) -> None:
    ids = [5] * 30_000
    whole = slow.logits(ids[:100])
    timer = threading.Timer(0.3, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        slow.logits(ids)
    assert np.array_equal(slow.logits(ids[:100]), whole)


def test_an_exception_from_progress_is_raised(slow: Model, expected: str) -> None:
    def progress(done: int, total: int) -> None:
        raise ZeroDivisionError

    generation = slow.stream(PROMPT, progress=progress)
    with pytest.raises(ZeroDivisionError):
        next(generation)
    assert generation.finish_reason == "cancelled"
    assert slow.generate(PROMPT, **GREEDY).text == expected


def test_threads_that_share_a_model_get_the_same_replies(slow: Model) -> None:
    prompts = ["the time", "he was in", "thing and", "on the"]
    alone = [slow.generate(prompt, **GREEDY).text for prompt in prompts]
    assert len(set(alone)) == 4
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda prompt: slow.generate(prompt, **GREEDY).text, prompts * 5))
    assert together == alone * 5


def closed_meanwhile(path: Path, work: Callable[[Model, threading.Event], object]) -> BaseException | None:
    """The exception of `work` in a thread when the model is closed while it runs."""
    running = threading.Event()
    model = Model.open(path, threads=2)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work, model, running)
        assert running.wait(60)
        model.close()
        return future.exception(60)


def decode(model: Model, running: threading.Event) -> None:
    for token in model.stream(PROMPT, logit_bias=GREEDY["logit_bias"]):
        if token.stats.generated_tokens == 3:
            running.set()


def prefill(model: Model, running: threading.Event) -> None:
    next(model.stream(LONG, progress=lambda done, total: running.set()))


def compute_logits(model: Model, running: threading.Event) -> None:
    running.set()
    model.logits([5] * 30_000)


@pytest.mark.parametrize("work", [decode, prefill, compute_logits])
def test_closed_while_another_thread_computes(model_file: ModelFile, work: Callable[..., object]) -> None:
    """The file is unmapped then: a computation that continued would crash the process."""
    for _ in range(3):
        error = closed_meanwhile(model_file(**SLOW), work)
        assert isinstance(error, EdgeLLMError)
        assert "was closed; open it again" in str(error)


def test_use_after_close(model_file: ModelFile) -> None:
    path = model_file(**SLOW, chat_template="{{ messages[0].content }}")
    with Model.open(path, threads=1) as model:
        chat, generation = model.chat(), model.stream(PROMPT)
        next(generation)
    calls: list[Callable[[], object]] = [lambda: next(generation), lambda: model.stream("x"), lambda: chat.send("x")]
    for call in [*calls, lambda: model.generate("x"), lambda: model.logits([3])]:
        with pytest.raises(EdgeLLMError, match=f"model {path} was closed; open it again"):
            call()
    assert generation.finish_reason == "cancelled"
    model.close()
    generation.cancel()
    assert model.tokenizer.encode("the")  # needs no model


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_close_unmaps_the_file_and_ends_the_threads(model_file: ModelFile) -> None:
    path, before = model_file(**SLOW), threading.active_count()
    model = Model.open(path, threads=2)
    assert model.generate(PROMPT, **GREEDY).tokens
    assert str(path) in Path("/proc/self/maps").read_text()
    assert threading.active_count() == before + 1  # the caller is the other
    model.close()
    assert str(path) not in Path("/proc/self/maps").read_text()
    assert threading.active_count() == before


def test_logits(slow: Model) -> None:
    ids = [1, 5, 9]
    logits = slow.logits(np.array(ids), chunk=2)
    assert (logits.shape, logits.dtype) == ((3, 320), np.dtype(np.float32))
    slow.generate(PROMPT, max_tokens=2)
    assert np.array_equal(slow.logits(ids), logits)  # no state in between
    with pytest.raises(OptionError, match="chunk cannot be 0"):
        slow.logits(ids, chunk=0)
    wrong: list[tuple[Any, str]] = [([], "at least one id"), ([320], "token id 320"), ([1, -1], "token id -1")]
    wrong += [(ids, "whole numbers") for ids in (["a"], [1.5], [[1, 2]], "abc", None)]
    for ids, words in wrong:
        with pytest.raises(EdgeLLMError, match=words):
            slow.logits(ids)


def test_arguments_that_must_be_text(slow: Model) -> None:
    for prompt in (None, 5, b"x", {1, 5}):
        with pytest.raises(OptionError, match=r"prompt cannot be .*: give text"):
            slow.stream(prompt)  # type: ignore[arg-type]
    for path in (None, b"x", 3):
        with pytest.raises(OptionError, match="path cannot be"):
            Model.open(path)  # type: ignore[arg-type]


def test_token_ids_are_a_prompt(slow: Model) -> None:
    ids = slow.tokenizer.encode("w1 w2", add_special=True)
    text = slow.generate("w1 w2", max_tokens=4, temp=0).text
    assert slow.generate(ids, max_tokens=4, temp=0).text == text
    assert slow.generate(np.array(ids), max_tokens=4, temp=0).text == text
    with pytest.raises(OptionError, match="at least one id"):
        slow.stream([])
    for wrong in (-1, slow.engine.vocab):
        with pytest.raises(OptionError, match=f"the token {wrong}: give ids from 0 to"):
            slow.stream([1, wrong])
    with pytest.raises(OptionError, match="whole numbers"):
        slow.stream([1, "w"])  # type: ignore[list-item]


WRONG: list[tuple[dict[str, Any], type[EdgeLLMError], str]] = [
    ({"thread": 2}, OptionError, "unknown option thread: did you mean threads"),
    ({"threads": 0}, OptionError, "threads cannot be 0"),
    ({"threads": "2"}, OptionError, "threads cannot be '2'"),
    ({"ctx": 40000}, OptionError, "ctx cannot be 40000.* made for up to 32768 tokens"),
    ({"kv_type": "q8"}, OptionError, "kv_type cannot be 'q8': give f16, f32 or q8_0"),
    ({"engine": "fast"}, OptionError, "engine cannot be 'fast'"),
    ({"gpu_memory": 1e300}, OptionError, "gpu_memory cannot be 1e.300: give a finite number, from 0.001 to 1000000"),
    ({"gpu_layers": "all", "engine": "llama.cpp"}, EdgeLLMError, "CPU alone"),
    ({"outputs": OutputSettings(hidden=True), "engine": "llama.cpp"}, EdgeLLMError, "gives logits alone"),
    ({"tokenizer_pre": "llama-bpe"}, OptionError, "tokenizer-pre"),
]


@pytest.mark.parametrize(("options", "kind", "words"), WRONG, ids=[words for *_, words in WRONG])
def test_wrong_load_options(
    model_file: ModelFile, options: dict[str, Any], kind: type[EdgeLLMError], words: str
) -> None:
    threads = threading.active_count()
    with pytest.raises(kind, match=words):
        Model.open(model_file(**SLOW), **options)
    assert threading.active_count() == threads


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<!DOCTYPE html><html></html>")
    (tmp_path / "empty.gguf").touch()
    faults = {"none.gguf": "no such file", "": "directory", "page.gguf": "web page", "empty.gguf": "empty"}
    for name, words in faults.items():
        with pytest.raises(ModelFileError, match=words):
            Model.open(tmp_path / name)


def test_names_open_models_too() -> None:
    with Model.open("builtin", threads=1) as model:
        assert model.generate("Hello", max_tokens=1).tokens
    with pytest.raises(ModelFileError, match="no model named buildin"):
        Model.open("buildin")


def test_a_file_larger_than_the_free_memory_gets_a_warning(
    model_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.generate.engines.available_memory", lambda: 1_000_000)
    path = model_file(**SLOW)
    with pytest.warns(EdgeLLMWarning, match=f"{path} has .* MB, but only 1 MB of memory"):
        Model.open(path, threads=1).close()


def test_more_threads_than_cpus_get_a_warning(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.engines.usable_cpus", lambda: 1)
    told = "^2 threads share 1 CPU here, and wait for each other: choose [12]$"
    with pytest.warns(EdgeLLMWarning, match=told):
        Model.open(model_file(**SLOW), threads=2).close()
    Model.open(model_file(**SLOW), threads=1).close()


def test_the_public_names() -> None:
    assert {"Model", "Tokenizer", "Chat", "EdgeLLMError"} <= set(edgellm.__all__)
    for name in edgellm.__all__:
        assert getattr(edgellm, name)
    with pytest.raises(AttributeError, match="no attribute 'Modle'"):
        edgellm.Modle  # type: ignore[attr-defined]  # noqa: B018


def test_a_generation_is_an_iterator(slow: Model) -> None:
    generation = slow.stream(PROMPT, **GREEDY)
    assert isinstance(generation, Generation)
    assert iter(generation) is generation
    assert len(list(generation)) == 12
    with pytest.raises(StopIteration):
        next(generation)
