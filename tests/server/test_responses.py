"""/v1/responses with OpenAI's own client, and /v1/messages of Anthropic's API, against small models."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from edgellm import Model
from support.model_file import ModelFile
from support.served import TIMEOUT_S, Served, served
from support.tool_templates import TEMPLATES

openai = pytest.importorskip("openai")

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "Paint"}]
COLORS: dict[str, Any] = {
    "type": "object",
    "properties": {"color": {"enum": ["red", "blue"]}},
    "required": ["color"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "name": "paint", "description": "Paint", "parameters": COLORS}
ANTHROPIC_TOOL = {"name": "paint", "description": "Paint", "input_schema": COLORS}
THINKER = TEMPLATES["hermes"].replace("assistant\\n' }}{% endif %}", "assistant\\n<think>\\n' }}{% endif %}")
COLOR_TEXTS = ('{"color": "red"}', '{"color": "blue"}')


@pytest.fixture(scope="module")
def paths(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two models: the template of the second opens a thought."""
    found = []
    for name, template in (("small", TEMPLATES["hermes"]), ("thinker", THINKER)):
        file = model_file(**SIZES, tokenizer="calls hermes", chat_template=template, context_length=4096, vocab=384)
        found.append(tmp_path_factory.mktemp("served") / f"{name}.gguf")
        found[-1].symlink_to(file)
    return found


@pytest.fixture(scope="module")
def model(paths: list[Path]) -> Iterator[Model]:
    with Model.open(paths[0], threads=1) as found:
        yield found


@pytest.fixture(scope="module")
def server(paths: list[Path]) -> Iterator[Served]:
    with served(*paths) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def respond(client: Any, **given: Any) -> Any:
    seed = {"seed": 3, **given.pop("extra_body", {})}
    return client.responses.create(
        **{"model": "small", "input": "Paint", "max_output_tokens": 12, "extra_body": seed, **given}
    )


def test_a_response_is_that_of_python(client: Any, model: Model) -> None:
    found = respond(client, instructions="S", temperature=0.9)
    messages = [{"role": "system", "content": "S"}, *QUESTION]
    expected = model.chat().reply(messages, max_tokens=12, seed=3, temp=0.9).completion()
    assert (found.output_text, found.status, found.temperature) == (expected.text, "incomplete", 0.9)
    assert found.incomplete_details.reason == "max_output_tokens"
    assert (found.usage.input_tokens, found.usage.output_tokens) == (expected.stats.prompt_tokens, 12)


def test_a_stream_has_the_same_items(client: Any) -> None:
    whole, deltas, final = respond(client), "", None
    for number, event in enumerate(respond(client, stream=True)):
        assert event.sequence_number == number
        deltas += event.delta if event.type == "response.output_text.delta" else ""
        final = event
    assert deltas == whole.output_text and final.type == "response.incomplete"
    assert final.response.output_text == whole.output_text


def test_log_probabilities(client: Any, model: Model) -> None:
    asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "temperature": 0}
    (part,) = respond(client, **asked).output[0].content
    reply = model.chat().reply(QUESTION, max_tokens=12, temp=0, logprobs=2).completion()
    expected = [each for each in reply.logprobs or () if model.tokenizer.token_bytes(each.id)]  # the others: no text
    assert [entry.logprob for entry in part.logprobs] == [each.logprob for each in expected] != []
    assert all(len(entry.top_logprobs) == 2 for entry in part.logprobs)
    events = list(respond(client, stream=True, **asked))
    deltas = [entry for e in events if e.type == "response.output_text.delta" for entry in e.logprobs]
    assert [(entry.token, entry.logprob) for entry in deltas] == [(e.token, e.logprob) for e in part.logprobs]
    done = next(event for event in events if event.type == "response.output_text.done")
    assert [entry.token for entry in done.logprobs] == [entry.token for entry in part.logprobs]
    assert respond(client, include=["reasoning.encrypted_content"]).output[0].content[0].logprobs == []


def test_a_call_and_its_output(client: Any) -> None:
    given = {"tools": [TOOL], "tool_choice": {"type": "function", "name": "paint"}, "max_output_tokens": 200}
    found = respond(client, parallel_tool_calls=False, **given)
    (call,) = found.output
    assert (call.type, call.name, found.status) == ("function_call", "paint", "completed")
    assert call.arguments in COLOR_TEXTS
    streamed = list(respond(client, parallel_tool_calls=False, stream=True, **given))
    done = next(event for event in streamed if event.type == "response.function_call_arguments.done")
    assert (done.arguments, done.name) == (call.arguments, "paint")
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
    items = [*QUESTION, call.model_dump(exclude_none=True), output]
    again = respond(client, input=items, tools=[TOOL], tool_choice="none")
    assert again.output_text


def test_a_response_in_json(client: Any) -> None:
    form = {"format": {"type": "json_schema", "name": "paint", "schema": COLORS, "strict": True}}
    assert respond(client, text=form, max_output_tokens=60).output_text in COLOR_TEXTS


