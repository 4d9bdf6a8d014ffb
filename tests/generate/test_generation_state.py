"""The state of a generation: cached tokens, progress, live figures, and errors amid a reply."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgellm import EdgeLLMError, Model
from edgellm.engine.protocol import common_prefix
from edgellm.generate.generation import Generation
from edgellm.generate.stats import Live
from edgellm.generate.timing import RequestTimer
from support.generation import EOT, GREEDY, NO_END, PROMPT, TINY
from support.model_file import ModelFile


@pytest.fixture(scope="module")
def model(model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**TINY, eot=EOT), threads=1) as model:
        yield model


@pytest.fixture(scope="module")
def model_path(model_file: ModelFile) -> Path:
    return model_file(**TINY)


def test_cached_tokens_are_those_shared_with_any_request_before(model_path: Path) -> None:
    with Model.open(model_path, threads=1) as model:
        first = model.generate(PROMPT, max_tokens=5, temp=0, logit_bias=NO_END)
        ids = model.tokenizer.encode(PROMPT, add_special=True)
        assert (first.stats.prompt_tokens, first.stats.cached_tokens) == (len(ids), 0)
        again = model.generate(PROMPT, max_tokens=5, temp=0, logit_bias=NO_END)
        assert again.stats.cached_tokens == len(ids) - 1  # the last one's logits are needed
        assert again.tokens == first.tokens
        held = [ids + first.tokens[:-1]]  # the last token was never computed
        for prompt in (PROMPT + " the", PROMPT + first.text + " the", "th", "zzz"):
            new = model.tokenizer.encode(prompt, add_special=True)
            shared = max(common_prefix(each, new) for each in held)
            reply = model.generate(prompt, max_tokens=1, temp=0)
            assert reply.stats.cached_tokens == min(shared, len(new) - 1)
            held.append(new)
        with Model.open(model_path, threads=1) as fresh:
            assert fresh.generate("zzz", max_tokens=1, temp=0).tokens == reply.tokens


def test_two_generations_in_turn_do_not_touch_each_other(model: Model) -> None:
    prompts = ("the time", "he was in")
    alone = [model.generate(prompt, **GREEDY).tokens for prompt in prompts]
    one, two = (model.stream(prompt, **GREEDY) for prompt in prompts)
    together = [(a.id, b.id) for a, b in zip(one, two, strict=True)]
    assert [list(ids) for ids in zip(*together, strict=True)] == alone


def test_an_abandoned_generation_leaves_its_state(model_path: Path) -> None:
    with Model.open(model_path, threads=1) as model:
        for token in model.stream(PROMPT, **GREEDY):
            if token.stats.generated_tokens == 3:
                break
        del token
        n = len(model.tokenizer.encode(PROMPT, add_special=True))
        assert model.generate(PROMPT, max_tokens=1).stats.cached_tokens == n - 1


def test_a_long_prompt_is_read_in_parts_with_progress(model: Model) -> None:
    seen: list[tuple[int, int]] = []
    prompt = "z" * 400
    model.generate("", max_tokens=1)  # leaves BOS alone in the cache
    n = len(model.tokenizer.encode(prompt, add_special=True)) - 1
    generation: Generation = model.stream(prompt, max_tokens=1, progress=lambda *at: seen.append(at))
    assert seen == []
    list(generation)
    assert seen == [(0, n), (256, n), (n, n)]


class Clock:
    """A clock that advances by a second at each reading."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def test_the_live_state_of_a_generation(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Model.open(model_path, threads=1) as model:
        monkeypatch.setattr(model._generator, "start_timer", lambda: RequestTimer(list, clock=Clock()))
        n = len(model.tokenizer.encode("z" * 400, add_special=True))
        seen: list[Live] = []
        generation = model.stream("z" * 400, progress=lambda done, total: seen.append(generation.live()), **GREEDY)
        waiting = generation.live()
        assert (waiting.elapsed_s, waiting.prefill_total, waiting.context_used) == (1, 0, 0)
        next(generation)
        assert [(live.prefill_done, live.prefill_total) for live in seen] == [(0, n), (256, n), (n, n)]
        assert [live.context_used for live in seen] == [0, 256, n]
        assert seen[0].prefill_eta_s is None
        assert seen[1].prefill_eta_s is not None
        for _ in range(4):
            next(generation)
        live = generation.live()
        assert (live.context_used, live.gaps_ms, live.recent_tps) == (n + 4, (1000.0,) * 4, 1.0)
        assert live.stats == generation.stats
        generation.cancel()
        assert generation.live() == generation.live()


def test_where_a_prompt_diverges_from_the_cache(model_path: Path) -> None:
    with Model.open(model_path, threads=1) as model:

        def read(prompt: str) -> Live:
            generation = model.stream(prompt, **GREEDY)
            assert generation.live().diverged_at is None  # not compared yet
            generation.completion()
            return generation.live()

        first = read("Knowledge\nToday Date: 21 Nov")
        assert (first.diverged_at, first.diverged_text) == (None, "")
        assert read("Knowledge\nToday Date: 21 Nov").diverged_at is None  # all of it was there, and more
        changed = read("Knowledge\nToday Date: 22 Nov")
        assert changed.diverged_at == changed.stats.cached_tokens
        assert changed.diverged_text == "…ge Today Date: 22 Nov"
        ids = model.tokenizer.encode("Knowledge\nToday Date: 22 Nov", add_special=True)
        assert model.tokenizer.decode(ids[changed.diverged_at : changed.diverged_at + 1]) == "2"


def test_an_engine_that_fails_amid_a_reply(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model.generate(PROMPT, **GREEDY)
    generation = model.stream(PROMPT, stop=whole.text[5:8] + "never", **GREEDY)
    told = "".join(next(generation).text for _ in range(7))
    with monkeypatch.context() as patch:

        def fail(segments: object) -> None:
            raise EdgeLLMError("no memory")

        patch.setattr(model.engine, "forward", fail)
        with pytest.raises(EdgeLLMError, match="no memory"):
            next(generation)
    assert (generation.finish_reason, generation.tokens) == ("cancelled", whole.tokens[:7])
    assert generation.text.startswith(told)
    assert whole.text.startswith(generation.text)  # with what was held back for a stop string
    assert (list(generation), generation.completion().text) == ([], generation.text)
    assert generation.live().stats.generated_tokens == 7
    again = model.generate(PROMPT, **GREEDY)
    assert (again.tokens, again.stats.cached_tokens) == (whole.tokens, again.stats.prompt_tokens - 1)
