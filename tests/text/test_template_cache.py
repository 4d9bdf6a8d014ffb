"""Templates that drop the thoughts of earlier turns: the next turn still reuses the unchanged prefix."""

from itertools import takewhile
from typing import Any

import pytest

from edgellm import Model
from edgellm.text.prompts import ChatPrompts
from edgellm.text.template import ChatTemplate
from support.model_file import ModelFile

# What Qwen 3 does: thoughts go once the user has spoken again; without thinking, the reply begins with an empty one.
TEMPLATE = """\
{%- set last = namespace(user=0) %}
{%- for message in messages if message.role == 'user' %}{% set last.user = messages.index(message) %}{% endfor %}
{%- for message in messages %}
{%- set thought, _, said = message.content.rpartition('</think>') %}
{%- set kept = said | trim if loop.index0 < last.user else message.content %}
{{- '<|im_start|>' ~ message.role ~ '\\n' ~ kept ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}"""
TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
GREEDY: dict[str, Any] = {"max_tokens": 8, "temp": 0, "logit_bias": {2: -float("inf")}}


def common(left: list[int], right: list[int]) -> int:
    """The length of the common prefix."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False))))


@pytest.mark.parametrize("thinking", [True, False])
def test_the_prefix_before_a_dropped_thought_is_reused(model_file: ModelFile, thinking: bool) -> None:
    args = {"enable_thinking": thinking}
    with Model.open(model_file(**TINY, chat_template=TEMPLATE), threads=1) as model:
        template = ChatTemplate(TEMPLATE, "<s>", "</s>")

        def prompt() -> list[int]:
            return ChatPrompts(model.tokenizer, template).ids(chat.messages, add_generation_prompt=True, **args)

        chat = model.chat(system="the time", template_args=args, **GREEDY)
        held: list[int] = []
        for text in ("he was", "and in", "on"):
            reply = chat.send(text)
            said = chat.messages.pop()
            asked = prompt()
            assert reply.stats.prompt_tokens == len(asked)
            assert reply.stats.cached_tokens == common(held, asked)
            held = asked + reply.tokens
            # As if the model had thought all of its reply: the state holds it, the next prompt does not.
            thought = f"<think>{said['content']}</think>Yes." if thinking else said["content"]
            chat.messages.append({"role": "assistant", "content": thought})
        opening = template.render(chat.messages[:4], add_generation_prompt=False).text
        assert reply.stats.cached_tokens >= len(model.tokenizer.encode(opening)) > 40
        assert ("he was" in opening) and ("</think>" not in opening)
