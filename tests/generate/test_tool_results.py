"""Results that a caller sends to the calls of a reply."""

from typing import Any

import pytest

from edgellm import EdgeLLMError, Model
from edgellm.tools.tool import tool_of
from support.scripted_replies import ATLANTIS, CLOCK, ROME, Write, clock, result, weather


@pytest.fixture
def model(calling_model: Model) -> Model:
    return calling_model


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
