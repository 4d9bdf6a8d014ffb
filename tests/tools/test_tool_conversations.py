"""Conversations with tools: rendered as transformers does it, with calls as the model wrote them."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.text.call_rendering import find_style
from edgellm.text.prompts import ChatPrompts
from edgellm.text.template import ChatTemplate
from edgellm.text.tokenizer import Tokenizer
from edgellm.tools.calls import ToolCall
from edgellm.tools.formats import call_format
from support import SHARED
from support.call_styles import BY_NAME, TOOLS, calls_in, read
from support.tiny_vocab import write_bpe
from support.tool_templates import TEMPLATES

PUBLISHED = {
    "GLM-4.6": "glm",
    "LFM2-8B-A1B": "lfm2",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral v11",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes",
    "Qwen-Qwen2.5-7B-Instruct": "hermes",
    "Qwen-Qwen3-0.6B": "hermes",
    "Qwen3.5-4B": "qwen3_coder",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "deepseek",
    "google-gemma-2-2b-it": None,
    "HuggingFaceTB-SmolLM3-3B": None,
}
SOURCES = {name: (SHARED / "templates" / f"{name}.jinja") for name in PUBLISHED}
DEFINITIONS = [dict(tool.definition) for tool in TOOLS.values()]
FIRST = ToolCall("call00000", "weather", {"city": 'Zürich <b> "x"', "days": 2, "exact": True, "tags": ["a"]})
SECOND = ToolCall("call00001", "clock", {})
USER = {"role": "user", "content": "How is it?"}
RESULT = {"role": "tool", "tool_call_id": "call00000", "name": "weather", "content": "12 °C"}


def assistant(*calls: ToolCall, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [call.as_message() for call in calls]} | fields


def template_of(name: str) -> ChatTemplate:
    return ChatTemplate(TEMPLATES[name], "<s>", "</s>")


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_template_tells_the_format(name: str) -> None:
    assert call_format(TEMPLATES[name]) is BY_NAME[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_templates_tell_their_format(name: str) -> None:
    if not SOURCES[name].exists():
        pytest.skip("no shared data beside the project")
    form = call_format(SOURCES[name].read_text(encoding="utf-8"))
    assert (form.name if form else None) == PUBLISHED[name]


def test_templates_without_calls_have_no_format() -> None:
    for source in ("{{ messages }}", "<|im_start|>{{ tools | tojson }}", "<|start_header_id|>user", ""):
        assert call_format(source) is None


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is the oracle")
@pytest.mark.parametrize("name", TEMPLATES)
def test_definitions_calls_and_results_render_as_in_transformers(name: str) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    as_text = name.startswith(("deepseek", "functionary"))
    given = [json.dumps(call.arguments) if as_text else call.arguments for call in (FIRST, SECOND)]
    calling = assistant(FIRST, thinking="Hm.") if name == "llama3" else assistant(FIRST, SECOND, thinking="Hm.")
    for call, arguments in zip(calling["tool_calls"], given, strict=False):
        call["function"]["arguments"] = arguments
    for messages in (
        [USER],
        [USER, calling],
        [USER, calling, RESULT],
        [USER, calling, RESULT, RESULT | {"content": "x"}],
    ):
        for tools in (None, DEFINITIONS):
            (text,), _ = render_jinja_template(
                [messages], tools=tools, chat_template=TEMPLATES[name], bos_token="<s>", eos_token="</s>"
            )
            rendered = template_of(name).render(messages, tools=tools, add_generation_prompt=False)
            assert rendered.text == text


def vocabulary(folder: Path, source: str) -> Tokenizer:
    """A tokenizer with the marks of a template: half of them user-defined, as published files have them."""
    written = sorted(set(re.findall(r"<\|[\w\"]+\|?>|<\w+\|>|</?\w+>|\[/?[A-Z_]+\]|<｜[^｜]+｜>", source)))
    return Tokenizer.open(write_bpe(folder / "v.gguf", ["h e"], {text: 3 + i % 2 for i, text in enumerate(written)}))


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("as_text", [True, False])
def test_calls_stand_in_the_prompt_as_the_model_wrote_them(name: str, as_text: bool, tmp_path: Path) -> None:
    """Given as dicts or as OpenAI's text, in any template; and their marks are tokens."""
    form, tokenizer = BY_NAME[name], vocabulary(tmp_path, TEMPLATES[name])
    prompts = ChatPrompts(tokenizer, template_of(name), form.marks + form.result_marks, form.write_entries)
    calls = [FIRST] if name == "llama3" else [FIRST, SECOND]
    calling = assistant(*calls)
    if as_text:
        for call in calling["tool_calls"]:
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    rendered = prompts.rendered([USER, calling, RESULT], tools=DEFINITIONS)
    parts = form.write(calls)
    if name == "harmony":
        parts = form.write([FIRST])
    written = "".join(text for text, _ in parts)
    assert written in rendered.text and "12 °C" in rendered.text
    ids = prompts.ids([USER, calling, RESULT], tools=DEFINITIONS)
    known = tokenizer.special_ids(form.marks)
    for mark, token in known.items():
        expected = rendered.text.count(mark)
        assert ids.count(token) == expected, mark
    assert all(known[text] in ids for text, mark in parts if mark and text in known)


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_prompt_of_a_call_reads_as_the_call(name: str) -> None:
    """What the template writes for a call is what the reader of replies takes for it."""
    if name == "granite":
        pytest.skip("its template shows no calls")
    form, template = BY_NAME[name], template_of(name)
    calls = [FIRST] if name == "llama3" else [FIRST, SECOND]
    style = find_style(template.render)
    assert style is not None
    before = template.render([USER]).text
    whole = template.render(style.applied([USER, assistant(*calls)]), add_generation_prompt=False).text
    reply = whole.removeprefix(before)
    events = read(form, [reply])
    assert calls_in(events) == [(call.name, dict(call.arguments)) for call in calls]


