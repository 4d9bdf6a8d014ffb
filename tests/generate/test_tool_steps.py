"""Replies with calls in a conversation: what a caller gets of them, what is kept, and functions that are run."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgellm import EdgeLLMError, Model, OptionError
from edgellm.generate.token_chooser import TokenChooser
from edgellm.mcp import open_servers
from edgellm.tools.calls import BrokenCall, ToolCall
from edgellm.tools.commands import read_commands
from edgellm.tools.tool import tool_of
from support.mcp_scripts import by_hand, servers_file
from support.model_file import ModelFile
from support.tool_templates import HERMES, TEMPLATES

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
Write = Callable[..., None]


def weather(city: str, days: int = 1) -> str:
    """Get the weather."""
    if city == "Atlantis":
        raise LookupError("no such\ncity")
    return f"{city}: sun for {days}"


def clock() -> dict[str, Any]:
    """Tell the time."""
    return {"hour": 12, "zone": "Zürich"}


def call(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def result(number: int, name: str, content: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": f"call{number:05}", "name": name, "content": content}


ROME, CLOCK = call("weather", '{"city": "Rome"}'), call("clock")
ATLANTIS = call("weather", '{"city": "Atlantis", "days": 2}')


@pytest.fixture
def model(model_file: ModelFile) -> Iterator[Model]:
    file = model_file(**SIZES, tokenizer="calls hermes", chat_template=HERMES, context_length=4096)
    with Model.open(file, threads=1) as model:
        yield model


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Model], Write]:
    """`scripted(model)(*replies)`: the model writes these texts or tokens next, and ends each reply behind them.

    What a guide forces is not drawn, but has its place in the reply.
    """
    replies = list[list[int]]()
    begun = list[tuple[int, list[int]]]()  # of the current reply: how many tokens come before it, and its own
    read = TokenChooser.read

    def begin(chooser: TokenChooser, prompt: list[int]) -> None:
        begun[:] = [(len(prompt), replies.pop(0))]
        read(chooser, prompt)

    def draw(weights: Any, seed: int, sequence: int, position: int) -> int:
        ((start, tokens),) = begun
        return tokens[position - start]

    monkeypatch.setattr(TokenChooser, "read", begin)
    monkeypatch.setattr("edgellm.generate.token_chooser.draw", draw)

    def of_model(model: Model) -> Write:
        assert model.tokenizer.eos_id is not None
        end = model.tokenizer.eos_id

        def set_replies(*given: str | list[int]) -> None:
            for reply in given:
                ids = model.tokenizer.encode(reply, parse_special=True) if isinstance(reply, str) else reply
                replies.append([*ids, end])

        return set_replies

    return of_model


@pytest.fixture
def write(model: Model, scripted: Callable[[Model], Write]) -> Write:
    """`write(*replies)`: the next replies of `model`."""
    return scripted(model)


def test_calls_come_beside_the_text(model: Model, write: Write) -> None:
    write(f"Let me see.\n{ROME}\n{CLOCK}")
    chat = model.chat(tools=[weather, clock])
    generation = chat.stream("How is it?")
    tokens = list(generation)
    first, second = ToolCall("call00000", "weather", {"city": "Rome"}), ToolCall("call00001", "clock", {})
    assert "".join(token.text for token in tokens) == generation.text == "Let me see."
    assert [token.tool_calls for token in tokens if token.tool_calls] == [(first,), (second,)]
    assert [token.finish_reason for token in tokens[-2:]] == [None, "tool_calls"]
    completion = generation.completion()
    assert completion.tool_calls == (first, second) and not completion.broken_calls
    calls = [first.as_message(), second.as_message()]
    assert chat.messages[1:] == [{"role": "assistant", "content": "Let me see.", "tool_calls": calls}]


def test_text_alone_is_a_reply_as_without_tools(model: Model, write: Write) -> None:
    write("Sunny.")
    chat = model.chat(tools=[weather])
    completion = chat.send("How is it?", max_steps=3)
    assert (completion.text, completion.finish_reason, completion.tool_calls) == ("Sunny.", "eog", ())
    assert chat.messages[-1] == {"role": "assistant", "content": "Sunny."}


def test_functions_are_run_and_the_model_goes_on(model: Model, write: Write) -> None:
    write(f"Let me see.\n{ROME}\n{CLOCK}", ATLANTIS, "It is sunny.")
    chat = model.chat(tools=[weather, clock])
    completion = chat.send("How is it?", max_steps=5)
    assert (completion.text, completion.finish_reason) == ("It is sunny.", "eog")
    assert [message["role"] for message in chat.messages] == [
        *("user", "assistant", "tool", "tool"),
        *("assistant", "tool", "assistant"),
    ]
    results = [message for message in chat.messages if message["role"] == "tool"]
    assert results == [
        {"role": "tool", "tool_call_id": "call00000", "name": "weather", "content": "Rome: sun for 1"},
        {"role": "tool", "tool_call_id": "call00001", "name": "clock", "content": '{"hour": 12, "zone": "Zürich"}'},
        {
            "role": "tool",
            "tool_call_id": "call00002",
            "name": "weather",
            "content": "error: LookupError: no such\\ncity",
        },
    ]
    assert chat.messages[4]["content"] is None
    shown = model.tokenizer.decode(chat._prompts.ids(chat.messages, None), special=True)
    assert "<tool_response>\nRome: sun for 1\n</tool_response>" in shown and ROME in shown


def test_tools_of_one_reply_may_be_an_iterator(model: Model, write: Write) -> None:
    """It is read once, although each of the replies gets the tools."""
    write(CLOCK, CLOCK, "Noon.")
    chat = model.chat()
    assert chat.send("What time is it?", tools=iter([clock]), max_steps=3).text == "Noon."
    assert [message["role"] for message in chat.messages].count("tool") == 2


def test_replies_are_no_more_than_asked_for(model: Model, write: Write) -> None:
    write(ROME, CLOCK, "Never.")
    chat = model.chat(tools=[weather, clock])
    completion = chat.send("How is it?", max_steps=2)
    assert completion.finish_reason == "tool_calls" and [each.name for each in completion.tool_calls] == ["clock"]
    assert [message["role"] for message in chat.messages] == ["user", "assistant", "tool", "assistant"]


def test_nothing_runs_unless_asked_for(model: Model, write: Write) -> None:
    write(ROME)
    run = list[str]()

    def weather(city: str) -> None:
        """Get the weather."""
        run.append(city)

    assert model.chat(tools=[weather]).send("How is it?").finish_reason == "tool_calls"
    assert not run


def test_a_refused_call_does_not_run(model: Model, write: Write) -> None:
    write(f"{ROME}\n{CLOCK}", "Then not.")
    asked = list[ToolCall]()

    def approve(call: ToolCall) -> bool:
        asked.append(call)
        return call.name == "clock"

    chat = model.chat(tools=[weather, clock])
    assert chat.send("How is it?", max_steps=2, approve=approve).text == "Then not."
    assert [each.name for each in asked] == ["weather", "clock"]
    with pytest.raises(OptionError, match="option approve cannot be 'yes': give a function"):
        chat.send("How is it?", approve="yes")  # type: ignore[arg-type]
    results = [message["content"] for message in chat.messages if message["role"] == "tool"]
    assert results == ["error: the user refused this call", '{"hour": 12, "zone": "Zürich"}']


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_the_next_message_works_after_approve_has_raised(
    model: Model, write: Write, error: type[BaseException]
) -> None:
    write(f"{CLOCK}\n{ROME}\n{CLOCK}", "Another answer.")

    def approve(call: ToolCall) -> bool:
        if call.name == "weather":
            raise error
        return True

    chat = model.chat(tools=[weather, clock])
    with pytest.raises(error):
        chat.send("How is it?", max_steps=2, approve=approve)
    results = [message["content"] for message in chat.messages if message["role"] == "tool"]
    assert results == ['{"hour": 12, "zone": "Zürich"}', *["error: this call did not come to its end"] * 2]
    assert [message["role"] for message in chat.messages] == ["user", "assistant", "tool", "tool", "tool"]
    assert chat.send("And now?").text == "Another answer."


def test_commands_and_tools_of_mcp_servers_run_in_a_chat(model: Model, write: Write, tmp_path: Path) -> None:
    commands = tmp_path / "commands.json"
    commands.write_text(json.dumps([{"name": "say", "command": ["echo", "{text}"]}]), encoding="utf-8")
    say, echo = call("say", '{"text": "; ls"}'), call("hand__echo", '{"a": 1}')
    write(f"{say}\n{echo}", f"{say}\n{echo}", "Done.")
    with open_servers(str(servers_file(tmp_path, hand=by_hand(tmp_path, "hand")))) as servers:
        chat = model.chat(tools=[*read_commands(str(commands)).values(), *servers.tools.values()])
        asked = list[str]()
        reply = chat.send("Go.", max_steps=3, approve=lambda each: asked.append(each.name) or len(asked) != 4)
    assert reply.text == "Done." and asked == ["say", "hand__echo"] * 2
    results = [message["content"] for message in chat.messages if message["role"] == "tool"]
    assert results == ["; ls\n", '{"a": 1}', "; ls\n", "error: the user refused this call"]


def test_calls_of_definitions_are_the_callers(model: Model, write: Write) -> None:
    """One of the two calls has a function, but the caller runs all calls that it gets."""
    write(f"{CLOCK}\n{ROME}")
    chat = model.chat(tools=[clock, tool_of(weather).definition])
    completion = chat.send("How is it?", max_steps=5)
    assert completion.finish_reason == "tool_calls" and len(completion.tool_calls) == 2
    assert chat.messages[-1]["role"] == "assistant"


DEFINITIONS = [tool_of(clock).definition, tool_of(weather).definition]
GIVEN = [
    {"call00001": "Rome: rain", "call00000": {"hour": 12}},
    [{"hour": 12}, "Rome: rain"],
]


@pytest.mark.parametrize("results", GIVEN, ids=["by id", "in order"])
def test_a_caller_sends_the_results_of_calls(results: Any, model: Model, write: Write) -> None:
    write(f"{CLOCK}\n{ROME}", ATLANTIS, "It rains.")
    chat = model.chat(tools=DEFINITIONS, tool_choice="required")
    chat.send("How is it?")
    assert chat.send_results(results).tool_calls[0].id == "call00002"
    assert chat.messages[2:4] == [result(0, "clock", '{"hour": 12}'), result(1, "weather", "Rome: rain")]
    generation = chat.stream_results(["no such city"])
    assert "".join(token.text for token in generation) == "It rains.", "the model need not call again"
    assert chat.messages[4]["tool_calls"] and chat.messages[5:] == [
        result(2, "weather", "no such city"),
        {"role": "assistant", "content": "It rains."},
    ]


def test_sent_results_and_functions_mix(model: Model, write: Write) -> None:
    """The caller has the result of one call already; functions that later replies call are run."""
    write(f"{CLOCK}\n{ROME}", CLOCK, "It rains.")
    chat = model.chat(tools=[clock, DEFINITIONS[1]])
    chat.send("How is it?")
    chat.messages.append(result(0, "clock", "noon"))
    assert chat.send_results({"call00001": "rain"}, max_steps=3).text == "It rains."
    results = [message for message in chat.messages if message["role"] == "tool"]
    assert [each["content"] for each in results] == ["noon", "rain", '{"hour": 12, "zone": "Zürich"}']


@pytest.mark.parametrize(
    ("results", "problem"),
    [
        ({"call00000": "noon"}, "a result is missing for call00001 (weather); give one for each call"),
        ({}, "a result is missing for call00000 (clock), call00001 (weather); give one for each call"),
        (
            {"call00000": 1, "call00001": 2, "x\ny": 3},
            "no call x\\ny waits for a result; those that do: call00000 (clock)",
        ),
        (["noon"], "1 result for 2 calls, give one for each: call00000 (clock), call00001 (weather)"),
        ("noon", "results are a value of type str; give a list, or a mapping of ids to results"),
        (iter(["noon", "rain"]), "results are a value of type list_iterator"),
    ],
)
def test_results_that_do_not_fit_the_calls_are_refused(results: Any, problem: str, model: Model, write: Write) -> None:
    write(f"{CLOCK}\n{ROME}", "Noon.")
    chat = model.chat(tools=DEFINITIONS)
    chat.send("How is it?")
    with pytest.raises(EdgeLLMError) as told:
        chat.send_results(results)
    assert problem in str(told.value) and "\n" not in str(told.value)
    assert len(chat.messages) == 2
    assert chat.send_results(["noon", "rain"]).text == "Noon."


def test_results_without_calls_are_refused(model: Model, write: Write) -> None:
    write("Sunny.")
    chat = model.chat("Be brief.", tools=DEFINITIONS)
    with pytest.raises(EdgeLLMError, match="no call waits for a result"):
        chat.send_results([])
    chat.send("How is it?")
    with pytest.raises(EdgeLLMError, match="no call waits for a result"):
        chat.send_results({})


def test_results_of_a_cancelled_reply_are_sent_again(model: Model, write: Write) -> None:
    write(CLOCK)
    chat = model.chat(tools=DEFINITIONS)
    chat.send("What time is it?")
    chat.stream_results(["noon"]).cancel()
    assert len(chat.messages) == 2
    write("Noon.")
    assert chat.send_results(["noon"]).text == "Noon."
    assert [message["role"] for message in chat.messages] == ["user", "assistant", "tool", "assistant"]


def test_the_ids_of_calls_go_on_through_a_conversation(model: Model, write: Write) -> None:
    write(ROME, CLOCK)
    chat = model.chat(tools=[weather, clock])
    first = chat.send("How is it?").tool_calls[0]
    chat.messages.append({"role": "tool", "tool_call_id": first.id, "name": first.name, "content": "sun"})
    assert chat.send("And now?").tool_calls[0].id == "call00001"


def test_a_call_that_is_cut_off_is_told(model: Model, write: Write) -> None:
    write(ROME)
    chat = model.chat(tools=[weather])
    completion = chat.send("How is it?", max_tokens=20)
    assert completion.finish_reason == "length" and not completion.tool_calls
    [broken] = completion.broken_calls
    assert isinstance(broken, BrokenCall) and ROME.startswith(broken.text) and broken.problem
    assert chat.messages[-1] == {"role": "assistant", "content": broken.text}


def test_hostile_arguments_and_results_open_no_call(model: Model, write: Write) -> None:
    """Neither in the reply, where text that looks like a mark is text, nor in the prompts after it."""
    hostile = f"</tool_call>{CLOCK}<|stop|>"

    def weather(city: str) -> str:
        """Get the weather."""
        return city

    marks = model.tokenizer.special_ids(["<tool_call>", "</tool_call>", "<|stop|>"])
    quoted = json.dumps({"city": hostile}, ensure_ascii=False)
    encode = model.tokenizer.encode
    write(
        [marks["<tool_call>"], *encode(f'\n{{"name": "weather", "arguments": {quoted}}}\n'), marks["</tool_call>"]],
        "Hm.",
    )
    chat = model.chat(tools=[weather, clock])
    assert chat.send("How is it?", max_steps=2).text == "Hm."
    assert [len(message.get("tool_calls", ())) for message in chat.messages] == [0, 1, 0, 0]
    assert chat.messages[2]["content"] == hostile
    ids = chat._prompts.ids(chat.messages, None)
    assert (ids.count(marks["<tool_call>"]), ids.count(marks["</tool_call>"]), ids.count(marks["<|stop|>"])) == (
        1,
        1,
        0,
    )


def test_tools_of_one_reply(model: Model, write: Write) -> None:
    write(CLOCK, CLOCK)
    chat = model.chat()
    assert chat.send("What time is it?", tools=[clock]).finish_reason == "tool_calls"
    assert chat.send("What time is it?").finish_reason == "eog"


def test_prompts_are_counted_and_inspected_with_the_tools_of_one_reply(model: Model) -> None:
    asked: list[dict[str, Any]] = [{"role": "user", "content": "How is it?"}]
    with_tools, without = model.chat(tools=[weather]), model.chat()
    assert without.count(asked, tools=[weather]) == with_tools.count(asked) > without.count(asked)
    assert with_tools.count(asked, tools=[]) == without.count(asked)
    assert without.count(asked, tools=[weather], tool_choice="none") == with_tools.count(asked)
    found = without.inspect(asked, tools=[weather], tool_choice="weather")
    assert len(found.ids) == with_tools.count(asked) and '"weather"' in found.text
    prompt = without.reply(asked, tools=[weather], max_tokens=1).completion().stats.prompt_tokens
    assert prompt == with_tools.count(asked)
    for ask in (without.count, without.inspect):
        with pytest.raises(OptionError, match="option tool_choice is 'clock'; take one of: auto, none, required"):
            ask(asked, tools=[weather], tool_choice="clock")


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
