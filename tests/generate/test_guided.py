"""Replies that are held to a form: the same text however it is computed, and an error where it does not conform."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from edgellm import EdgeLLMError, IncompleteOutputError, Model, OptionError
from edgellm.engine.native_engine import NativeEngine
from edgellm.generate.results import Completion
from edgellm.guides.compile import GuideCompiler
from edgellm.guides.mask_ahead import MaskAhead
from edgellm.guides.spec import GuideSpec
from support.generation import NEVER, TINY
from support.guided_models import SCHEMA
from support.guided_schemas import SCHEMAS
from support.model_file import ModelFile

pytestmark = pytest.mark.usefixtures("all_drafts")


@pytest.fixture
def model(guided_model: Model) -> Model:
    return guided_model


@contextmanager
def counted(model: Model) -> Iterator[list[int]]:
    """The number of rows of each step that the model's engine computes."""
    forward, steps = model.engine.forward, list[int]()
    with pytest.MonkeyPatch.context() as patch:
        add = steps.append
        patch.setattr(model.engine, "forward", lambda segments: add(len(segments[0].tokens)) or forward(segments))
        yield steps


def test_a_reply_conforms(model: Model) -> None:
    for seed in range(8):
        reply = model.generate("the time", json_schema=SCHEMA, seed=seed, temp=1)
        assert (reply.finish_reason, reply.answer) == ("eog", reply.text)
        assert reply.parsed == json.loads(reply.text)
        jsonschema.validate(reply.parsed, SCHEMA)
        assert not set(reply.tokens) & model.tokenizer.eog_ids, "it ends without a token for it"


@pytest.fixture(scope="module")
def long_context(model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**TINY, context_length=1024), threads=1) as model:
        yield model


