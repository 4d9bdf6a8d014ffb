"""Beam search: what it finds is what `transformers` finds, and the best there is where all can be tried."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm import Model, OptionError
from edgellm.engine.host_kv_pages import HostKVPages
from edgellm.errors import NoMemoryError
from edgellm.generate.results import BeamReply, Completion
from support.beam_references import CASES, END, MAX_TOKENS, OTHER_END, load_beams
from support.beam_references import PROMPT as REFERENCE_PROMPT
from support.generation import BYTES, EOS, EOT, NEVER, NO_END, PROMPT, RECURRENT, TINY
from support.model_file import FamilyFile, ModelFile

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
A, B, C = BYTES[97:100]
ONLY_ABC = {token: NEVER for token in range(320) if token not in (A, B, C, EOS)}
"""A bias that leaves three tokens and an end."""


@pytest.fixture(scope="module")
def model(model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**TINY, context_length=2048, chat_template=TEMPLATE), threads=1) as model:
        yield model


@pytest.fixture(scope="module")
def recurrent(model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**RECURRENT, context_length=512), threads=1) as model:
        yield model


def beams_of(completion: Completion) -> tuple[BeamReply, ...]:
    assert completion.beams is not None
    return completion.beams


def log_softmax(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    below = logits.astype(np.float64) - float(logits.max())
    return np.asarray(below - np.log(np.exp(below).sum(-1, keepdims=True)))


@pytest.mark.parametrize("name", CASES)
def test_the_replies_and_scores_are_those_of_transformers(family_file: FamilyFile, name: str) -> None:
    with Model.open(family_file(name), kv_type="f32", ctx=1024, threads=1) as model:
        assert model.tokenizer.eog_ids == {END, OTHER_END}
        for case in load_beams(name):
            bias = {END: case.bias, OTHER_END: NEVER}
            got = model.generate(REFERENCE_PROMPT, beams=case.beams, max_tokens=MAX_TOKENS, logit_bias=bias)
            assert [each.tokens for each in beams_of(got)] == case.tokens
            assert np.allclose([each.score for each in beams_of(got)], case.scores, rtol=0, atol=1e-3)
            assert got.tokens == case.tokens[0]
            assert got.finish_reason == ("eog" if END in got.tokens else "length")


def test_enough_beams_find_the_best_of_all_replies(model: Model) -> None:
    prompt = model.tokenizer.encode(PROMPT)
    bias = np.zeros(model.engine.vocab)
    for token, value in ONLY_ABC.items():
        bias[token : token + 1] = value
    bias[EOS] = 2

    def score(reply: tuple[int, ...]) -> float:
        rows = log_softmax_rows(model.logits([*prompt, *reply[:-1]])[len(prompt) - 1 :] + bias)
        return float(np.mean([row[token] for row, token in zip(rows, reply, strict=True)]))

    whole = [(*reply, last) for n in range(4) for reply in product((A, B, C), repeat=n) for last in (A, B, C, EOS)]
    scores = {reply: score(reply) for reply in whole if reply[-1] == EOS or len(reply) == 4}
    found = model.generate(prompt, beams=64, max_tokens=4, logit_bias=ONLY_ABC | {EOS: 2.0})
    best = sorted(scores, key=lambda reply: -scores[reply])
    assert tuple(found.tokens) == best[0]
    for reply in beams_of(found):
        assert reply.score == pytest.approx(scores[tuple(reply.tokens)], abs=1e-6)
    assert len(beams_of(found)) == 64
    assert [tuple(reply.tokens) for reply in beams_of(found)[:9]] == best[:9]


def log_softmax_rows(logits: NDArray[np.floating[Any]]) -> list[NDArray[np.float64]]:
    return [log_softmax(row) for row in logits]


@pytest.mark.parametrize("options", [{}, {"repeat_penalty": 1.6}, {"logit_bias": NO_END, "frequency_penalty": 3.0}])
def test_one_beam_is_the_greedy_reply(model: Model, recurrent: Model, options: dict[str, Any]) -> None:
    for each in (model, recurrent):
        greedy = each.generate(PROMPT, temp=0, max_tokens=40, logprobs=2, **options)
        found = each.generate(PROMPT, beams=1, max_tokens=40, logprobs=2, **options)
        assert (found.tokens, found.text, found.finish_reason) == (greedy.tokens, greedy.text, greedy.finish_reason)
        assert found.logprobs == greedy.logprobs


def test_penalties_count_the_tokens_of_each_beam(model: Model) -> None:
    options: dict[str, Any] = {"presence_penalty": 2.0, "penalty_last_n": -1, "logit_bias": NO_END}
    prompt = model.tokenizer.encode(PROMPT)
    for reply in beams_of(model.generate(prompt, beams=4, max_tokens=8, **options)):
        logits = model.logits([*prompt, *reply.tokens[:-1]])[len(prompt) - 1 :].astype(np.float64)
        total = 0.0
        for i, token in enumerate(reply.tokens):
            row = logits[i]
            row[list({*prompt, *reply.tokens[:i]})] -= 2
            row[[EOS, EOT]] = NEVER
            total += log_softmax(row)[token]
        assert reply.score == pytest.approx(total / 8, abs=1e-5)


def test_a_stop_string_ends_a_reply(model: Model) -> None:
    options: dict[str, Any] = {"beams": 3, "max_tokens": 12, "logit_bias": NO_END}
    free = beams_of(model.generate(PROMPT, **options))
    reasons = set()
    for stop in {free[0].text[i : i + 2] for i in range(6)}:
        found = model.generate(PROMPT, stop=stop, **options)
        for reply in beams_of(found):
            assert stop not in reply.text
            assert (reply.finish_reason == "stop") == (stop in model.tokenizer.decode(reply.tokens))
            assert len(reply.tokens) == 12 or reply.finish_reason == "stop"
            reasons.add(reply.finish_reason)
        assert (found.text, found.tokens) == (beams_of(found)[0].text, beams_of(found)[0].tokens)
    assert reasons == {"stop", "length"}


def test_the_same_replies_beside_other_requests_and_with_more_threads(model: Model, recurrent: Model) -> None:
    options: dict[str, Any] = {"max_tokens": 24, "logit_bias": NO_END}
    for one in (model, recurrent):
        alone = [one.generate(PROMPT * n, beams=3, **options).beams for n in (1, 9)]
        greedy = one.generate("was", temp=0, **options).tokens
        with ThreadPoolExecutor(4) as pool:
            beams = [pool.submit(one.generate, PROMPT * n, beams=3, **options) for n in (1, 9)]
            others = [pool.submit(one.generate, "was", temp=0, **options) for _ in range(2)]
            assert [each.result().beams for each in beams] == alone
            assert [each.result().tokens for each in others] == [greedy] * 2
        with Model.open(one.file.path, threads=3) as more:
            assert more.generate(PROMPT, beams=3, **options).beams == alone[0]
    assert model.generate([PROMPT, PROMPT * 9], beams=3, **options)[1].beams == alone[1] or one is recurrent


def test_a_step_of_all_beams_is_one_batch(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    batches, forward = list[int](), model.engine.forward

    def record(segments: Any) -> Any:
        batches.append(len(segments))
        return forward(segments)

    monkeypatch.setattr(model.engine, "forward", record)
    model.generate(PROMPT, beams=5, max_tokens=9, logit_bias=NO_END)
    assert batches == [1, *[5] * 8]
    with ThreadPoolExecutor(1) as pool:  # a thread that is not the main one shares its batches with others
        pool.submit(model.generate, PROMPT, beams=5, max_tokens=9, logit_bias=NO_END).result()
    assert batches[9:] == [1, *[5] * 8]


def test_beams_share_the_pages_of_their_prompt(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt of 16 pages and 8 beams: they copy the last page alone. Another request waits for memory."""
    ensure, most = HostKVPages.ensure_pages, 16 + 2 * 8 + 1

    def limited(store: HostKVPages, group: int, pages: int) -> None:
        if pages > most:
            raise NoMemoryError("no memory for another page", "use fewer")
        ensure(store, group, pages)

    monkeypatch.setattr(HostKVPages, "ensure_pages", limited)
    other: dict[str, Any] = {"temp": 0, "max_tokens": 60, "logit_bias": NO_END}
    with Model.open(model_file(**TINY, context_length=2048), threads=1) as model:
        prompt = (model.tokenizer.encode("the time was ") * 400)[: 16 * 64 - 1]
        found = model.generate(prompt, beams=8, max_tokens=20, logit_bias=NO_END)
        assert len(beams_of(found)) == 8
        with pytest.raises(NoMemoryError):
            model.generate(prompt, beams=40, max_tokens=20, logit_bias=NO_END)
        tokens = model.generate(prompt[::-1], **other).tokens
        with ThreadPoolExecutor(2) as pool:
            again = pool.submit(model.generate, prompt, beams=8, max_tokens=20, logit_bias=NO_END)
            assert pool.submit(model.generate, prompt[::-1], **other).result().tokens == tokens
            assert again.result().beams == found.beams


