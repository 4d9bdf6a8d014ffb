"""Chats in the harmony format: a reply of given tokens becomes text, and the turns after it reuse what they can."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgellm import Chat, Model
from edgellm.engine.protocol import common_prefix
from support.model_file import ModelFile

# What the template of gpt-oss does with roles, thinking, and the effort; thinking goes once there is an answer.
TEMPLATE = """\
{{- '<|start|>system<|message|>Reasoning: ' ~ (reasoning_effort or 'medium') ~ '<|end|>' }}
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|start|>assistant<|channel|>final<|message|>' ~ m.content ~ '<|end|>' }}
{%- else %}{{- '<|start|>' ~ m.role ~ '<|message|>' ~ m.content ~ '<|end|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}"""
SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"
REPLY = f"{ANALYSIS}é is a letter<|end|>{FINAL}It is.<|return|>"
TEXT = "<think>\né is a letter\n</think>\n\nIt is."

Write = Callable[[str | list[int]], None]


@pytest.fixture
def path(model_file: ModelFile) -> Path:
    window = (("attention.sliding_window", 32),)
    return model_file(**SIZES, tokenizer="harmony", chat_template=TEMPLATE, metadata=window, context_length=4096)


@pytest.fixture
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, threads=1) as model:
        yield model


@pytest.fixture
def write(model: Model, monkeypatch: pytest.MonkeyPatch) -> Write:
    """`write(reply)`: the model writes these tokens next, and computes all of them."""
    tokens: list[int] = []
    monkeypatch.setattr("edgellm.generate.token_chooser.TokenChooser._draw", lambda *_: tokens.pop(0))

    def set_reply(reply: str | list[int]) -> None:
        tokens[:] = model.tokenizer.encode(reply, parse_special=True) if isinstance(reply, str) else reply

    return set_reply


def prompt(chat: Chat) -> list[int]:
    return chat._prompts.ids(chat.messages, None)


def test_a_reply_is_read_as_thinking_and_answer(model: Model, write: Write) -> None:
    chat = model.chat()
    write(REPLY)
    tokens = list(chat.stream("Is it?"))
    assert "".join(token.text for token in tokens) == TEXT
    assert [token.finish_reason for token in tokens[-2:]] == [None, "eog"]
    assert chat.messages[-1] == {"role": "assistant", "content": TEXT}
    assert not any("\ufffd" in token.text for token in tokens)


def test_a_turn_reads_the_answer_alone_and_reuses_what_is_before_it(model: Model, write: Write) -> None:
    chat, held = model.chat(), list[int]()
    for text in ("Is it?", "And now?", "Why?"):
        write(REPLY)
        reply = chat.send(text)
        said = chat.messages.pop()
        asked = prompt(chat)
        assert reply.stats.prompt_tokens == len(asked)
        # The layers have a window: the sequence goes back as far as it can, here to the end of the prompt before.
        assert reply.stats.cached_tokens >= common_prefix(held, asked) - 2
        assert reply.text == TEXT
        held = asked + reply.tokens
        chat.messages.append(said)
    shown = model.tokenizer.decode(prompt(chat), special=True)
    assert shown.count("<|channel|>final<|message|>It is.<|end|>") == 3 and "letter" not in shown


def test_without_marks_where_special_tokens_are_asked_for(model: Model, write: Write) -> None:
    write(REPLY)
    assert model.chat(special=True).send("Is it?").text == REPLY


def test_an_answer_that_ends_as_a_message_ends_the_reply(model: Model, write: Write) -> None:
    write(f"{ANALYSIS}A<|end|>{FINAL}B<|end|><|start|>user<|message|>C")
    reply = model.chat().send("Is it?")
    assert (reply.text, reply.finish_reason) == ("<think>\nA\n</think>\n\nB", "eog")


def test_the_rest_of_a_character_belongs_to_the_message_before(model: Model, write: Write) -> None:
    encode = partial(model.tokenizer.encode, parse_special=True)
    half = encode("é")[:1]
    write([*encode(f"{ANALYSIS}a"), *half, *encode(f"<|end|>{FINAL}B<|return|>")])
    assert model.chat().send("Is it?").text == "<think>\na\ufffd\n</think>\n\nB"


def test_stop_strings_are_those_of_the_text(model: Model, write: Write) -> None:
    write(REPLY)
    reply = model.chat(stop="</think>").send("Is it?")
    assert (reply.text, reply.finish_reason) == ("<think>\né is a letter\n", "stop")


@pytest.mark.parametrize(
    ("begun", "opened", "rest", "whole"),
    [
        ("It", "<|channel|>final<|message|>It", " is.", "It is."),
        ("<think>\né is", f"{ANALYSIS}é is", f" a letter<|end|>{FINAL}It is.", TEXT),
        (TEXT.removesuffix("is."), REPLY.removesuffix("is.<|return|>"), "is.", TEXT),
    ],
)
def test_a_reply_goes_on_where_it_was_cut_off(
    model: Model, write: Write, begun: str, opened: str, rest: str, whole: str
) -> None:
    chat, asked = model.chat(), [{"role": "user", "content": "Is it?"}]
    write(f"{rest}<|return|>")
    assert begun + chat.reply(asked, begun=begun).completion().text == whole
    before = model.tokenizer.decode(chat._prompts.fit(asked, 1, None, None, begun).ids, special=True)
    assert before.endswith(f"<|message|>Is it?<|end|><|start|>assistant{opened}")


def test_the_beginning_of_a_reply_has_no_control_tokens_of_its_own(model: Model) -> None:
    ids = model.chat()._prompts.fit([{"role": "user", "content": "a"}], 1, None, None, "<think>\n<|end|>").ids
    plain = [i for i in ids if i == model.tokenizer.control_texts["<|end|>"]]
    assert len(plain) == 2  # of the system and the user message


def test_the_effort_is_an_argument_of_the_template(model: Model, write: Write) -> None:
    write(REPLY)
    chat = model.chat(template_args={"reasoning_effort": "high"})
    reply = chat.send("Is it?")
    assert reply.text == TEXT and "reasoning_effort" in chat._prompts.template.names
    shown = model.tokenizer.decode(prompt(chat), special=True)
    assert shown.startswith("<|start|>system<|message|>Reasoning: high<|end|>")
