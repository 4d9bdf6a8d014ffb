"""Calls behind thoughts, and behind an answer that has begun."""

from collections.abc import Callable

import pytest

from edgellm import Model
from edgellm.tools.calls import ToolCall
from support.model_file import ModelFile
from support.scripted_replies import CLOCK, ROME, SIZES, Write, clock, weather
from support.tool_templates import HERMES, TEMPLATES


@pytest.fixture
def model(calling_model: Model) -> Model:
    return calling_model


TAGS = [("<think>", "</think>", "\n\n"), ("[THINK]", "[/THINK]", ""), ("<seed:think>", "</seed:think>", "\n")]


@pytest.mark.parametrize("opened", [False, True], ids=["by the model", "by the prompt"])
@pytest.mark.parametrize("tokens", ["hermes {} {}", "hermes", "none"], ids=["all tokens", "calls tokens", "text"])
@pytest.mark.parametrize("tags", TAGS, ids=["think", "mistral", "seed"])
def test_thoughts_before_calls_are_read_whatever_their_marks(
    tags: tuple[str, str, str], tokens: str, opened: bool, model_file: ModelFile, scripted: Callable[[Model], Write]
) -> None:
    """A call that a thought spells out is none. Marks of calls and thoughts are tokens, or text."""
    opening, closing, follow = tags
    if opening == "<think>" and "{}" in tokens:
        pytest.skip("vocabularies have this tag as a token with a text")
    ending = "{% if add_generation_prompt %}" + opening + "{% endif %}" if opened else "{# " + opening + closing + " #}"
    kind = "gpt2" if tokens == "none" else f"calls {tokens.format(opening, closing)}"
    file = model_file(**SIZES, tokenizer=kind, chat_template=HERMES + ending, context_length=4096, vocab=384)
    # Without any token the guide cannot tell text from a thought that the model opens: it may not spell out a call.
    thought = "Let me see." if tokens == "none" and not opened else f"I could write {CLOCK}."
    with Model.open(file, threads=1) as model:
        encode = model.tokenizer.encode
        before = [] if opened else encode(opening, parse_special=True)
        reply = [*before, *encode(thought), *encode(closing + follow + ROME, parse_special=True)]
        scripted(model)(reply)
        completion = model.chat(tools=[weather, clock]).send("How is it?")
    begun = "" if opened else "<think>" if opening == "<think>" else "<think>\n"
    assert completion.text == f"{begun}{thought}{'' if opening == '<think>' else chr(10)}</think>"
    assert completion.tool_calls == (ToolCall("call00000", "weather", {"city": "Rome"}),)
    assert not completion.broken_calls and completion.finish_reason == "tool_calls"


def test_the_token_that_begins_a_call_ends_a_thought(model: Model, scripted: Callable[[Model], Write]) -> None:
    """With a limit of thinking and without, and also where the model must call."""
    template = HERMES + "{# <think> </think> #}"
    for options in ({}, {"think_max": 100}, {"tool_choice": "required"}, {"tool_choice": "clock", "think_max": 100}):
        scripted(model)(f"<think>\nI need the time.{CLOCK}")
        chat = model.chat(template=template, tools=[clock, weather], **options)  # type: ignore[arg-type]
        completion = chat.send("What time is it?")
        assert completion.text == "<think>\nI need the time.\n</think>\n\n"
        assert [each.name for each in completion.tool_calls] == ["clock"] and not completion.broken_calls


ARGUMENTS = ('{"city": "Rome"}', '{"town": "Rome"}')


BEGUN = [
    ("llama3", '{"name": "weather", "parameters": ', "%s}"),
    ("hermes", "Let me see. ", '<tool_call>\n{"name": "weather", "arguments": %s}\n</tool_call>'),
    ("functionary", "all\nLet me see.", ">>>weather\n%s"),
    ("functionary v3.1", "Let me see.", "<function=weather>%s</function>"),
]


@pytest.mark.parametrize(("name", "begun", "call_text"), BEGUN)
def test_calls_behind_an_answer_that_has_begun_follow_the_schema(
    name: str, begun: str, call_text: str, model_file: ModelFile, scripted: Callable[[Model], Write]
) -> None:
    """In a vocabulary without tokens for the marks of calls."""
    file = model_file(**SIZES, tokenizer="gpt2", chat_template=TEMPLATES[name], context_length=4096, vocab=384)
    with Model.open(file, threads=1) as model:
        scripted(model)(*(call_text % arguments for arguments in ARGUMENTS))
        chat = model.chat(tools=[weather, clock])
        asked = [{"role": "user", "content": "How is it?"}]
        replies = [chat.reply(asked, begun=begun).completion() for _ in ARGUMENTS]
    for reply in replies:  # the name of the only argument is forced
        if name == "llama3":  # a call that the caller began is the caller's to read
            assert reply.text == '{"city": "Rome"}}'
        else:
            assert [(call.name, call.arguments) for call in reply.tool_calls] == [("weather", {"city": "Rome"})]
