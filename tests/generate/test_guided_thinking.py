"""Guided replies that think before they answer."""

import json
from typing import Any

import jsonschema
import pytest

from edgellm import Model, OptionError
from support.generation import NEVER, TINY
from support.guided_models import SCHEMA
from support.model_file import ModelFile

pytestmark = pytest.mark.usefixtures("all_drafts")


@pytest.fixture
def model(guided_model: Model) -> Model:
    return guided_model


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
