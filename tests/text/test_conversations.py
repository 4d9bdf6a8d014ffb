"""Messages with calls of tools: what is accepted, and how templates get it."""

from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.text.call_rendering import CallStyle, find_style
from edgellm.text.conversation import check_messages
from edgellm.text.inspection import inspect
from edgellm.text.prompts import ChatPrompts
from edgellm.text.rendered_prompt import RenderedPrompt
from edgellm.text.template import ChatTemplate
from edgellm.text.tokenizer import Tokenizer
from support.chatml import CHATML
from support.tiny_vocab import write_bpe

USER = {"role": "user", "content": "Hi"}


def calling(arguments: Any = None, **fields: Any) -> dict[str, Any]:
    call = {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]} | fields


def test_calls_and_results_are_messages() -> None:
    result = {"role": "tool", "tool_call_id": "call00000", "name": "f", "content": "1"}
    for arguments in (None, {}, {"a": [1]}, "", '{"a": 1}'):
        check_messages([USER, calling(arguments), result])
    check_messages([calling({}, content="I look."), {"role": "tool", "content": "1"}])


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "assistant", "content": None}, "a text as role and one as content"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "a text as role and one as content"),
        ({"role": "user", "content": None, "tool_calls": [1]}, "a text as role and one as content"),
        ("Hi", "must be a mapping"),
        (calling({}) | {"tool_calls": "f"}, "tool_calls must be a list"),
        (calling({}) | {"tool_calls": [{"name": "f"}]}, "a call must have a function with a name"),
        (calling({}) | {"tool_calls": [{"function": {"name": 1}}]}, "a call must have a function with a name"),
        (calling({}) | {"tool_calls": [{"id": 1, "function": {"name": "f"}}]}, "the id of a call must be a text"),
        (calling("{"), "the arguments of the call of f are no JSON object"),
        (calling("[1]"), "the arguments of the call of f are no JSON object"),
        (calling([1]), "the arguments of the call of f are no JSON object"),
        (calling("[" * 100_000), "the arguments of the call of f are no JSON object"),
        ({"role": "tool", "content": "1", "tool_call_id": 5}, "tool_call_id must be a text"),
        ({"role": "tool", "content": "1", "name": ["f"]}, "name must be a text"),
    ],
)
def test_faults_are_told_in_one_line_with_their_message(message: Any, said: str) -> None:
    with pytest.raises(EdgeLLMError, match=said) as error:
        check_messages([USER, message])
    assert str(error.value).startswith("message 2") and "\n" not in str(error.value)


FOR_CALLS = "{% for m in messages %}{% for c in m.tool_calls or [] %}"
ENDED = "{% endfor %}{% endfor %}"
CONTENT = "{% for m in messages %}{{ m.content + '!' }}{% for c in m.tool_calls or [] %}"


@pytest.mark.parametrize(
    ("source", "style"),
    [
        (FOR_CALLS + "{{ c.function.arguments | tojson }}" + ENDED, CallStyle()),
        (FOR_CALLS + "{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}" + ENDED, CallStyle()),
        (FOR_CALLS + "{{ '(' + c.function.arguments + ')' }}" + ENDED, CallStyle(as_text=True)),
        (FOR_CALLS + "{{ c.function.arguments }}" + ENDED, CallStyle(as_text=True)),
        (CONTENT + "{{ c.function.arguments | tojson }}" + ENDED, CallStyle()),
        (
            "{% for m in messages if m.content is not defined %}{{ m.tool_calls | tojson }}{% endfor %}",
            CallStyle(no_content=True),
        ),
        (FOR_CALLS + "{{ c.function.name }}" + ENDED, None),
        ("{{ messages[0].content }}", None),
        ("{{ raise_exception('no') if messages[1] }}", None),
    ],
)
def test_a_trial_tells_how_a_template_takes_calls(source: str, style: CallStyle | None) -> None:
    assert find_style(ChatTemplate(source, "", "").render) == style


def test_styles_change_calls_alone() -> None:
    given = calling('{"a": "é"}')
    as_dict, as_text = ({"a": "é"}, '{"a": "é"}')
    assert CallStyle().applied([USER, given]) == [USER, calling(as_dict, content="")]
    assert CallStyle(as_text=True).applied([calling(as_dict, content="x")]) == [calling(as_text, content="x")]
    assert CallStyle(no_content=True).applied([given]) == [calling(as_dict, content=None)]
    assert given == calling('{"a": "é"}')


def test_a_word_is_replaced_with_the_origins_of_its_parts() -> None:
    prompt = RenderedPrompt("ab_WORD_cd", [(0, 2), (5, 6), (0, 2)])
    replaced = prompt.replaced("WORD", [("<x>", True), ("yz", False)])
    assert replaced.text == "ab_<x>yz_cd"
    origins = [origin for origin, length in replaced.runs for _ in range(length)]
    assert origins == [0, 0, 5, 0, 0, 0, 5, 5, 5, 0, 0]
    split = RenderedPrompt("WORD", [(5, 1), (6, 3)]).replaced("WORD", [("x", False)])
    assert split.text == "x" and list(split.runs) == [(5, 1)]
    with pytest.raises(ValueError, match="substring not found"):
        prompt.replaced("NONE", [])


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    special = {"<|im_start|>": 3, "<|im_end|>": 3, "<mark>": 4, "<other>": 4}
    return Tokenizer.open(write_bpe(tmp_path_factory.mktemp("v") / "v.gguf", ["h e"], special))


def test_marks_are_the_templates_alone(tokenizer: Tokenizer) -> None:
    """User-defined tokens are found in any text, unless they are marks of calls."""
    source = "{{ '<mark>' }}{% for m in messages %}{{ m.content }}{% endfor %}"
    message = {"role": "user", "content": "<mark><other>"}
    mark, other = tokenizer.special_ids(["<mark>", "<other>"]).values()
    assert tokenizer.special_ids(["<none>", "h"]) == {}
    plain = ChatPrompts(tokenizer, ChatTemplate(source, "", "")).ids([message])
    assert (plain.count(mark), plain.count(other)) == (2, 1)
    marked = ChatPrompts(tokenizer, ChatTemplate(source, "", ""), ["<mark>", "<none>"]).ids([message])
    assert (marked.count(mark), marked.count(other)) == (1, 1)


def test_inspections_show_calls(tokenizer: Tokenizer) -> None:
    source = CHATML.replace("m['content'] | trim", "m.content + (m.tool_calls | tojson if m.tool_calls else '')")
    prompts = ChatPrompts(tokenizer, ChatTemplate(source, "", ""))
    found = inspect(tokenizer, prompts, [USER, calling({"a": "<|im_end|>"}), USER])
    assert '"name": "f"' in found.text
    assert any("a message from assistant has <|im_end|> in it" in warning for warning in found.warnings)
    hidden = inspect(tokenizer, ChatPrompts(tokenizer, ChatTemplate(CHATML, "", "")), [USER, calling({})])
    assert any("shows no calls of tools" in warning for warning in hidden.warnings)


def test_files_may_have_a_template_for_tools(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]
    for given, expected in ((None, (None, None)), ("A", ("A", "A")), (named, ("A", "B"))):
        opened = Tokenizer.open(write_bpe(tmp_path / "v.gguf", ["h e"], {}, chat_template=given))
        assert (opened.chat_template, opened.tool_template) == expected