@pytest.mark.parametrize("replies", [2, pytest.param(200, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("about", SCHEMAS)
def test_replies_of_random_weights_are_valid(long_context: Model, about: str, replies: int) -> None:
    """At temperature 1, so that any allowed token comes at some time; with drafts of what is forced."""
    schema = SCHEMAS[about]
    validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    valid = seed = 0
    while valid < replies:
        options: dict[str, Any] = {"json_schema": json.dumps(schema), "seed": seed, "temp": 1, "max_tokens": 300}
        with suppress(IncompleteOutputError):  # keys, texts and numbers without a limit may go on for long
            validator.validate(json.loads(long_context.generate("the time", **options).text))
            valid += 1
        seed += 1
        assert seed <= replies * 10, "most replies end"


@pytest.mark.parametrize("options", [{"temp": 0}, {"temp": 1, "seed": 3, "repeat_penalty": 1.2}])
def test_the_text_is_the_same_with_drafts_and_without(model: Model, options: dict[str, Any]) -> None:
    """And however many tokens of the prompt are computed at once."""
    prompt = "the time was and the time was in the time"

    def written(drafts: bool, rows: int) -> tuple[Completion, int]:
        with pytest.MonkeyPatch.context() as patch, counted(model) as steps:
            patch.setattr(NativeEngine, "batch_invariant", drafts)
            patch.setattr(model.engine, "max_rows", rows)
            return model.generate(prompt, json_schema=SCHEMA, logprobs=2, **options), len(steps)

    plain, steps = written(False, 32)
    again, fewer = written(True, 32)
    chunked, _ = written(True, 8)
    assert (plain.tokens, plain.logprobs) == (again.tokens, again.logprobs) == (chunked.tokens, chunked.logprobs)
    assert (plain.stats.guided, steps) == (again.stats.guided, len(plain.tokens))
    assert fewer < steps - 40 * 7 // 8, "forced text comes several tokens a step"


def test_forced_tokens_are_not_computed_one_by_one(model: Model) -> None:
    text = "a choice of one text, of which all tokens are certain"
    with counted(model) as steps:
        reply = model.generate("in", choices=[text])
    assert reply.text == text
    assert reply.tokens == model.tokenizer.encode_parts([text], first=False)
    assert len(steps) - 1 <= len(reply.tokens) / 8 + 3, "besides the prompt; a page of the KV cache may end between"


def test_each_token_is_the_likeliest_that_is_allowed(model: Model) -> None:
    """By the logits of the whole text, and a guide of its own. The figures are those of float64."""
    prompt = "the time"
    reply = model.generate(prompt, json_schema=SCHEMA, temp=0)
    ids = model.tokenizer.encode(prompt, add_special=True)
    logits = model.logits(ids + reply.tokens)[len(ids) - 1 :].astype(np.float64)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    spec, excluded = GuideSpec("json_schema", json.dumps(SCHEMA)), list[float]()
    guide = GuideCompiler(model.tokenizer, model.engine.vocab).compile(spec)()
    forced = list[int]()
    for token, row, share in zip(reply.tokens, logits, probabilities, strict=False):
        forced = forced or guide.forced()
        mask = np.zeros(len(row), np.bool_)
        mask[forced[:1]] = True
        if not forced:
            found = guide.allowed()
            assert found is not None
            mask = found
        assert token == np.where(mask, row, -np.inf).argmax()
        excluded.append(1 - share[mask].sum())
        guide.accept(token)
        forced = forced[1:]
    stats = reply.stats.guided
    assert stats
    assert (stats.tokens, stats.worst_at) == (len(reply.tokens), int(np.argmax(excluded)))
    assert stats.mean == pytest.approx(np.mean(excluded), abs=1e-5)
    assert stats.worst == pytest.approx(np.max(excluded), abs=1e-5)


def test_the_figures_of_a_token_are_those_up_to_it(model: Model) -> None:
    tokens = list(model.stream("the", json_schema=SCHEMA, seed=1))
    assert [token.stats.guided.tokens for token in tokens if token.stats.guided] == list(range(1, len(tokens) + 1))
    assert model.generate("the", max_tokens=2).stats.guided is None


@pytest.mark.parametrize("limit", [0, 1, 5, 40])
def test_a_reply_that_is_cut_off_is_an_error(model: Model, limit: int) -> None:
    """All its tokens come before; the error comes again when one goes on."""
    running = model.stream("the", json_schema=SCHEMA, max_tokens=limit, seed=1)
    tokens = list[Any]()
    with pytest.raises(IncompleteOutputError, match=f"cut off after {limit} tokens?, before it conforms") as caught:
        tokens.extend(token for token in running)
    assert "\n" not in str(caught.value)
    assert (len(running.tokens), running.finish_reason) == (limit, "length")
    with pytest.raises(IncompleteOutputError):
        next(running)
    partial = model.generate("the", json_schema=SCHEMA, max_tokens=limit, seed=1, partial=True)
    assert (partial.tokens, partial.finish_reason, partial.parsed) == (running.tokens, "length", None)
    kept = caught.value.completion
    assert (kept.text, kept.answer, kept.tokens) == (partial.text, partial.answer, partial.tokens)
    assert str(caught.value).endswith("or take it as it is (partial=True)")


def test_a_reply_that_fills_the_context_is_an_error(guided_path: Path) -> None:
    with Model.open(guided_path, threads=1, ctx=20) as model, pytest.raises(IncompleteOutputError):
        model.generate("the", json_schema=SCHEMA)


def test_what_conforms_may_be_cut_off(model: Model) -> None:
    bias = dict.fromkeys(model.tokenizer.eog_ids, NEVER)
    reply = model.generate("the", regex="[a-z]*", max_tokens=3, logit_bias=bias)
    assert (reply.finish_reason, len(reply.tokens)) == ("length", 3)


def test_a_cancelled_reply_is_no_error(model: Model) -> None:
    running = model.stream("the", json_schema=SCHEMA)
    next(running)
    running.cancel()
    reply = running.completion()
    assert (reply.finish_reason, reply.parsed, len(reply.tokens)) == ("cancelled", None, 1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("guide")]


def test_a_wrong_form_is_an_error_before_anything_is_computed(model: Model) -> None:
    with counted(model) as steps:
        for wrong in ({"json_schema": {"not": {}}}, {"regex": "("}, {"grammar": "start: x"}, {"json_schema": int}):
            with pytest.raises(OptionError):
                model.stream("the", **wrong)
            with pytest.raises(OptionError):
                model.chat(**wrong).stream("the")
    assert not steps


def test_replies_at_the_same_time_do_not_mix(model: Model) -> None:
    alone = [model.generate("the", json_schema=SCHEMA, seed=seed).text for seed in (1, 2)]
    running = [model.stream("the", json_schema=SCHEMA, seed=seed) for seed in (1, 2)]
    left = list(running)
    while left:
        left = [each for each in left if next(each, None)]
    assert [each.text for each in running] == alone


def test_biases_and_masks_together_may_leave_nothing(model: Model) -> None:
    forbidden = {i: NEVER for i in range(model.engine.vocab) if i < 300}
    with pytest.raises(EdgeLLMError, match="no token may come next"):
        model.generate("the", regex="[xyz]{2}", logit_bias=forbidden)


def test_a_window_of_the_context_moves_on_in_a_guided_reply(guided_path: Path) -> None:
    with Model.open(guided_path, threads=1, ctx=64) as model:
        schema = {"type": "string", "minLength": 150, "maxLength": 160}
        reply = model.chat(overflow="window").send("the", json_schema=schema, think_max=0)
    assert reply.dropped_tokens
    assert 150 <= len(reply.parsed) <= 160


@pytest.mark.timeout(300)
def test_many_guided_replies_outgrow_the_context(guided_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text with drafts and without, with one thread and with two. Each mask that is begun is taken, but the
    last one of a reply; no thread is left."""
    masks, taken = list[int](), MaskAhead.take
    begun = MaskAhead.start
    monkeypatch.setattr(MaskAhead, "start", lambda ahead: masks.append(1) or begun(ahead))
    monkeypatch.setattr(MaskAhead, "take", lambda ahead: masks.append(-1) or taken(ahead))
    properties = {"a": {"const": "forced " * 14}, "b": {"type": "string", "minLength": 50, "maxLength": 60}}
    properties |= {"c": {"enum": ["certain " * 9, "x"]}}
    schema = {"type": "object", "properties": properties, "required": ["a", "b", "c"], "additionalProperties": False}

    def written(drafts: bool, threads: int) -> list[list[int]]:
        texts = list[list[int]]()
        monkeypatch.setattr(NativeEngine, "batch_invariant", drafts)
        with Model.open(guided_path, threads=threads, ctx=64) as model:
            for seed in range(15):
                masks.clear()
                reply = model.chat(overflow="window").send("the", json_schema=schema, think_max=seed % 3, seed=seed)
                jsonschema.validate(reply.parsed, schema)
                assert reply.dropped_tokens
                assert set(accumulate(masks)) == {0, 1} and sum(masks) <= 1
                texts.append(reply.tokens)
        return texts

    assert written(True, 1) == written(False, 1) == written(True, 2)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("guide")]


def test_a_form_of_one_reply_replaces_that_of_its_chat(model: Model) -> None:
    chat = model.chat(json_schema=SCHEMA, think_max=0)
    assert chat.send("the", choices=["yes", "no"]).answer in ("yes", "no")
    assert chat.send("the", json_schema={"enum": [7]}).parsed == 7
    assert chat.send("the", partial=True, max_tokens=4).answer.startswith("{")  # type: ignore[union-attr]
    with pytest.raises(OptionError, match="option choices and option grammar exclude each other"):
        chat.send("the", choices=["yes"], grammar="x")