def test_a_chat_goes_on_after_a_beam_search(model: Model) -> None:
    options: dict[str, Any] = {"max_tokens": 8, "logit_bias": NO_END}
    chat = model.chat(temp=0, **options)
    first = chat.send("hello", beams=3)
    assert chat.messages[-1] == {"role": "assistant", "content": first.text}
    assert first.beams == model.generate("user: hello\nassistant: ", beams=3, **options).beams
    plain = chat.send("again")
    assert plain.beams is None
    assert chat.reply(chat.messages[:3], beams=2).completion().beams is not None


@pytest.mark.parametrize("kind", ["attention", "recurrent", "windowed"])
def test_what_continues_the_best_reply_does_not_compute_it_again(kind: str, model_file: ModelFile) -> None:
    """As behind replies of other requests: also if the best one ended before the search did."""
    spec = RECURRENT if kind == "recurrent" else TINY
    window = {"metadata": (("attention.sliding_window", 40),)} if kind == "windowed" else {}
    steps = list[int]()
    for bias in (NEVER, 2.0, 4.0):
        with Model.open(model_file(**spec | window, context_length=512), threads=1) as model:
            prompt = model.tokenizer.encode(PROMPT)
            found = model.generate(prompt, beams=3, max_tokens=20, logit_bias={EOS: bias, EOT: NEVER})
            again = model.generate([*prompt, *found.tokens, A], max_tokens=1).stats
            assert again.cached_tokens == len(prompt) + len(found.tokens) - 1
            steps.append(len(found.tokens))
    assert steps[0] == 20 > min(steps), "some end before"