def test_thoughts_come_apart(client: Any, server: Served) -> None:
    """The prompt opens a thought, and `think_max` closes it."""
    body = {"think_max": 3, "seed": 3}
    reasoning, message = respond(client, model="thinker", extra_body=body, max_output_tokens=40).output
    assert reasoning.type == "reasoning" and message.type == "message" and message.content[0].text
    chat = client.chat.completions.create(model="thinker", messages=QUESTION, max_tokens=40, extra_body=body)
    found = chat.choices[0].message
    assert (found.reasoning_content, found.content) == (reasoning.content[0].text, message.content[0].text)
    assert 3 <= chat.usage.completion_tokens_details.reasoning_tokens < 40
    thinking = {"type": "enabled", "budget_tokens": 3}
    blocks = ask(server, model="thinker", thinking=thinking, max_tokens=40).json()["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text"]
    assert "<think>" not in found.content + found.reasoning_content


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": "x" * 9000}, "input"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"top_logprobs": 2}, "top_logprobs"),
    ],
)
def test_errors_name_the_field(client: Any, given: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        respond(client, extra_body=given)
    assert caught.value.param == param


def ask(server: Served, **given: Any) -> httpx.Response:
    body = {"model": "small", "messages": QUESTION, "max_tokens": 12, **given}
    return httpx.post(f"{server.url}/v1/messages", json=body, timeout=TIMEOUT_S)


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """The events of a stream, whose names are those of their types."""
    found = []
    for block in answer.text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_a_message_is_that_of_python(server: Served, model: Model) -> None:
    found = ask(server, system=[{"type": "text", "text": "S"}], temperature=0).json()
    messages = [{"role": "system", "content": "S"}, *QUESTION]
    expected = model.chat().reply(messages, max_tokens=12, temp=0).completion()
    assert (found["content"], found["stop_reason"]) == ([{"type": "text", "text": expected.text}], "max_tokens")
    usage = found["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == expected.stats.prompt_tokens
    assert usage["output_tokens"] == 12
    stop = expected.text[3:5]
    stopped = ask(server, system="S", temperature=0, stop_sequences=[stop]).json()
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", stop)


def test_a_message_as_a_stream(server: Served) -> None:
    events = events_of(ask(server, temperature=0, stream=True))
    types = [event["type"] for event in events]
    assert types[:2] == ["message_start", "content_block_start"]
    assert types[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    text = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
    assert text == ask(server, temperature=0).json()["content"][0]["text"]
    assert events[-2]["delta"]["stop_reason"] == "max_tokens" and events[-2]["usage"]["output_tokens"] == 12


def test_a_tool_is_used(server: Served) -> None:
    choice = {"type": "tool", "name": "paint", "disable_parallel_tool_use": True}
    given = {"tools": [ANTHROPIC_TOOL], "max_tokens": 200}
    found = ask(server, tool_choice=choice, **given).json()
    (block,) = found["content"]
    assert (block["type"], block["name"], found["stop_reason"]) == ("tool_use", "paint", "tool_use")
    assert block["input"] in ({"color": "red"}, {"color": "blue"})
    events = events_of(ask(server, tool_choice=choice, stream=True, **given))
    arguments = next(event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta")
    assert arguments in COLOR_TEXTS
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": [{"type": "text", "text": "done"}]}
    messages = [*QUESTION, {"role": "assistant", "content": found["content"]}, {"role": "user", "content": [result]}]
    assert ask(server, messages=messages, tools=[ANTHROPIC_TOOL]).status_code == 200


def test_a_reply_that_was_begun(server: Served, model: Model) -> None:
    messages = [*QUESTION, {"role": "assistant", "content": "wall"}]
    expected = model.chat().reply(QUESTION, begun="wall", max_tokens=12, temp=0).completion().text
    assert ask(server, messages=messages, temperature=0).json()["content"][0]["text"] == expected


@pytest.mark.parametrize(
    ("given", "status", "kind", "words"),
    [
        ({"model": "other"}, 404, "not_found_error", "there is no model"),
        ({"max_tokens": None}, 400, "invalid_request_error", "max_tokens is missing"),
        ({"messages": []}, 400, "invalid_request_error", "at least one message"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image"}]}]},
            400,
            "invalid_request_error",
            "not supported",
        ),
        ({"temperature": -1}, 400, "invalid_request_error", "temperature cannot be -1"),
        ({"mcp_servers": []}, 400, "invalid_request_error", "not supported: mcp_servers"),
    ],
)
def test_errors_of_messages(server: Served, given: dict[str, Any], status: int, kind: str, words: str) -> None:
    found = ask(server, **given)
    error = found.json()
    assert (found.status_code, error["type"], error["error"]["type"]) == (status, "error", kind)
    assert words in error["error"]["message"]
