"""Replies of gpt-oss with tools: thoughts are ended at their limit, and calls may follow."""

from collections.abc import Iterator
from typing import Any

import pytest

from edgellm import Model, OptionError
from edgellm.generate.results import Completion
from support.model_file import ModelFile
from support.tool_templates import TEMPLATES

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
ASKED = [{"role": "user", "content": "Look"}]


def look() -> str:
    """Look at the wall."""
    return "grün"


@pytest.fixture(scope="module")
def model(model_file: ModelFile) -> Iterator[Model]:
    path = model_file(**SIZES, tokenizer="calls harmony", chat_template=TEMPLATES["harmony"], context_length=4096)
    with Model.open(path, threads=1) as model:
        yield model


def ask(model: Model, begun: str = "", **options: Any) -> Completion:
    """A reply of a model that likes to think and, behind that, to call."""
    first = {letter: model.tokenizer.encode(letter)[0] for letter in "acf"}
    end = model.tokenizer.special_ids(["<|end|>", "<|call|>"]).values()
    bias = {first["a"]: 5.0, first["c"]: 3.0, first["f"]: 1.0} | dict.fromkeys(end, 2.0)
    options = {"temp": 1, "max_tokens": 300, "logit_bias": bias, **options}
    return model.chat(tools=[look]).reply(ASKED, begun=begun, **options).completion()


def thoughts(model: Model, tokens: list[int], thinks: bool = False) -> list[int]:
    """The lengths of the thoughts in the tokens of a reply, with the token that ends each."""
    text, found = "", list[int]()
    for token in tokens:
        piece = model.tokenizer.decode([token], special=True)
        if thinks:
            found[-1:] = [found[-1] + 1] if found else [1]
            thinks = piece != "<|end|>"
        elif text.endswith("<|channel|>analysis") and piece == "<|message|>":
            thinks = True
            found.append(0)
        text += piece
    return found


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("limit", [0, 1, 5, 40])
def test_all_thoughts_share_a_limit(choice: str, limit: int, model: Model) -> None:
    """Before it, the limit changes nothing. Calls may follow."""
    calls = 0
    for seed in range(8):
        reply = ask(model, seed=seed, think_max=limit, tool_choice=choice)
        assert sum(thoughts(model, reply.tokens)) <= limit + 1, "the token that ends a thought at its limit is one more"
        assert not reply.broken_calls or reply.finish_reason == "length"
        calls += len(reply.tool_calls)
        free = ask(model, seed=seed, tool_choice=choice)
        at = next(
            (i for i, pair in enumerate(zip(reply.tokens, free.tokens, strict=False)) if pair[0] != pair[1]), None
        )
        assert at is None or sum(thoughts(model, reply.tokens[: at + 1])) >= limit, (
            "before it the limit changes nothing"
        )
    assert calls


def test_a_thought_that_the_caller_began_is_ended(model: Model) -> None:
    for limit in (0, 3):
        reply = ask(model, "<think>\nHm", seed=1, think_max=limit, tool_choice="required")
        assert thoughts(model, reply.tokens, thinks=True)[0] <= limit + 1
        assert reply.tool_calls and reply.text.count("</think>") == 1


def test_an_answer_that_has_begun_goes_on(model: Model) -> None:
    for begun in ("It is", "<think>\nHm\n</think>\n\nIt is"):
        for options in ({}, {"think_max": 0}, {"think_max": 5}):
            reply = ask(model, begun, seed=2, **options)
            assert not reply.text.startswith("<think>") and not reply.broken_calls
            with pytest.raises(OptionError, match="begun is the beginning of an answer"):
                ask(model, begun, tool_choice="required", **options)


def test_drafts_change_no_text(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    written = [ask(model, seed=seed, think_max=4).tokens for seed in range(4)]
    monkeypatch.setattr(model.drafts(), "most", 0)
    assert [ask(model, seed=seed, think_max=4).tokens for seed in range(4)] == written
