"""Chats with tools: calls come beside the text, follow the schema of their tool, and are run on request."""

import re
from collections.abc import Callable
from typing import Any, Literal

import pytest

from edgellm import EdgeLLMError, Model, OptionError
from edgellm.engine.protocol import Logits, Sequence
from edgellm.generate.results import Completion
from edgellm.generate.session import Session
from edgellm.text.template import template_source
from edgellm.tools.tool import tool_of
from support.call_styles import BY_NAME
from support.model_file import ModelFile
from support.tool_templates import TEMPLATES

jsonschema = pytest.importorskip("jsonschema")
SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}


def paint(color: Literal["red", "blue"], layers: int, dry: bool = True) -> str:
    """Paint the wall.

    Args:
        color: The color
        layers: How many layers
        dry: Whether to wait
    """
    return f"{color} x {layers}"


def look() -> dict[str, Any]:
    """Look at the wall."""
    return {"color": "grün", "layers": [1, None]}


TOOLS = [paint, look]
SCHEMAS = {tool.name: {**tool.parameters, "additionalProperties": False} for tool in map(tool_of, TOOLS)}
CASES = sorted(TEMPLATES)
Open = Callable[..., Model]
pytestmark = pytest.mark.filterwarnings("ignore:the chat template does not show the model which tools")


@pytest.fixture
def open_model(model_file: ModelFile, request: pytest.FixtureRequest) -> Open:
    """`open_model("hermes")`: a random model whose chats have calls in that format."""

    def opened(name: str, template: str | None = None) -> Model:
        kind = "gpt2" if name == "none" else f"calls {name}"
        source = template or TEMPLATES.get(name)
        file = model_file(**SIZES, tokenizer=kind, chat_template=source, context_length=4096, vocab=384)
        model = Model.open(file, threads=1)
        request.addfinalizer(model.close)
        return model

    return opened


def check(completion: Completion) -> None:
    """The calls are those of tools, with arguments that are valid; the limit of tokens alone may cut one off."""
    assert not completion.broken_calls or completion.finish_reason == "length"
    for call in completion.tool_calls:
        jsonschema.validate(dict(call.arguments), SCHEMAS[call.name])


def biased(model: Model) -> dict[str, Any]:
    """Options with which random replies, and thoughts in them, soon end."""
    ends = [*model.tokenizer.eog_ids, *model.tokenizer.special_ids(["<|end|>"]).values()]
    return {"temp": 1, "max_tokens": 400, "logit_bias": dict.fromkeys(ends, 4.0)}


@pytest.mark.parametrize("name", CASES)
def test_required_calls_are_valid(name: str, open_model: Open) -> None:
    model = open_model(name)
    for seed in range(3):
        chat = model.chat(tools=TOOLS, tool_choice="required", seed=seed, **biased(model))
        completion = chat.send("Paint")
        check(completion)
        assert completion.finish_reason == "tool_calls" and completion.tool_calls
        assert "paint" not in completion.text and "look" not in completion.text
        assert chat.messages[-1]["tool_calls"] == [call.as_message() for call in completion.tool_calls]
        assert len(completion.tool_calls) == 1 or name != "llama3"  # its template takes one call at a time
        results = [{"role": "tool", "tool_call_id": call.id, "content": "1"} for call in completion.tool_calls]
        if name != "harmony":  # its template reads the thinking of a call, which not every reply has
            assert chat.reply([*chat.messages, *results], max_tokens=1).completion().stats.prompt_tokens


@pytest.mark.parametrize("name", CASES)
def test_a_named_tool_alone_is_called(name: str, open_model: Open) -> None:
    model = open_model(name)
    choice = {"type": "function", "function": {"name": "paint"}}
    completion = model.chat(tools=TOOLS, **biased(model)).send("Paint", tool_choice=choice, seed=4)
    check(completion)
    assert {call.name for call in completion.tool_calls} == {"paint"}


@pytest.mark.parametrize("name", CASES)
def test_a_call_that_the_model_begins_is_held_to_the_schema(name: str, open_model: Open) -> None:
    """The model is pushed to what begins calls, and has the choice to say nothing but text."""
    model = open_model(name)
    marks = dict.fromkeys(model.tokenizer.special_ids(BY_NAME[name].marks).values(), 4.5)
    options = biased(model)
    options["logit_bias"] = {**marks, **options["logit_bias"]}
    completions = [model.chat(tools=TOOLS, seed=seed, **options).send("Paint") for seed in range(4)]
    for completion in completions:
        check(completion)
    if name not in ("functionary", "functionary v3.1", "harmony"):  # their calls begin with text
        assert any(completion.tool_calls for completion in completions)


@pytest.mark.parametrize("name", ["hermes", "lfm2", "functionary"])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_one_call_at_most_on_request(name: str, choice: str, open_model: Open) -> None:
    """For one reply and for a chat; the model is pushed to what begins calls, and never to the end of a reply."""
    model, asked, most = open_model(name), [{"role": "user", "content": "Look"}], 0
    between = [*model.tokenizer.special_ids(BY_NAME[name].marks).values(), *model.tokenizer.encode(",>")]
    options: dict[str, Any] = {"temp": 1, "max_tokens": 300, "logit_bias": dict.fromkeys(between, 4.5)}
    options |= {"tools": [look], "tool_choice": choice}
    for seed in range(5):
        many = model.chat(**options).reply(asked, seed=seed).completion().tool_calls
        one = model.chat(**options).reply(asked, seed=seed, parallel_tool_calls=False).completion()
        again = model.chat(**options, parallel_tool_calls=False).reply(asked, seed=seed).completion()
        assert (one.tokens, one.tool_calls) == (again.tokens, again.tool_calls)
        assert [call.name for call in many[:1]] == [call.name for call in one.tool_calls]
        assert len(one.tool_calls) == 1 or choice == "auto"
        most = max(most, len(many))
    assert most > 1 or choice == "auto"