def test_a_search_is_cancelled_without_a_text(model: Model) -> None:
    running = model.stream(PROMPT, beams=4, logit_bias=NO_END)
    threading.Timer(0.2, running.cancel).start()
    found = running.completion()
    assert (found.text, found.finish_reason, found.beams) == ("", "cancelled", ())
    assert model.generate(PROMPT, beams=2, max_tokens=0).beams == ()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda model: model.generate("x", beams=2, temp=0.5), "option temp above 0"),
        (lambda model: model.chat(temp=0.5).send("x", beams=2), "option temp above 0"),
        (lambda model: model.generate("x", beams=2, n=2), "option n cannot go with option beams"),
        (lambda model: list(model.stream("x", beams=2)), "option beams cannot stream"),
        (lambda model: model.generate("x", beams=2, regex="a"), "option regex and option beams"),
        (lambda model: model.generate("x", beams=2, think_max=5), "option think_max and option beams"),
        (lambda model: model.chat(overflow="window").send("x", beams=2), "overflow policy window"),
        (lambda model: model.generate("x", beams=0), "from 1 to 64"),
        (lambda model: model.generate("x", beams=65), "from 1 to 64"),
    ],
)
def test_what_excludes_a_beam_search(model: Model, ask: Callable[[Model], object], words: str) -> None:
    with pytest.raises(OptionError, match=words) as caught:
        ask(model)
    assert "\n" not in str(caught.value)


def test_a_temperature_that_the_file_recommends_excludes_nothing(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model._generator, "defaults", {"temp": 0.6})
    assert model.sampling_defaults["temp"] == 0.6
    assert model.generate(PROMPT, beams=2, max_tokens=4).beams
