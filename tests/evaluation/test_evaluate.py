"""Evaluations of models: random ones, whose guided calls are valid, and replies that are written here."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from edgellm import EdgeLLMError, Model, OptionError
from edgellm.chat import Chat
from edgellm.errors import EdgeLLMWarning, PromptError
from edgellm.evaluation import Case, EvalSettings, evaluate
from edgellm.evaluation.scoring import Reply
from edgellm.generate.generator import Generator
from edgellm.generate.request import TokensPrompt
from edgellm.tools.calls import BrokenCall, ToolCall
from edgellm.tools.tool import tools_of
from support.call_styles import BY_NAME
from support.model_file import ModelFile
from support.tool_templates import TEMPLATES

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
TOOLS = tools_of(
    [
        {
            "name": "paint",
            "parameters": {
                "type": "object",
                "properties": {"color": {"enum": ["red", "blue"]}, "layers": {"type": "integer"}},
                "required": ["color", "layers"],
            },
        },
        {"name": "look"},
    ]
)
PAINT = {"name": "paint", "arguments": {"color": "red", "layers": 2}}
CALLS = Case("calls", [{"role": "user", "content": "Paint"}], "calls", [PAINT], TOOLS)
VALUE = Case("json", [{"role": "user", "content": "Say"}], "json", {"a": True}, json_schema={
    "type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False,
})  # fmt: skip
TEXT = Case("text", [{"role": "user", "content": "Say"}], "contains", "hello")
Open = Callable[..., Model]


@pytest.fixture
def open_model(model_file: ModelFile, request: pytest.FixtureRequest) -> Open:
    """`open_model("hermes")`: a random model with that format of calls; without a name, one without calls."""

    def opened(name: str = "", template: str | None = None) -> Model:
        kind = f"calls {name}" if name else "gpt2"
        source = template or TEMPLATES.get(name) or "{% for m in messages %}{{ m.content }}{% endfor %}"
        file = model_file(**SIZES, tokenizer=kind, chat_template=source, context_length=4096, vocab=384)
        model = Model.open(file, threads=1)
        request.addfinalizer(model.close)
        return model

    return opened


@dataclass
class Written:
    """A token of a reply that is written here."""

    id: int
    text: str


class WrittenReply:
    """A reply of these tokens, as `special` shows them, in place of what a model computes."""

    def __init__(self, model: Model, text: str) -> None:
        ids = model.tokenizer.encode(text, parse_special=True)
        self._tokens = [Written(i, model.tokenizer.token_bytes(i, True).decode(errors="replace")) for i in ids]

    def __iter__(self) -> Iterator[Written]:
        return iter(self._tokens)


@pytest.fixture
def unguided(monkeypatch: pytest.MonkeyPatch) -> Callable[[Model, str], Reply]:
    """The reply to `CALLS` without a guide, as it is read if the model writes this text."""

    def read(model: Model, text: str) -> Reply:
        real, found = Chat.reply, list[Any]()

        def reply(chat: Chat, *args: Any, **options: Any) -> Any:
            if "tools" in options:
                return real(chat, *args, **{**options, "max_tokens": 1})
            found.append(options)
            return WrittenReply(model, text)

        monkeypatch.setattr(Chat, "reply", reply)
        (result,) = evaluate(model, [CALLS])
        monkeypatch.setattr(Chat, "reply", real)
        assert [*found[0]["template_args"]["tools"]] == [tool.definition for tool in TOOLS.values()]
        return result.replies["unguided"]

    return read


@pytest.mark.parametrize("name", sorted(TEMPLATES))
@pytest.mark.filterwarnings("ignore:the chat template does not show the model which tools")
def test_calls_in_a_reply_without_a_guide_are_read(
    name: str, open_model: Open, unguided: Callable[[Model, str], Any]
) -> None:
    """They are written as the format does, and read from the tokens of a reply that nothing held to it."""
    model, form = open_model(name), BY_NAME[name]
    arguments = {"color": "red", "layers": 2}
    written = "".join(text for text, _ in form.write([ToolCall("call00000", "paint", arguments)]))
    assert unguided(model, written)["calls"] == [{"name": "paint", "arguments": arguments}]
    assert unguided(model, "Hello") == {"text": "Hello"} or name == "harmony"


def test_a_broken_call_without_a_guide(open_model: Open, unguided: Callable[[Model, str], Any]) -> None:
    model = open_model("hermes")
    found = unguided(model, 'Well.<tool_call>\n{"name": "paint", "arguments": {"color": \n</tool_call>')
    assert found["text"] == "Well." and "calls" not in found and len(found["broken"]) == 1
    found = unguided(model, '<tool_call>\n{"name": "wash", "arguments": {}}\n</tool_call>')
    assert found["broken"][0]["problem"] == "there is no tool wash; the tools are paint, look"


def test_thoughts_are_no_part_of_a_reply(open_model: Open, unguided: Callable[[Model, str], Any]) -> None:
    call = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
    model = open_model("hermes", TEMPLATES["hermes"] + "{# <think> </think> #}")
    found = unguided(model, f"<think>\nSee {{}}\n</think>\n\nI look.{call}")
    assert found == {"text": "I look.", "calls": [{"name": "look", "arguments": {}}]}
    opened = TEMPLATES["hermes"] + "{% if add_generation_prompt %}<think>\n{% endif %}"
    found = unguided(open_model("hermes", opened), f"See\n</think>\n\nI look.{call}")
    assert found["text"].strip() == "I look." and found["calls"][0]["name"] == "look"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("hello", 1),
        ("<think>\nWhat now?\n</think>\n\nhello", 1),
        ("<think>\nhello\n</think>\n\nbye", 0),
        ("<think>\nhello", 0),
        ("hello?\n</think>\n\nbye", 0),
    ],
)
def test_what_a_model_thinks_is_not_scored(
    text: str, right: int, open_model: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Thinking:
        def completion(self) -> Any:
            return Reply(text)

    monkeypatch.setattr(Chat, "reply", lambda *args, **options: Thinking())
    (result,) = evaluate(open_model(), [TEXT])
    assert result.scores == {"overall": right}


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "llama3", "harmony", "gemma4"])
@pytest.mark.filterwarnings("ignore:the chat template does not show the model which tools")
def test_guided_replies_of_random_models(name: str, open_model: Open) -> None:
    """Whatever the weights, calls are valid; JSON is valid unless the limit of tokens cuts it off."""
    model = open_model(name)
    for seed in range(3):
        settings = EvalSettings(temp=1, seed=seed, max_tokens=120)
        calls, value, text = evaluate(model, [CALLS, VALUE, TEXT], settings)
        assert calls.scores.get("calls_valid", 1) == 1 or calls.replies["reply"].get("broken")
        assert value.scores["json_valid"] == 1 or len(value.replies["reply"]["text"]) < 12
        assert value.scores["json_valid_unguided"] == value.scores["json_right_unguided"] == 0
        assert text.scores == {"overall": 0} and "unguided" not in text.replies
        again = [*evaluate(model, [TEXT, VALUE], settings)]
        assert again == [text, value]


@pytest.mark.parametrize("name", sorted(TEMPLATES))
@pytest.mark.filterwarnings("ignore:the chat template does not show the model which tools")
def test_both_replies_follow_the_same_prompt(name: str, open_model: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts, uses, start = list[list[int]](), list[object](), Generator.start

    def recorded(generator: Generator, prompt: TokensPrompt, *more: Any, **named: Any) -> Any:
        prompts.append(prompt.ids)
        uses.append(more[-1])
        return start(generator, prompt, *more, **named)

    monkeypatch.setattr(Generator, "start", recorded)
    next(evaluate(open_model(name), [CALLS], EvalSettings(max_tokens=1)))
    assert prompts[0] == prompts[1]
    assert uses[0] is not None and uses[1] is None


def test_a_short_limit_cuts_json_off(open_model: Open) -> None:
    (found,) = evaluate(open_model("hermes"), [VALUE], EvalSettings(max_tokens=2))
    assert found.scores["json_valid"] == 0


def test_models_without_calls_leave_out_cases_with_tools(open_model: Open) -> None:
    model = open_model()
    with pytest.warns(EdgeLLMWarning, match="does not show how the model calls tools: 1 case with tools left out"):
        results = [*evaluate(model, [CALLS, VALUE], EvalSettings(max_tokens=8))]
    assert [each.id for each in results] == ["json"]
    with pytest.raises(EdgeLLMError, match="choose another suite: all cases of this one have tools"):
        next(evaluate(model, [CALLS]))


def test_another_template_may_show_calls(open_model: Open) -> None:
    settings = EvalSettings(max_tokens=4, template=TEMPLATES["hermes"])
    (found,) = evaluate(open_model(), [CALLS], settings)
    assert found.scores["tool_right"] == 0


def test_errors_name_the_case(open_model: Open) -> None:
    model = open_model("hermes")
    long = Case("long", [{"role": "user", "content": "word " * 5000}], "contains", "x")
    with pytest.raises(PromptError, match=r"^case long: .*4,096") as told:
        [*evaluate(model, [long])]
    assert "--ctx 1" in told.value.message_with({"ctx": "--ctx 1", "overflow": "", "prompt": ""})
    with pytest.raises(OptionError, match="temp cannot be nan"):
        next(evaluate(model, [TEXT], EvalSettings(temp=math.nan)))
    bare = Case("bare", [{"role": "user", "content": "x"}], "json", 1, json_schema={"not": {}})
    with pytest.raises(OptionError, match=r"^case bare: option json_schema: #/not is a keyword"):
        next(evaluate(model, [bare]))


def test_replies_for_people() -> None:
    reply = Reply("a", (), (BrokenCall("b", "c"),))
    assert reply.as_json() == {"text": "a", "broken": [{"text": "b", "problem": "c"}]}
