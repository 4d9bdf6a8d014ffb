"""Chats with a model that thinks as Gemma 4 does: replies of given tokens become text, and the turns after them."""

from collections.abc import Iterator
from typing import Any

import pytest

from edgellm import Model
from support.model_file import ModelFile

# What the template of Gemma 4 does with roles and thinking: that of earlier turns goes.
TEMPLATE = """\
{%- macro answer(text) %}{{ text.split('<channel|>')[-1] | trim }}{% endmacro %}
{%- if enable_thinking %}{{ '<|turn>system\\n<|think|><turn|>\\n' }}{% endif %}
{%- for m in messages %}
{{- '<|turn>' ~ m.role ~ '\\n' ~ (answer(m.content) if m.role == 'assistant' else m.content) ~ '<turn|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|turn>model\\n' }}
{%- if not enable_thinking %}{{ '<|channel>thought\\n<channel|>' }}{% endif %}{% endif %}"""
SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
TEXT = "<think>\né is a letter\n</think>\n\nIt is."


@pytest.fixture
def model(model_file: ModelFile) -> Iterator[Model]:
    path = model_file(**SIZES, tokenizer="thought channel", chat_template=TEMPLATE, context_length=4096)
    with Model.open(path, threads=1) as model:
        yield model


def test_thinking_is_read_and_left_out_of_the_next_turn(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[int] = []
    monkeypatch.setattr("edgellm.generate.token_chooser.TokenChooser._draw", lambda *_: tokens.pop(0))
    reply = "<|channel>thought\né is a letter\n<channel|>It is.<turn|>"
    tokens[:] = model.tokenizer.encode(reply, parse_special=True)
    chat = model.chat(template_args={"enable_thinking": True})
    assert "".join(token.text for token in chat.stream("Is it?")) == TEXT
    assert chat.messages[-1] == {"role": "assistant", "content": TEXT}
    prompt = model.tokenizer.decode(chat._prompts.ids(chat.messages, None), special=True)
    assert "<|turn>assistant\nIt is.<turn|>\n" in prompt and "letter" not in prompt


def test_an_empty_channel_leaves_no_text(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = model.tokenizer.encode("<|channel>thought\n<channel|>It is.<turn|>", parse_special=True)
    monkeypatch.setattr("edgellm.generate.token_chooser.TokenChooser._draw", lambda *_: tokens.pop(0))
    assert model.chat().send("Is it?").text == "It is."
