"""/v1/chat/completions, with the calls of OpenAI's own client, against a small model."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from edgellm import Model
from support.served import Served

openai = pytest.importorskip("openai")
jsonschema = pytest.importorskip("jsonschema")

QUESTION = [{"role": "user", "content": "Paint"}]
PAINT: dict[str, Any] = {
    "type": "object",
    "properties": {"color": {"enum": ["red", "blue"]}, "dry": {"type": "boolean"}},
    "required": ["color", "dry"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "paint", "description": "Paint", "parameters": PAINT, "strict": True}}
NAME = "small"


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def ask(client: Any, **given: Any) -> Any:
    return client.chat.completions.create(**{"model": NAME, "messages": QUESTION, "max_tokens": 12, "seed": 3, **given})


def ending(model: Model) -> dict[str, float]:
    """Biases with which random replies soon end."""
    return {str(token): 4.0 for token in model.tokenizer.eog_ids}


def test_a_reply_is_that_of_python(client: Any, model: Model) -> None:
    found = ask(client, temperature=0.9, top_p=0.8)
    expected = model.chat().reply(QUESTION, max_tokens=12, seed=3, temp=0.9, top_p=0.8).completion()
    choice = found.choices[0]
    assert (choice.message.content, choice.message.role) == (expected.text, "assistant")
    assert choice.finish_reason == "length" == expected.finish_reason
    assert found.usage.prompt_tokens == expected.stats.prompt_tokens
    assert (found.usage.completion_tokens, found.model, found.object) == (12, NAME, "chat.completion")


def test_a_stream_has_the_same_text(client: Any) -> None:
    whole = ask(client)
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert deltas[0].role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == whole.usage.total_tokens
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_repeated_prompt_is_cached(client: Any) -> None:
    ask(client, messages=[{"role": "user", "content": "Once and again"}])
    usage = ask(client, messages=[{"role": "user", "content": "Once and again"}]).usage
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1


def test_several_replies(client: Any) -> None:
    found = ask(client, n=3, temperature=1)
    assert [choice.index for choice in found.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in found.choices}) == 3
    assert found.choices[1].message.content == ask(client, seed=4, temperature=1).choices[0].message.content
    assert found.usage.completion_tokens == 36
    assert found.usage.prompt_tokens == ask(client).usage.prompt_tokens


def test_a_stop_string_is_left_out(client: Any) -> None:
    text = ask(client).choices[0].message.content
    stop = text[4:6]
    found = ask(client, stop=[stop, "\0"]).choices[0]
    assert found.message.content == text[: text.index(stop)] and found.finish_reason == "stop"


def test_log_probabilities(client: Any, model: Model) -> None:
    found = ask(client, logprobs=True, top_logprobs=2, temperature=0)
    content = found.choices[0].logprobs.content
    reply = model.chat().reply(QUESTION, max_tokens=12, temp=0, logprobs=2).completion()
    expected = [each for each in reply.logprobs or () if model.tokenizer.token_bytes(each.id)]  # the others: no text
    assert [entry.logprob for entry in content] == [each.logprob for each in expected] != []
    assert bytes(byte for entry in content for byte in entry.bytes).decode(errors="replace") == reply.text
    assert all(len(entry.top_logprobs) == 2 for entry in content)
    assert content[0].top_logprobs[0].logprob == content[0].logprob
    streamed = [c.choices[0].logprobs for c in ask(client, stream=True, logprobs=True, temperature=0) if c.choices]
    assert [entry.logprob for each in streamed if each for entry in each.content] == [e.logprob for e in content]


def test_a_bias_forces_a_token(client: Any, model: Model) -> None:
    (token,) = model.tokenizer.encode("x")
    assert ask(client, logit_bias={str(token): 100}).choices[0].message.content == "x" * 12


@pytest.mark.parametrize("stream", [False, True])
def test_a_required_call_is_valid(client: Any, model: Model, stream: bool) -> None:
    given = {"tools": [TOOL], "tool_choice": "required", "max_tokens": 400, "logit_bias": ending(model)}
    found = ask(client, stream=stream, **given)
    if stream:
        chunks = [chunk.choices[0] for chunk in found if chunk.choices]
        entries = [entry for choice in chunks for entry in choice.delta.tool_calls or ()]
        assert [entry.index for entry in entries] == list(range(len(entries)))
        calls, reason = [entry.function for entry in entries], chunks[-1].finish_reason
    else:
        calls, reason = [c.function for c in found.choices[0].message.tool_calls], found.choices[0].finish_reason
    assert calls and reason == "tool_calls"
    for call in calls:
        assert call.name == "paint"
        jsonschema.validate(json.loads(call.arguments), PAINT)


def test_one_call_at_most_and_its_result(client: Any, model: Model) -> None:
    given = {"tools": [TOOL], "max_tokens": 400, "logit_bias": ending(model)}
    named = {"type": "function", "function": {"name": "paint"}}
    message = ask(client, parallel_tool_calls=False, tool_choice=named, **given).choices[0].message
    assert len(message.tool_calls) == 1
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "done"}
    again = ask(client, messages=[*QUESTION, message, result], tools=[TOOL], tool_choice="none")
    assert again.choices[0].message.tool_calls is None and again.choices[0].message.content


def test_a_reply_in_json(client: Any, model: Model) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "paint", "schema": PAINT, "strict": True}}
    jsonschema.validate(json.loads(ask(client, response_format=form, max_tokens=99).choices[0].message.content), PAINT)
    free = ask(client, response_format={"type": "json_object"}, max_tokens=30).choices[0]
    assert free.finish_reason == "length" or isinstance(json.loads(free.message.content), dict)


def test_a_reply_that_is_cut_off_has_its_beginning(client: Any) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "paint", "schema": PAINT}}
    choice = ask(client, response_format=form, max_tokens=3).choices[0]
    assert choice.finish_reason == "length" and choice.message.content.startswith("{")


def test_parts_of_text_are_joined(client: Any) -> None:
    parts = [{"type": "text", "text": "Pai"}, {"type": "text", "text": "nt"}]
    found = ask(client, messages=[{"role": "user", "content": parts}])
    assert found.choices[0].message.content == ask(client).choices[0].message.content


@pytest.mark.parametrize(
    ("given", "param", "code"),
    [
        ({"model": "other"}, "model", "model_not_found"),
        ({"temperature": -1}, "temperature", "invalid_value"),
        ({"top_p": 2}, "top_p", "invalid_value"),
        ({"n": 0}, "n", "invalid_value"),
        ({"seed": "one"}, "seed", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"logit_bias": {"99999": 1}}, "logit_bias", "invalid_value"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "invalid_value"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tools": [TOOL], "tool_choice": "nothing"}, "tool_choice", "invalid_value"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools", "invalid_value"),
        ({"response_format": {"type": "xml"}}, "response_format.type", "invalid_value"),
        ({"audio": {"voice": "alloy"}}, "audio", "unsupported_parameter"),
        ({"web_search_options": {}}, "web_search_options", "unsupported_parameter"),
        ({"messages": []}, "messages", "missing_required_parameter"),
        ({"messages": [*QUESTION, {"role": "assistant", "content": "No"}]}, "messages", "invalid_value"),
        ({"messages": [{"role": "user"}, {"content": "x"}]}, "messages[1].role", "missing_required_parameter"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role", "invalid_value"),
        ({"messages": [{"role": "user", "content": "x" * 9000}]}, "messages", "context_length_exceeded"),
    ],
)
def test_errors_name_the_field(client: Any, given: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        ask(client, **{"extra_body": given, **({"messages": given["messages"]} if "messages" in given else {})})
    assert caught.value.status_code == (404 if code == "model_not_found" else 400)
    assert (caught.value.param, caught.value.code) == (param, code)
    assert "\n" not in caught.value.body["message"]


def test_images_are_refused(client: Any) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:,"}}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, messages=[{"role": "user", "content": [part]}])
    assert caught.value.param == "messages[0].content[0].type"


def test_the_log_has_no_texts(client: Any, server: Served) -> None:
    server.wait_until_idle()
    lines = len(server.log)
    reply = ask(client, messages=[{"role": "user", "content": "A secret"}]).choices[0].message.content
    server.wait_until(lambda: len(server.log) > lines)  # the line comes behind the answer
    line = next(line for line in reversed(server.log) if "POST /v1/chat/completions 200" in line)
    assert f"model={NAME}" in line and "generated=12" in line
    assert "secret" not in line and reply not in line


def test_a_begun_reply_is_continued_as_python_does(client: Any, model: Model) -> None:
    messages = [*QUESTION, {"role": "assistant", "content": "He says"}]
    flags = {"continue_final_message": True, "add_generation_prompt": False}
    found = ask(client, messages=messages, temperature=0.9, extra_body=flags)
    expected = model.chat().reply(QUESTION, begun="He says", max_tokens=12, seed=3, temp=0.9).completion()
    assert found.choices[0].message.content == expected.text
    assert found.usage.prompt_tokens == expected.stats.prompt_tokens


@pytest.mark.parametrize(
    ("messages", "flags", "words"),
    [
        (QUESTION, {"continue_final_message": True}, "must be from assistant"),
        ([{"role": "assistant", "content": "a"}], {"continue_final_message": True}, "must end with a question"),
        (QUESTION, {"add_generation_prompt": False}, "add_generation_prompt is not supported"),
    ],
)
def test_what_cannot_be_continued(client: Any, messages: Any, flags: dict[str, bool], words: str) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        ask(client, messages=messages, extra_body=flags)