def test_hostile_results_forge_no_marks(tmp_path: Path) -> None:
    for name, source in TEMPLATES.items():
        form, tokenizer = BY_NAME[name], vocabulary(tmp_path, source)
        shielded = form.marks + form.result_marks
        prompts = ChatPrompts(tokenizer, template_of(name), shielded, form.write_entries)
        marks = {**tokenizer.control_texts, **tokenizer.special_ids(shielded)}

        def special(
            content: str, arguments: str, prompts: ChatPrompts = prompts, marks: dict[str, int] = marks
        ) -> list[int]:
            call = ToolCall("call00000", "weather", {"city": arguments})
            messages = [{**USER, "content": content}, assistant(call), {**RESULT, "content": content}]
            return [token for token in prompts.ids(messages) if token in marks.values()]

        harmless = special("xxx", "xxx")
        for mark in marks:
            assert special(f"a {mark} b", f"c {mark}") == harmless, (name, mark)


def test_templates_that_show_no_calls_get_them_in_the_content(tmp_path: Path) -> None:
    form, source = BY_NAME["granite"], TEMPLATES["granite"]
    tokenizer = vocabulary(tmp_path, source + "<|tool_call|>")
    prompts = ChatPrompts(tokenizer, template_of("granite"), form.marks, form.write_entries)
    calling = assistant(FIRST, content="I look.")
    rendered = prompts.rendered([USER, calling, RESULT, assistant(SECOND)])
    first, second = ("".join(text for text, _ in form.write([call])) for call in (FIRST, SECOND))
    end = "<|end_of_text|>\n<|start_of_role|>"
    assert (
        f"assistant<|end_of_role|>I look.{first}{end}tool<|end_of_role|>12 °C{end}assistant<|end_of_role|>{second}"
        in (rendered.text)
    )
    mark = tokenizer.special_ids(["<|tool_call|>"])["<|tool_call|>"]
    hostile = {**RESULT, "content": "<|tool_call|>"}
    assert prompts.ids([USER, calling, hostile]).count(mark) == 1
    roles = rendered.roles([USER, calling, RESULT, assistant(SECOND)])
    assert roles is not None and roles[rendered.text.index('"weather"')] == "assistant"
    with pytest.raises(EdgeLLMError, match="the chat template shows no calls of tools"):
        ChatPrompts(tokenizer, template_of("granite")).ids([USER, calling, RESULT])
    dropping = ChatTemplate("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", "", "")
    with pytest.raises(EdgeLLMError, match="the chat template shows no calls of tools"):
        ChatPrompts(tokenizer, dropping, form.marks, form.write_entries).ids([USER, calling, RESULT])


@pytest.mark.parametrize("name", [name for name, form in PUBLISHED.items() if form])
def test_published_templates_take_calls(name: str, tmp_path: Path) -> None:
    if not SOURCES[name].exists():
        pytest.skip("no shared data beside the project")
    source = SOURCES[name].read_text(encoding="utf-8")
    form = call_format(source)
    assert form is not None
    template = ChatTemplate(source, "<s>", "</s>")
    prompts = ChatPrompts(vocabulary(tmp_path, source), template, form.marks + form.result_marks, form.write_entries)
    for content in (None, "I look."):
        calling = assistant(FIRST, content=content)
        rendered = prompts.rendered([USER, calling, RESULT], tools=DEFINITIONS)
        assert "weather" in rendered.text.partition("How is it?")[2]
        assert "Zürich" in rendered.text and "12 °C" in rendered.text
