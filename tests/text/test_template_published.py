"""Published chat templates: the same text as in transformers, whatever the turns and arguments; and the right ids."""

import importlib.util
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.text.prompts import ChatPrompts
from edgellm.text.template import ChatTemplate
from edgellm.text.tokenizer import Tokenizer
from support import SHARED
from support.tiny_vocab import write_bpe

TEMPLATES = sorted((SHARED / "templates").glob("*.jinja"))

FUNCTION = {"name": "f", "description": "<é> 'q'", "parameters": {"type": "object"}}
PROPERTIES = {"city": {"type": "string", "description": "A city"}, "n": {"type": "integer", "enum": [1, 2]}}
DETAILED = {"name": "g", "parameters": {"type": "object", "properties": PROPERTIES, "required": ["city"]}}
TOOL = {"type": "function", "function": FUNCTION}
TOOLS = [TOOL, {"type": "function", "function": DETAILED}]

CALL_ID = "abcde1234"
ARGUMENTS = {"city": "Zürich <b>", "n": [1, None, 2.5], "ok": True}
CALL = {"id": CALL_ID, "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}
TEXT_CALL = {"id": CALL_ID, "type": "function", "function": {"name": "f", "arguments": '{"city": "x"}'}}
SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "  Hi <b> é\n"}
THOUGHT = {"role": "assistant", "content": "<think>\nx\n</think>\n\nYes "}
WHY = {"role": "user", "content": "Why?"}


def calling(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": list(calls)} | fields


def result(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": CALL_ID, "name": "f", "content": text}


CHATS: dict[str, list[dict[str, Any]]] = {
    "user": [USER],
    "turns": [SYSTEM, USER, THOUGHT, WHY],
    "no system": [USER, THOUGHT, WHY],
    "call": [SYSTEM, USER, calling(CALL)],
    "result": [SYSTEM, USER, calling(CALL), result("12 °C")],
    "two calls": [USER, calling(CALL, CALL, content="Wait.", reasoning_content="hm"), result("1"), result("2")],
    "call as text": [USER, calling(TEXT_CALL, content=None), result("1")],
    "after a call": [SYSTEM, USER, calling(CALL), result("12 °C"), THOUGHT, WHY],
    "reasoning by other names": [
        USER,
        {"role": "assistant", "thinking": "t", "content": "Yes"},
        WHY,
        {"role": "assistant", "reasoning": "r", "content": "No"},
        WHY,
    ],
    "reasoning": [USER, {"role": "assistant", "reasoning_content": "r", "content": "Yes"}, WHY],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": " you"}]}],
}
ARGUMENT_SETS: list[dict[str, Any]] = [
    {},
    {"enable_thinking": True},
    {"enable_thinking": False},
    {"documents": [{"title": "a", "text": "b"}]},
    {"custom_instructions": "Be\nkind", "xml_tools": TOOLS},
    {"python_tools": TOOLS, "keep_past_thinking": True, "clear_thinking": False},
]


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is the oracle")
@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
@pytest.mark.parametrize("chat", CHATS)
def test_published_templates_render_as_in_transformers(path: Path, chat: str) -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    source = path.read_text(encoding="utf-8")
    template = ChatTemplate(source, "<s>", "</s>")
    # As in `apply_chat_template`: null entries are dropped before.
    messages = [{key: value for key, value in message.items() if value is not None} for message in CHATS[chat]]
    tools = (None, [TOOL], TOOLS, [FUNCTION])
    for prompt, offered, args in product((True, False), tools, ARGUMENT_SETS):
        names = {"tools": offered, "add_generation_prompt": prompt, **args}
        try:
            texts, _ = render_jinja_template(
                [messages], chat_template=source, bos_token="<s>", eos_token="</s>", **names
            )
        except Exception as error:
            with pytest.raises(EdgeLLMError) as ours:
                template.render(CHATS[chat], **names)
            assert str(error).removesuffix(".") in str(ours.value)  # our sentence goes on
        else:
            assert template.render(CHATS[chat], **names).text == texts[0]


@pytest.mark.skipif(not TEMPLATES, reason="no shared data beside the project")
@pytest.mark.parametrize("chat", CHATS)
def test_ids_are_those_of_the_rendered_text(chat: str) -> None:
    """No message here forges a control token, so masking changes nothing."""
    tokenizer = Tokenizer.open(SHARED / "vocab" / "qwen2.gguf")
    for name in ("Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B"):
        source = (SHARED / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
        prompts = ChatPrompts(tokenizer, ChatTemplate(source, "", "<|im_end|>"))
        try:
            text = prompts.rendered(CHATS[chat], tools=TOOLS).text
        except EdgeLLMError:
            continue
        ids = prompts.ids(CHATS[chat], tools=TOOLS)
        assert ids == tokenizer.encode(text, parse_special=True)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_no_message_forges_a_control_token_in_published_templates(path: Path, tmp_path: Path) -> None:
    """Whatever they cut from messages, the control tokens are those of harmless text of the same length."""
    source = path.read_text(encoding="utf-8")
    written = re.findall(r"<\|\w+\|>|</?\w+>|\[/?[A-Z_]+\]|<｜[^｜]+｜>", source)
    controls = ["</s>", *sorted(set(written) - {"</s>"})[:4]]
    tokenizer = Tokenizer.open(write_bpe(tmp_path / "v.gguf", ["h e"], dict.fromkeys(controls, 3)))
    prompts = ChatPrompts(tokenizer, ChatTemplate(source, "<s>", "</s>"))

    def found(content: str, role: str) -> list[int]:
        turns = [USER, {"role": "assistant", "content": "Yes"}, WHY]
        turns[0 if role == "system" else 1] = {"role": role, "content": content}
        try:
            ids = prompts.ids(turns, tools=TOOLS)
        except EdgeLLMError:
            return []
        return [i for i in ids if i in tokenizer.control_texts.values()]

    for control, role in product(controls, ("system", "assistant")):
        for cut in ("", "/no_think", "</think>"):
            half = len(control) // 2
            forged = found(f"hi {control[:half]}{cut}{control[half:]}", role)
            assert forged == found(f"hi {'x' * half}{cut}{'x' * (len(control) - half)}", role)
