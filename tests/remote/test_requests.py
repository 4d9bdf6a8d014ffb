"""Bodies of requests: what is sent for which options to which server."""

import json
from typing import Any

import pytest

from edgellm.errors import OptionError
from edgellm.remote.dialects import ServerFields, dialect_of
from edgellm.remote.messages import sent_messages
from edgellm.remote.requests import RequestOptions, chat_body, completion_body

ASKED = [{"role": "user", "content": "Hi"}]
OURS, VLLM, LLAMA, OTHER, OPENAI = (
    *(dialect_of(owner, False) for owner in ("edgellm", "vllm", "llamacpp", "me")),
    dialect_of("system", True),
)


def body(dialect: ServerFields = OTHER, **options: Any) -> dict[str, Any]:
    sent = chat_body(ASKED, RequestOptions(options), dialect)
    assert sent.pop("messages") == ASKED
    return sent


def test_only_options_that_are_given_are_sent() -> None:
    assert body() == body(temp=None, stop=(), tools=None, partial=False, logprobs=False, template_args={}) == {}
    assert body(temp=0.8, top_p=0.95, seed=0, max_tokens=5, stop=["x"]) == {
        "temperature": 0.8,  # the default of edgellm, which is not that of the server
        "top_p": 0.95,
        "seed": 0,
        "max_tokens": 5,
        "stop": ["x"],
    }


def test_a_bias_that_json_does_not_have() -> None:
    assert json.loads(json.dumps(body(logit_bias={7: -float("inf"), 8: 2.5}))) == {
        "logit_bias": {"7": -100.0, "8": 2.5}
    }


@pytest.mark.parametrize(
    ("dialect", "sent"),
    [
        (OURS, {"repeat_penalty": 1.1, "penalty_last_n": 32, "think_max": 9}),
        (LLAMA, {"repeat_penalty": 1.1, "repeat_last_n": 32}),
        (VLLM, {"repetition_penalty": 1.1}),
        (OTHER, {"repetition_penalty": 1.1}),
        (OPENAI, {}),
    ],
)
def test_servers_have_names_of_their_own(dialect: ServerFields, sent: dict[str, Any]) -> None:
    given = {"repeat_penalty": 1.1, "penalty_last_n": 32, "think_max": 9}
    found: dict[str, Any] = {}
    refused = set()
    for name, value in given.items():
        try:
            found |= body(dialect, **{name: value})
        except OptionError as error:
            refused.add(name)
            assert name in str(error)
    assert found == sent and len(refused) == len(given) - len(sent)


def test_openai_has_another_limit_for_chats_alone() -> None:
    assert body(OPENAI, max_tokens=5) == {"max_completion_tokens": 5}
    assert completion_body("Hi", RequestOptions({"max_tokens": 5}), OPENAI) == {"prompt": "Hi", "max_tokens": 5}


def test_a_json_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    for given in (schema, json.dumps(schema)):
        form = body(json_schema=given)["response_format"]
        assert form == {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}}


@pytest.mark.parametrize(
    ("dialect", "option", "value", "sent"),
    [
        (OURS, "regex", "a|b", {"regex": "a|b"}),
        (OURS, "grammar", "start: /x/", {"grammar": "start: /x/"}),
        (OURS, "choices", ("a.b", "c d", "(e|\\"), {"regex": r"(a\.b|c d|\(e\|\\)"}),
        (VLLM, "regex", "a|b", {"structured_outputs": {"regex": "a|b"}}),
        (VLLM, "choices", ("a.b", "c"), {"structured_outputs": {"choice": ["a.b", "c"]}}),
        (VLLM, "grammar", "start: /x/", {"structured_outputs": {"grammar": "start: /x/"}}),
        (LLAMA, "choices", ("red", '"\\'), {"grammar": r'root ::= "red" | "\"\\"'}),
        (LLAMA, "grammar", 'root ::= "x"', {"grammar": 'root ::= "x"'}),
    ],
)
def test_other_forms(dialect: ServerFields, option: str, value: Any, sent: dict[str, Any]) -> None:
    assert body(dialect, **{option: value}) == sent


def test_a_begun_reply_is_the_last_message_as_it_is() -> None:
    begun = "<think>\nhm\n</think>\n\nHe"
    for dialect in (OURS, VLLM):
        sent = chat_body(ASKED, RequestOptions({}), dialect, begun)
        assert sent.pop("messages") == [*ASKED, {"role": "assistant", "content": begun}]
        assert sent == {"continue_final_message": True, "add_generation_prompt": False}
    with pytest.raises(OptionError, match="begun is not known"):
        chat_body(ASKED, RequestOptions({}), LLAMA, begun)


@pytest.mark.parametrize(("dialect", "option"), [(LLAMA, "regex"), (OTHER, "regex"), (OPENAI, "grammar")])
def test_a_form_that_a_server_has_no_field_for_is_refused(dialect: ServerFields, option: str) -> None:
    with pytest.raises(OptionError, match=f"option {option}"):
        body(dialect, **{option: "x"})


def test_variables_of_the_template_and_the_effort_of_thinking() -> None:
    assert body(template_args={"enable_thinking": False, "reasoning_effort": "low"}) == {
        "chat_template_kwargs": {"enable_thinking": False},
        "reasoning_effort": "low",
    }


DEFINITION = {"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, {}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        ({"tool_choice": "f"}, {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    ],
)
def test_tools(options: dict[str, Any], sent: dict[str, Any]) -> None:
    found = body(tools=[DEFINITION], **options)
    assert found.pop("tools")[0]["function"]["name"] == "f"
    assert found == sent


@pytest.mark.parametrize(
    "options",
    [{"overflow": "drop"}, {"special": True}, {"tools": [DEFINITION], "regex": "x"}, {"temp": -1}, {"nonsense": 1}],
)
def test_what_cannot_be_asked_of_a_server(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        body(OURS, **options)


def test_thoughts_of_earlier_turns_are_not_sent() -> None:
    call = {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": {"a": "ä"}}}
    calling = {"role": "assistant", "content": "<think>\nwhich?\n</think>\n\n", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "call00000", "name": "f", "content": "42"}
    answer = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nSo."}
    system, question = {"role": "system", "content": "Be brief"}, {"role": "user", "content": "?"}
    sent_call = {**call, "function": {"name": "f", "arguments": '{"a": "ä"}'}}
    sent_result = {"role": "tool", "tool_call_id": "call00000", "content": "42"}
    assert sent_messages([system, question, calling, result, answer, question]) == [
        system,
        question,
        {"role": "assistant", "content": None, "tool_calls": [sent_call]},
        sent_result,
        {"role": "assistant", "content": "So."},
        question,
    ]
    # within a turn the model goes on from what it thought
    assert sent_messages([question, calling, result])[1]["reasoning_content"] == "which?"
