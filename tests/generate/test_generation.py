"""Generation: the right text, why it ends, what a seed means, and wrong options."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import ContextOverflowError, EdgeLLMError, Model, OptionError
from edgellm.sampling.sampler import top_logprobs
from support.generation import EOS, EOT, NO_END, PROMPT, TINY
from support.make_gguf import write_model
from support.model_file import ModelFile
from support.oracle import llama_cpp_greedy


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
