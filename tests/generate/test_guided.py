"""Replies that are held to a form: the same text however it is computed, and an error where it does not conform."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import jsonschema
import numpy as np
import pytest

from edgellm import EdgeLLMError, IncompleteOutputError, Model, OptionError
from edgellm.engine.native_engine import NativeEngine
from edgellm.generate.results import Completion
from edgellm.guides.compile import GuideCompiler
from edgellm.guides.mask_ahead import MaskAhead
from edgellm.guides.spec import GuideSpec
from support.drafts import AllDrafts
from support.generation import RECURRENT, TINY
from support.guided_schemas import SCHEMAS
from support.model_file import ModelFile

NEVER = -float("inf")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "kind": {"enum": ["small", "smaller", "large"]},
        "values": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3},
        "description": {"const": "always the same, and longer than any draft"},
    },
    "required": ["name", "kind", "values", "description"],
    "additionalProperties": False,
}
THINKS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>{# <think></think> #}"


@pytest.fixture(autouse=True)
def all_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.generate.speculation.DraftPolicy", AllDrafts)


@pytest.fixture(scope="module", params=[TINY, RECURRENT], ids=["attention", "recurrent"])
def path(model_file: ModelFile, request: pytest.FixtureRequest) -> Path:
    return model_file(**request.param, chat_template=THINKS)


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, threads=2) as model:
        yield model


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
    with pytest.raises(IncompleteOutputError, match=f"was cut off after {limit} tokens, before it conforms") as caught:
        tokens.extend(token for token in running)
    assert "\n" not in str(caught.value)
    assert (len(running.tokens), running.finish_reason) == (limit, "length")
    with pytest.raises(IncompleteOutputError):
        next(running)
    partial = model.generate("the", json_schema=SCHEMA, max_tokens=limit, seed=1, partial=True)
    assert (partial.tokens, partial.finish_reason, partial.parsed) == (running.tokens, "length", None)


def test_a_reply_that_fills_the_context_is_an_error(path: Path) -> None:
    with Model.open(path, threads=1, ctx=20) as model, pytest.raises(IncompleteOutputError):
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


def test_a_window_of_the_context_moves_on_in_a_guided_reply(path: Path) -> None:
    with Model.open(path, threads=1, ctx=64) as model:
        schema = {"type": "string", "minLength": 150, "maxLength": 160}
        reply = model.chat(overflow="window").send("the", json_schema=schema, think_max=0)
    assert reply.dropped_tokens
    assert 150 <= len(reply.parsed) <= 160


@pytest.mark.timeout(300)
def test_many_guided_replies_outgrow_the_context(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        with Model.open(path, threads=threads, ctx=64) as model:
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


class Size(Enum):
    SMALL, LARGE = "small", "large"


@dataclass
class Item:
    name: Literal["a", "b"]
    size: Size | None = None


@dataclass
class Order:
    items: list[Item]
    pair: tuple[int, bool]
    total: float
    note: str | Item
    counts: dict[str, int] = field(default_factory=dict)
    parent: "Order | None" = None


def test_a_dataclass_comes_back_as_one(model: Model) -> None:
    orders = [model.generate("the", json_schema=Order, seed=seed, max_tokens=400, partial=True) for seed in range(6)]
    parsed = [order.parsed for order in orders if order.parsed]
    assert parsed
    for order in parsed:
        assert isinstance(order, Order)
        assert all(isinstance(item, Item) and isinstance(item.size, Size | None) for item in order.items)
        assert (type(order.pair), type(order.pair[1]), type(order.total)) == (tuple, bool, float)
        assert isinstance(order.note, str | Item)


class Known:
    """A class as models of pydantic are."""

    def __init__(self, value: bool | None = None) -> None:
        self.value = value

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object", "properties": {"value": {"type": "boolean"}}, "additionalProperties": False}

    @classmethod
    def model_validate_json(cls, text: str) -> "Known":
        return cls(**json.loads(text))


def test_a_model_of_pydantic_comes_back_as_one(model: Model) -> None:
    reply = model.generate("the", json_schema=Known)
    assert isinstance(reply.parsed, Known)
    assert isinstance(reply.parsed.value, bool | None)
    pydantic = pytest.importorskip("pydantic")
    made = pydantic.create_model(
        "Made", __config__={"extra": "forbid"}, kind=(Literal["x", "y"], ...), n=(int | None, ...)
    )
    assert isinstance(model.generate("the", json_schema=made).parsed, made)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"json_schema": {}, "regex": "a"}, "option json_schema and option regex exclude each other: give one"),
        ({"choices": ["a"], "grammar": "b"}, "option choices and option grammar exclude each other"),
        ({"regex": "a", "stop": "b"}, "option stop would cut off a reply that option regex holds to a form: give one"),
        ({"choices": []}, "option choices cannot be []: give a list of texts, at least one"),
        ({"choices": "ab"}, "option choices cannot be 'ab'"),
        ({"choices": ["a", ""]}, "option choices cannot be"),
        ({"json_schema": "{"}, "option json_schema cannot be '{': give a JSON schema"),
        ({"json_schema": "3"}, "option json_schema cannot be '3'"),
        ({"json_schema": 3}, "option json_schema cannot be 3"),
        ({"json_schema": int}, "option json_schema: <class 'int'> has no JSON schema; give a dataclass"),
        ({"json_schema": {"enum": [object()]}}, "option json_schema has a value of type object"),
        ({"regex": ""}, "option regex cannot be ''"),
        ({"think_max": -1}, "option think_max cannot be -1"),
        ({"partial": 1}, "option partial cannot be 1"),
    ],
)
def test_wrong_options_are_errors(model: Model, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError) as caught:
        model.stream("the", **given)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fields_that_json_has_no_values_of_are_an_error(model: Model) -> None:
    @dataclass
    class Wrong:
        value: set[bytes]

    with pytest.raises(OptionError, match=r"option json_schema: set\[bytes\] is a type that JSON has no values of"):
        model.stream("the", json_schema=Wrong)


class TestThinking:
    """Chats whose template has tags, which the vocabulary spells with several tokens."""

    def test_the_answer_follows_the_thought(self, model: Model) -> None:
        opening = model.tokenizer.encode_parts(["<think>"], first=False)[0]
        bias = {opening: 1000.0}
        running = model.chat().stream("the", json_schema=SCHEMA, think_max=6, seed=4, logit_bias=bias)
        tokens = list(running)
        reply = running.completion()
        assert reply.text.startswith("<think>")
        assert reply.answer
        assert reply.text.endswith("\n</think>\n\n" + reply.answer)
        jsonschema.validate(json.loads(reply.answer), SCHEMA)
        assert "".join(token.text for token in tokens if not token.thinking) == reply.answer
        assert "".join(token.text for token in tokens) == reply.text
        assert reply.stats.guided
        assert reply.stats.guided.tokens == sum(not token.thinking for token in tokens)

    def test_a_limit_alone_changes_nothing_before_it(self, model: Model) -> None:
        chat, bias = model.chat(), dict.fromkeys(model.tokenizer.eog_ids, NEVER)
        begun = "<think>\nso"
        options: dict[str, Any] = {"begun": begun, "seed": 1, "max_tokens": 30, "logit_bias": bias}
        free = chat.reply([{"role": "user", "content": "the"}], **options).completion()
        limited = chat.reply([{"role": "user", "content": "the"}], **options, think_max=10).completion()
        assert free.tokens[:10] == limited.tokens[:10]
        assert "\n</think>\n\n" in limited.text
        assert (limited.answer, limited.stats.guided, len(limited.tokens)) == (None, None, 30)

    def test_an_answer_that_has_begun_is_held_to_nothing(self, model: Model) -> None:
        with pytest.raises(OptionError, match="begun is the beginning of an answer"):
            model.chat().reply([{"role": "user", "content": "the"}], begun="{", json_schema=SCHEMA)

    def test_without_a_template_nothing_thinks(self, model: Model) -> None:
        reply = model.generate("<think>", choices=["yes", "no"])
        assert reply.text in ("yes", "no")


@pytest.mark.parametrize("tokenizer", ["harmony", "thought channel"])
def test_channels_are_followed(model_file: ModelFile, tokenizer: str) -> None:
    """gpt-oss and Gemma 4: the thinking is in <think>, and the answer behind it conforms."""
    marks = "<|start|>assistant<|channel|><|message|>" if tokenizer == "harmony" else "<|channel><channel|>"
    start = "<|start|>assistant" if tokenizer == "harmony" else "<|turn>model\n"
    template = f"{{% for m in messages %}}{{{{ m.content }}}}{{% endfor %}}{start}{{# {marks} #}}"
    with Model.open(model_file(**TINY, tokenizer=tokenizer, chat_template=template), threads=1) as model:
        controls = model.tokenizer.control_texts
        first = model.tokenizer.encode("analysis")[0] if tokenizer == "harmony" else controls["<|channel>"]
        bias = {first: 1000.0, model.tokenizer.encode("\n")[0]: 3.0}  # the name of Gemma's channel is a line
        reply = model.chat().send("the", json_schema=SCHEMA, think_max=40, seed=5, logit_bias=bias)
    assert reply.text.startswith("<think>\n")
    assert reply.answer
    assert reply.text.endswith(reply.answer)
    assert reply.text.removesuffix(reply.answer).endswith("</think>\n\n")
    jsonschema.validate(json.loads(reply.answer), SCHEMA)
