"""Replies that are generated at once have the bits of those generated alone, in every kind of model."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from edgellm import Model
from edgellm.engine.kv_pages import PagePool
from support.drafts import AllDrafts
from support.generation import NO_END, RECURRENT, TINY
from support.model_file import ModelFile

MODELS: dict[str, dict[str, Any]] = {
    "quantized": {"width": 256, "heads": 4, "kv_heads": 2, "ffn": 256, "context_length": 1024},
    "recurrent": {**RECURRENT, "context_length": 1024},
    "windowed": {**TINY, "context_length": 1024, "metadata": (("attention.sliding_window", 40),)},
    "experts": {**TINY, "arch": "qwen3moe", "experts": 8, "used": 3, "context_length": 1024},
}
WORDS = ["the", "time", "was", "and", "of", "a", "in", "is"]
FORMS: list[dict[str, Any]] = [{}, {}, {"regex": "(ab|cd){3,30}"}, {"json_schema": {"type": "array", "maxItems": 4}}]


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, model_file: ModelFile) -> Iterator[Model]:
    path: Path = model_file(**MODELS[request.param])
    with Model.open(path, threads=2) as model:
        yield model


@pytest.fixture(autouse=True)
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", AllDrafts)


def request(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """A prompt, of which some repeat themselves and some have beginnings in common, and options."""
    words = chance.choices(WORDS, k=chance.choice([1, 5, 30]))
    prompt = " ".join(["the time was"] * chance.randrange(9) + words * chance.choice([1, 1, 6]))
    form = chance.choice(FORMS)
    options: dict[str, Any] = {"max_tokens": chance.randrange(1, 40), "seed": chance.randrange(1000)}
    options |= {"temp": chance.choice([0, 0.8, 1.5]), "logprobs": True, "partial": bool(form)}
    return prompt, options | form | ({} if form else {"logit_bias": NO_END})


@pytest.mark.parametrize("seed", range(3))
def test_replies_at_once_have_the_bits_of_replies_alone(
    model: Model, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    requests = [request(chance) for _ in range(12)]
    alone = [model.generate(prompt, **options) for prompt, options in requests]
    forward, sizes = model.engine.forward, list[int]()
    monkeypatch.setattr(model.engine, "forward", lambda parts: (sizes.append(len(parts)), forward(parts))[1])
    barrier = threading.Barrier(len(requests))

    def run(prompt: str, options: dict[str, Any]) -> Any:
        barrier.wait(30)
        return model.generate(prompt, **options)

    with ThreadPoolExecutor(len(requests)) as pool:
        together = list(pool.map(lambda each: run(*each), requests))
    assert [each.tokens for each in together] == [each.tokens for each in alone]
    assert [each.logprobs for each in together] == [each.logprobs for each in alone]
    assert [each.finish_reason for each in together] == [each.finish_reason for each in alone]
    assert max(sizes) > 2, "requests were computed together"


def test_cancelled_requests_change_no_other(model: Model) -> None:
    chance = random.Random(7)
    requests = [request(chance) for _ in range(8)]
    alone = [model.generate(prompt, **options) for prompt, options in requests]

    def cancelled(i: int) -> None:
        running = model.stream("the time was and " * (3 * i + 1), max_tokens=60, seed=i)
        for _ in range(i):
            next(running)
        running.cancel()

    with ThreadPoolExecutor(16) as pool:
        given = [pool.submit(model.generate, prompt, **options) for prompt, options in requests]
        for each in [pool.submit(cancelled, i) for i in range(8)]:
            each.result(60)
        assert [each.result(60).logprobs for each in given] == [each.logprobs for each in alone]


def test_requests_that_end_in_any_way_leave_no_page_behind(model: Model) -> None:
    def run(i: int) -> None:
        running = model.stream(WORDS[i % 3] * 20, max_tokens=30, seed=i, logit_bias=NO_END)
        for _ in range(i % 7):
            next(running, None)
        if i % 3 == 0:
            running.cancel()
        elif i % 3 == 1:
            running.completion()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(40)))
    engine: Any = model.engine
    assert model.kv_stats.used_pages == 0
    while engine.evict():
        pass
    pools: list[PagePool] = list(engine._runner.pools)
    if states := engine._runner.checkpoints.states:
        pools.append(states.pool)
    for each in pools:
        each.release(each.acquire())  # which first takes back what was dropped
        assert sum(each._references) == 0
