"""Prompts use what other conversations, and requests that still run, have computed; their replies do not change."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest

from edgellm import Model
from kquants.kv_layout import PAGE
from support.generation import GREEDY, RECURRENT, TINY
from support.model_file import ModelFile

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SYSTEM = LETTERS * 8
KINDS: dict[str, dict[str, Any]] = {
    "attention": {**TINY, "context_length": 1024},
    "recurrent": {**RECURRENT, "context_length": 1024},
    "windowed": {**TINY, "context_length": 1024, "metadata": (("attention.sliding_window", 40),)},
}
KVType = Literal["f32", "q8_0"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
SHORT: dict[str, Any] = GREEDY | {"max_tokens": 6}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def model(kind: str, model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**KINDS[kind], chat_template=TEMPLATE), threads=1) as model:
        yield model


@pytest.fixture
def fresh(kind: str, model_file: ModelFile) -> Iterator[Model]:
    """The same model, with a cache of its own."""
    with Model.open(model_file(**KINDS[kind], chat_template=TEMPLATE), threads=1) as model:
        yield model


def test_a_new_chat_does_not_read_the_system_prompt_again(model: Model, fresh: Model, kind: str) -> None:
    first = model.chat(SYSTEM, **SHORT)
    first.send("ABC")
    second = model.chat(SYSTEM, **SHORT).stream("XYZ")
    reply = second.completion()
    alone = fresh.chat(SYSTEM, **SHORT).send("XYZ")
    assert (reply.tokens, alone.stats.cached_tokens) == (alone.tokens, 0)
    if kind != "windowed":  # the first one has freed the pages that the end of its system prompt saw
        assert reply.stats.cached_tokens > len(SYSTEM)
    assert second.live().diverged_at is None
    assert first.send("ABC").stats.cached_tokens > len(SYSTEM), "the first chat has kept its own"


def test_a_reply_that_runs_shares_its_prompt(model: Model, fresh: Model) -> None:
    running = model.stream(SYSTEM, **SHORT)
    begun = [next(running).id for _ in range(3)]
    again = model.generate(SYSTEM, **SHORT)
    assert again.stats.cached_tokens == again.stats.prompt_tokens - 1
    whole = begun + [token.id for token in running]
    assert whole == again.tokens == fresh.generate(SYSTEM, **SHORT).tokens


def test_prompts_that_come_at_once_compute_what_they_share_once(model: Model, fresh: Model, kind: str) -> None:
    prompts = [SYSTEM + letter * 20 for letter in "QRST"]
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda prompt: model.generate(prompt, **SHORT), prompts))
    assert [reply.tokens for reply in replies] == [fresh.generate(prompt, **SHORT).tokens for prompt in prompts]
    if kind == "attention":
        cached = sorted(reply.stats.cached_tokens for reply in replies)
        assert cached[0] == 0
        assert all(each > len(SYSTEM) - PAGE for each in cached[1:])


def test_the_figures_tell_what_was_cached(model: Model) -> None:
    assert (model.prefix_stats.prompts, model.prefix_stats.hit_ratio) == (0, 0)
    replies = [model.generate(SYSTEM, **SHORT) for _ in range(2)]
    stats, tokens = model.prefix_stats, replies[0].stats.prompt_tokens
    assert (stats.prompts, stats.hits) == (2, 1)
    assert (stats.prompt_tokens, stats.cached_tokens) == (2 * tokens, tokens - 1)
    assert stats.hit_ratio == (tokens - 1) / (2 * tokens)


@pytest.mark.parametrize("kv_type", ["f32", "q8_0"])
def test_what_was_evicted_has_the_same_bits_again(kind: str, kv_type: KVType, model_file: ModelFile) -> None:
    path = model_file(**KINDS[kind], chat_template=TEMPLATE)
    with Model.open(path, threads=1, kv_type=kv_type) as model:

        def read() -> tuple[int, object]:
            reply = model.generate(SYSTEM, **SHORT, logprobs=3)
            return reply.stats.cached_tokens, reply.logprobs

        (nothing, cold), (cached, warm) = read(), read()
        assert (nothing, cached > 200, warm) == (0, True, cold)
        for leaves in range(6):
            for _ in range(leaves):
                model.engine.evict()
            assert read()[1] == cold
        while model.engine.evict():
            pass
        assert read() == (0, cold)


def test_pages_are_counted_by_who_uses_them(model: Model, kind: str) -> None:
    assert model.kv_stats.pages == 0
    running = model.stream(SYSTEM, **SHORT)
    next(running)
    stats = model.kv_stats
    assert (stats.used_pages, stats.cached_pages, stats.page_tokens) == (4, 0, PAGE)
    assert 0 < stats.bytes < stats.budget_bytes
    running.close()
    stats = model.kv_stats
    assert (stats.used_pages, stats.cached_pages) == (0, 4)
    while model.engine.evict():
        pass
    assert (model.kv_stats.used_pages, model.kv_stats.cached_pages, model.kv_stats.pages) == (0, 0, stats.pages)