@pytest.mark.parametrize("name", CASES)
def test_no_calls_on_request(name: str, open_model: Open) -> None:
    model = open_model(name)
    options = biased(model)
    options["logit_bias"] |= dict.fromkeys(model.tokenizer.special_ids(BY_NAME[name].marks).values(), 2.0)
    completion = model.chat(tools=TOOLS, tool_choice="none", seed=1, **options).send("Paint")
    assert not completion.tool_calls and not completion.broken_calls
    assert completion.finish_reason in ("eog", "length")


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_drafts_change_no_text(choice: str, open_model: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_model("hermes")
    options = biased(model)
    options["logit_bias"] |= dict.fromkeys(model.tokenizer.special_ids(["<tool_call>"]).values(), 4.5)

    def replies() -> list[Completion]:
        chats = (model.chat(tools=TOOLS, tool_choice=choice, seed=seed, **options) for seed in range(4))
        return [chat.send("Paint") for chat in chats]

    lengths, decode = list[int](), Session.decode

    def counted(session: Session, sequence: Sequence, tokens: list[int], *rest: Any) -> Logits:
        lengths.append(len(tokens))
        return decode(session, sequence, tokens, *rest)

    monkeypatch.setattr(Session, "decode", counted)
    with_drafts = replies()
    assert max(lengths) > 1
    monkeypatch.setattr(model.drafts(), "most", 0)
    lengths.clear()
    without = replies()
    assert max(lengths) == 1
    assert [(each.tokens, each.tool_calls) for each in with_drafts] == [
        (each.tokens, each.tool_calls) for each in without
    ]
    assert any(each.tool_calls for each in with_drafts)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tools": [paint, paint]}, "two tools have the name paint; give each a name of its own"),
        (
            {"tools": [paint], "tool_choice": "wash"},
            "option tool_choice is 'wash'; take one of: auto, none, required, paint",
        ),
        ({"tools": [paint], "tool_choice": {"name": "paint"}}, "tool_choice must be"),
        ({"tools": [paint], "tool_choice": 3}, "tool_choice must be"),
        ({"tool_choice": "required"}, "there are no tools"),
        ({"tools": "paint"}, "tools is a value of type str"),
        ({"tools": [paint], "regex": "a+"}, "option regex and option tools exclude each other"),
        ({"tools": [paint], "parallel_tool_calls": 0}, "option parallel_tool_calls cannot be 0: give True or False"),
        ({"tools": [paint], "special": True}, "option special would show calls as text"),
    ],
)
def test_mistaken_options_are_refused(options: dict[str, Any], problem: str, open_model: Open) -> None:
    model = open_model("hermes")
    with pytest.raises(OptionError, match=re.escape(problem)) as told:
        model.chat(**options).send("Paint")
    assert "\n" not in str(told.value)


def test_a_schema_that_no_call_can_be_held_to_is_refused(open_model: Open) -> None:
    parameters = {
        "type": "object",
        "properties": {"a": {"type": "string", "contentEncoding": "base64"}, "b": {"$ref": "#/x"}},
    }
    tool = {"type": "function", "function": {"name": "wash", "parameters": parameters}}
    chat = open_model("hermes").chat(tools=[tool])
    with pytest.raises(OptionError, match=r"tool wash: .*/properties/b"):
        chat.send("Wash")
    assert not chat.messages


def test_a_template_without_calls_is_refused(open_model: Open) -> None:
    model = open_model("none", "{% for m in messages %}{{ m.content }}{% endfor %}")
    with pytest.raises(EdgeLLMError, match=r"^the chat template of .*gguf does not show .*: choose a model whose"):
        model.chat(tools=TOOLS)
    for template in ("llama3", template_source("llama3")):
        with pytest.raises(EdgeLLMError, match=r"^the built-in chat template llama3 does not show how"):
            model.chat(tools=TOOLS, template=template)
    with pytest.raises(EdgeLLMError, match=r"^the given chat template does not show how"):
        model.chat(tools=TOOLS, template="{{ messages }}")
    assert model.chat(tools=[]).send("Paint", max_tokens=1).tokens


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_calls_come_behind_thoughts(opened: bool, choice: str, open_model: Open) -> None:
    """A thought never holds a call, and one that is too long is ended, whether or not the prompt opened it."""
    ending = "{% if add_generation_prompt %}<think>\n{% endif %}" if opened else "{# <think> </think> #}"
    model = open_model("hermes", TEMPLATES["hermes"] + ending)
    options = biased(model)
    options["logit_bias"] |= dict.fromkeys(model.tokenizer.special_ids(["<tool_call>"]).values(), 4.5)
    chats = [model.chat(tools=TOOLS, tool_choice=choice, seed=seed, think_max=8, **options) for seed in range(4)]
    completions = [chat.send("Paint") for chat in chats]
    for completion in completions:
        check(completion)
        assert "tool_call" not in completion.text
        if choice == "required":
            assert completion.tool_calls
        if opened:
            assert completion.text.count("</think>") == 1
