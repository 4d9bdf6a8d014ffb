"""Chat templates: rendered as Hugging Face does, with errors of one line."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.text.prompts import ChatPrompts
from edgellm.text.template import ChatTemplate
from edgellm.text.tokenizer import Tokenizer
from support.chatml import CHAT, CHATML
from support.tiny_vocab import write_spm

USER = [{"role": "user", "content": "Hi"}]


def render(source: str, **args: Any) -> str:
    return ChatTemplate(source, "<s>", "</s>").render(USER, **args).text


def refusal(source: str) -> str:
    with pytest.raises(EdgeLLMError) as error:
        render(source)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_chatml_by_hand() -> None:
    start = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <b> é<|im_end|>\n"
    template = ChatTemplate(CHATML, "", "")
    assert template.render(CHAT[:2]).text == start + "<|im_start|>assistant\n"
    assert template.render(CHAT[:2], add_generation_prompt=False).text == start


def test_templates_get_the_names_of_hugging_face() -> None:
    assert render("{{ bos_token }}{{ eos_token }}") == "<s></s>"
    assert render("{{ tools is none }}{{ documents is none }}") == "TrueTrue"
    assert render("{{ x | tojson }}", x={"b": "<é>'", "a": [1, None]}) == '{"b": "<é>\'", "a": [1, null]}'
    assert render("{{ {'a': 1} | tojson(indent=2) }}") == '{\n  "a": 1\n}'
    assert render("  {% if true %}\n  x\n  {% endif %}\n") == "  x\n"
    assert render("{% generation %}a{{ 1 }}{% endgeneration %}b") == "a1b"
    assert render("{% for i in [5, 6, 7] %}{% if i == 6 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "5"
    assert render("{{ strftime_now('%Y') }}") in {str(datetime.now().year + n) for n in (-1, 0)}
    assert render("{% set n = namespace(i=1) %}{% set n.i = n.i + 1 %}{{ n.i ~ 'a' ~ none }}") == "2aNone"
    assert render("{{ messages | map(attribute='role') | join(',') }}") == "user"
    assert render("{{ messages[::-1] | length }}") == "1"
    assert render(r"{{ '\ud83d\ude00' }}{{ '\ud83d' }}") == "😀\ufffd"
    assert render("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f('é'.upper()) }}") == "<É>"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ raise_exception('no system\nrole') }}", r"failed: no system\nrole; choose another"),
        ("a\n{% if %}", "not valid: line 2"),
        ("{{ x ", "expected 'end of print statement'; choose another"),
        ("{{ raise_exception('roles must be user/assistant/...') }}", "user/assistant/...; choose another"),
        ("{% for x in [1] %}" * 50 + "{% endfor %}" * 50, "not valid"),
        ("{{" + "(" * 5000 + "1" + ")" * 5000 + "}}", "not valid"),
        ("{{ x.y.z }}", "'x' is undefined"),
        ("{% include 'x' %}", "no loader"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("x" * 300_000, "too long"),
    ],
)
def test_bad_templates_give_one_line(source: str, said: str) -> None:
    assert said in refusal(source)


def test_arguments_must_be_json_values() -> None:
    itself: list[Any] = []
    itself.append(itself)
    for value, said in (
        ({1: "a"}, "has a value of type int as key"),
        ({"a", "b"}, "has a value of type set; give text"),
        (itself, "has values too deep inside each other"),
        (10**5000, "has a value of type int"),
    ):
        with pytest.raises(OptionError, match=f"^template_args {said}"):
            render("{{ x }}", x=value)
    assert render("{{ x[0] }}{{ x[1].a }}", x=("\ud83d\ude00\ud83d", {"a": float("inf")})) == "😀�inf"


@pytest.mark.parametrize("source", ["{{ messages[0].content }}", "{{ bos_token }}a", "<s>{{ bos_token }}a"])
def test_exactly_one_bos(tmp_path: Path, source: str) -> None:
    tokenizer = Tokenizer.open(write_spm(tmp_path / "v.gguf", {"▁": -2.0, "a": -1.0, "▁a": -0.5}, {}))
    template = ChatTemplate(source, "<s>", "</s>")
    assert ChatPrompts(tokenizer, template).ids([{"role": "user", "content": "a"}]) == [1, 261]
