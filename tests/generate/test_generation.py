"""Generation: the right text, why it ends, what a seed means, and figures that can be counted by hand."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm import ContextOverflowError, EdgeLLMError, Model, OptionError
from edgellm.generate.generation import Generation
from edgellm.generate.stats import Live
from edgellm.generate.timing import RequestTimer
from edgellm.sampling.sampler import top_logprobs
from support.make_gguf import write_model
from support.model_file import ModelFile
from support.oracle import llama_cpp_greedy

TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
PROMPT = "the time was and"
BOS, EOS, EOT = 1, 2, 300
BYTES = range(3, 259)  # the ids of the bytes 0 … 255 in the tiny vocabulary
NEVER = -float("inf")
NO_END = {EOS: NEVER, EOT: NEVER}


@pytest.fixture(scope="module")
def model(model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**TINY, eot=EOT), threads=1) as model:
        yield model


@pytest.mark.slow
def test_greedy_text_is_that_of_llama_cpp(model_file: ModelFile) -> None:
    path = model_file(types="F32")
    with Model.open(path, threads=2) as model:
        reply = model.generate(PROMPT, max_tokens=48, temp=0)
        data = b"".join(map(model.tokenizer.token_bytes, reply.tokens))
    assert len(reply.tokens) > 20
    assert data.decode(errors="ignore") == llama_cpp_greedy(path, PROMPT, 48)


def test_the_three_layers_agree(model: Model) -> None:
    tokens = list(model.stream(PROMPT, max_tokens=30, temp=0, logit_bias=NO_END))
    reply = model.generate(PROMPT, max_tokens=30, temp=0, logit_bias=NO_END)
    data = b"".join(map(model.tokenizer.token_bytes, reply.tokens))
    assert reply.tokens == [token.id for token in tokens]
    assert reply.text == "".join(token.text for token in tokens) == data.decode(errors="replace")
    assert [token.finish_reason for token in tokens] == [None] * 29 + ["length"]
    assert reply.finish_reason == "length"


def test_a_seed_gives_the_same_text_whatever_was_cached(model: Model) -> None:
    def ids(seed: int | None) -> list[int]:
        return model.generate(PROMPT, max_tokens=24, temp=1.5, top_k=0, seed=seed, logit_bias=NO_END).tokens

    first = ids(1)
    model.generate("in", max_tokens=2)
    assert ids(1) == first
    assert len({tuple(ids(seed)) for seed in range(5)}) == 5
    assert ids(None) != ids(None)


def test_logprobs_are_those_of_the_models_own_distribution(model: Model) -> None:
    options: dict[str, Any] = {"temp": 1.3, "seed": 4, "repeat_penalty": 1.5, "logit_bias": {9: 5.0} | NO_END}
    tokens = list(model.stream(PROMPT, max_tokens=20, **options))
    prompt, ids = model.tokenizer.encode(PROMPT, add_special=True), [token.id for token in tokens]
    logits = model.logits(prompt + ids)[len(prompt) - 1 : -1].astype(np.float64)
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert [t.logprob for t in tokens] == pytest.approx(expected[range(20), ids].tolist(), abs=1e-5)


def test_the_most_likely_tokens_have_their_logprobs(model: Model) -> None:
    options: dict[str, Any] = {"temp": 1.3, "seed": 4, "top_k": 2, "logit_bias": {9: 5.0} | NO_END, "max_tokens": 12}
    reply = model.generate(PROMPT, logprobs=4, **options)
    prompt, told = model.tokenizer.encode(PROMPT, add_special=True), reply.logprobs
    assert told is not None
    logits = model.logits(prompt + reply.tokens, chunk=3)[len(prompt) - 1 : -1].astype(np.float64)
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    order = expected.argsort(axis=1)[:, :-5:-1]
    assert [[each.id for each in place.top_logprobs] for place in told] == order.tolist()
    found = [[each.logprob for each in place.top_logprobs] for place in told]
    assert np.array(found) == pytest.approx(np.take_along_axis(expected, order, 1), abs=1e-5)
    assert [place.id for place in told] == reply.tokens
    assert [place.logprob for place in told] == pytest.approx(expected[range(12), reply.tokens].tolist(), abs=1e-5)
    spelled = [model.tokenizer.token_bytes(i, special=True).decode(errors="replace") for i in reply.tokens]
    assert [place.text for place in told] == spelled
    tokens = list(model.stream(PROMPT, logprobs=4, **options))
    assert [(t.id, t.logprob, t.top_logprobs) for t in tokens] == [(p.id, p.logprob, p.top_logprobs) for p in told]
    assert model.generate(PROMPT, **options).logprobs is None


def test_an_impossible_token_is_not_among_the_most_likely(model: Model) -> None:
    some = model.generate(PROMPT, logprobs=1000, max_tokens=1).logprobs
    assert some and len(some[0].top_logprobs) == model.tokenizer.n_vocab
    assert sum(math.exp(each.logprob) for each in some[0].top_logprobs) == pytest.approx(1)
    found = top_logprobs(np.array([1, -np.inf, 1, 2], np.float32), 9)
    assert [i for i, _ in found] == [3, 0, 2]
    assert [math.exp(value) for _, value in found] == pytest.approx(np.exp([2, 1, 1]) / np.exp([2, 1, 1]).sum())


def test_without_logprobs_the_tokens_are_the_same(model: Model) -> None:
    options: dict[str, Any] = {"max_tokens": 8, "seed": 4, "logit_bias": NO_END}
    told, silent = list(model.stream(PROMPT, **options)), list(model.stream(PROMPT, logprobs=False, **options))
    assert [token.id for token in silent] == [token.id for token in told]
    assert {token.logprob for token in silent} == {None}


@pytest.mark.parametrize("end", [EOS, EOT])
def test_every_end_token_ends(model: Model, end: int) -> None:
    (token,) = model.stream(PROMPT, temp=0, logit_bias={end: 1000.0})
    assert (token.id, token.text, token.finish_reason) == (end, "", "eog")
    (shown,) = model.stream(PROMPT, temp=0, logit_bias={end: 1000.0}, special=True)
    assert shown.text == model.tokenizer.token_bytes(end, special=True).decode()


@pytest.mark.parametrize("n", [0, 1, 7])
def test_max_tokens(model: Model, n: int) -> None:
    reply = model.generate(PROMPT, max_tokens=n, logit_bias=NO_END)
    assert (len(reply.tokens), reply.finish_reason) == (n, "length")
    assert reply.stats.generated_tokens == n
    assert (reply.text == "") is (n == 0)


def test_the_context_is_filled_to_the_last_token(model_file: ModelFile) -> None:
    """A prompt of n tokens leaves room for ctx - n in the state, and one more that need not be computed."""
    with Model.open(model_file(**TINY), threads=1, ctx=12) as model:
        prompt = "the time"
        n = len(model.tokenizer.encode(prompt, add_special=True))
        reply = model.generate(prompt, logit_bias=NO_END)
        assert (len(reply.tokens), reply.finish_reason) == (12 - n + 1, "length")
        full = "e" * 9  # with BOS and the leading space
        n = len(model.tokenizer.encode(full, add_special=True))
        assert len(model.generate(full, logit_bias=NO_END).tokens) == 12 - n + 1


def test_a_prompt_that_does_not_fit_is_refused_at_once(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    with Model.open(model_file(**TINY), threads=1, ctx=16) as model:
        prompt = "z" * 40
        n = len(model.tokenizer.encode(prompt, add_special=True))
        fits = prompt[: 16 - n]
        assert len(model.tokenizer.encode(fits, add_special=True)) == 16
        assert len(model.generate(fits, logit_bias=NO_END).tokens) == 1
        monkeypatch.setattr("edgellm.generate.session.Session.forward", None)  # any computation fails now
        words = f"prompt of {n} tokens is {n - 16} too long for the context of 16"
        for call in (lambda: model.stream(prompt), lambda: model.generate(prompt), lambda: model.logits([3] * n)):
            with pytest.raises(ContextOverflowError, match=words):
                call()


def test_an_empty_prompt(model: Model, model_file: ModelFile) -> None:
    assert model.generate("", max_tokens=1, logit_bias=NO_END).stats.prompt_tokens == 1  # BOS
    with Model.open(model_file(**TINY, tokenizer="gpt2"), threads=1) as without:
        with pytest.raises(EdgeLLMError, match="prompt is empty, without even a BOS"):
            without.stream("")
        assert without.generate("in", max_tokens=1).stats.prompt_tokens == 1


@given(spelled=st.text(alphabet="é€😀", min_size=1, max_size=3), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_no_half_character_ever_appears(model_path: Path, spelled: str, seed: int) -> None:
    """Only bytes of a few characters are sampled, in any order: valid characters are complete, others U+FFFD."""
    allowed = {BYTES[byte] for byte in spelled.encode()}
    bias = {i: NEVER for i in range(320) if i not in allowed}
    with Model.open(model_path, threads=1) as model:
        tokens = list(model.stream("a", max_tokens=40, temp=5.0, top_k=0, seed=seed, logit_bias=bias))
    whole = bytes(token.id - BYTES[0] for token in tokens).decode(errors="replace")
    so_far = ""
    for token in tokens:
        so_far += token.text
        assert whole.startswith(so_far)
    assert so_far == whole


@pytest.fixture(scope="module")
def model_path(model_file: ModelFile) -> Path:
    return model_file(**TINY)


GREEDY: dict[str, Any] = {"max_tokens": 40, "temp": 0, "logit_bias": NO_END}


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_stop_strings_end_the_text_before_them(model: Model, data: st.DataObject) -> None:
    text = model.generate(PROMPT, **GREEDY).text
    start = data.draw(st.integers(0, len(text) - 2))
    stop = text[start : start + data.draw(st.integers(1, 12))]
    reply = model.generate(PROMPT, stop=[stop, "never in this text"], **GREEDY)
    assert reply.text == text[: text.index(stop)]
    # The last character may be one that was never finished, and known only when the length was reached.
    assert reply.finish_reason == "stop" or (reply.finish_reason == "length" and text.endswith(stop))


def test_a_stop_string_over_several_tokens(model: Model) -> None:
    texts = [token.text for token in model.stream(PROMPT, **GREEDY)]
    i = next(i for i in range(5, 30) if all(texts[i : i + 3]) and "".join(texts).count("".join(texts[i : i + 3])) == 1)
    stop = "".join(texts[i : i + 3])
    tokens = list(model.stream(PROMPT, stop=stop, **GREEDY))
    assert "".join(token.text for token in tokens) == "".join(texts[:i])
    assert (len(tokens), tokens[-1].finish_reason) == (i + 3, "stop")


def test_a_control_token_is_a_stop_string(model: Model) -> None:
    """The stop string alone, and after letters of the token before."""
    wanted: dict[str, Any] = {"temp": 1, "seed": 5, "max_tokens": 60, "logit_bias": NO_END | {BOS: 4}}
    tokens = list(model.stream(PROMPT, **wanted))
    ends = [i for i, token in enumerate(tokens) if token.id == BOS]
    behind = next(i for i in ends if i and len(tokens[i - 1].text) > 1)
    for stop, at, shown in (("<s>", ends[0], ends[0]), (tokens[behind - 1].text + "<s>", behind, behind - 1)):
        reply = model.generate(PROMPT, stop=stop, **wanted)
        assert (reply.finish_reason, len(reply.tokens)) == ("stop", at + 1)
        assert reply.text == "".join(token.text for token in tokens[:shown])
    seen = model.generate(PROMPT, stop="<s>", special=True, **wanted)
    assert (seen.finish_reason, len(seen.tokens)) == ("stop", ends[0] + 1)


def test_a_held_back_beginning_of_a_stop_string_is_released_at_the_end(model: Model) -> None:
    text = model.generate(PROMPT, **GREEDY).text
    reply = model.generate(PROMPT, stop=text[-3:] + "and what never came", **GREEDY)
    assert (reply.text, reply.finish_reason) == (text, "length")


def test_a_held_back_beginning_of_a_stop_string_is_kept_after_cancel(model: Model) -> None:
    generation = model.stream(PROMPT, **GREEDY)
    texts = [next(generation).text for _ in range(8)]
    assert all(texts[6:])
    held = model.stream(PROMPT, stop="".join(texts[6:]) + "and what never came", **GREEDY)
    told = "".join(next(held).text for _ in range(8))
    assert told == held.text == "".join(texts[:6])
    held.cancel()
    assert held.text == held.completion().text == "".join(texts)


def test_half_a_character_is_not_kept_after_cancel(model: Model) -> None:
    only = {i: NEVER for i in range(320) if i != BYTES[0xE2]}
    generation = model.stream(PROMPT, logit_bias=only)
    next(generation)
    generation.cancel()
    assert generation.text == ""


def test_cached_tokens_are_those_shared_with_the_last_request(model_path: Path) -> None:
    with Model.open(model_path, threads=1) as model:
        first = model.generate(PROMPT, max_tokens=5, temp=0, logit_bias=NO_END)
        ids = model.tokenizer.encode(PROMPT, add_special=True)
        assert (first.stats.prompt_tokens, first.stats.cached_tokens) == (len(ids), 0)
        again = model.generate(PROMPT, max_tokens=5, temp=0, logit_bias=NO_END)
        assert again.stats.cached_tokens == len(ids) - 1  # the last one's logits are needed
        assert again.tokens == first.tokens
        held = ids + first.tokens[:-1]  # the last token was never computed
        for prompt in (PROMPT + " the", PROMPT + first.text + " the", "th", "zzz"):
            new = model.tokenizer.encode(prompt, add_special=True)
            shared = next((i for i, (a, b) in enumerate(zip(held, new, strict=False)) if a != b), len(held))
            reply = model.generate(prompt, max_tokens=1, temp=0)
            assert reply.stats.cached_tokens == min(shared, len(new) - 1)
            held = new
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


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_token": 3}, "unknown option max_token: did you mean max_tokens"),
    ({"temperature": 1}, "unknown option temperature: did you mean temp"),
    ({"max_tokens": -1}, "max_tokens cannot be -1"),
    ({"temp": float("nan")}, "temp cannot be nan"),
    ({"seed": -1}, "seed cannot be -1"),
    ({"stop": [""]}, "stop cannot be"),
    ({"logprobs": 0}, "logprobs cannot be 0: give True, False or a whole number, at least 1"),
    ({"logit_bias": {320: 1.0}}, "logit_bias has token 320"),
]


@pytest.mark.parametrize(("options", "words"), WRONG, ids=[words for _, words in WRONG])
def test_wrong_options_raise_at_the_call(model: Model, options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        model.stream(PROMPT, **options)


def test_given_options_override_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gguf

    class Writer(gguf.GGUFWriter):
        def add_context_length(self, length: int) -> None:
            super().add_context_length(length)
            self.add_float32("general.sampling.temp", 0.0)

    monkeypatch.setattr("support.make_gguf.gguf.GGUFWriter", Writer)
    with Model.open(write_model(tmp_path / "m.gguf", **TINY), threads=1) as model:
        texts = {model.generate(PROMPT, max_tokens=12).text for _ in range(3)}
        hot = {model.generate(PROMPT, max_tokens=12, temp=5.0, seed=seed).text for seed in range(3)}
        assert (len(texts), len(hot)) == (1, 3)
        assert texts == {model.generate(PROMPT, max_tokens=12, temp=0).text}


def test_a_model_that_computes_nan_says_so(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", **TINY)
    data = path.read_bytes()
    path.write_bytes(data[:-400] + b"\xff" * 400)  # NaN in the last feed-forward
    with Model.open(path, threads=1) as model, pytest.raises(EdgeLLMError, match=r"NaN.*edgellm verify"):
        model.generate(PROMPT, max_tokens=3)


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
