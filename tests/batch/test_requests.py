"""Lines of the input as requests."""

import json
from typing import Any

import pytest

from edgellm.batch.requests import read_request
from edgellm.errors import EdgeLLMError

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


def read(line: Any, number: int = 3) -> Any:
    content = line if isinstance(line, bytes) else json.dumps(line).encode()
    return read_request(content, f"in.jsonl, line {number}", number)


def test_a_line_of_openais_format() -> None:
    found = read({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": CHAT})
    assert (found.custom_id, found.url, found.body) == ("a", "/v1/chat/completions", CHAT)


@pytest.mark.parametrize(
    ("body", "url"),
    [(CHAT, "/v1/chat/completions"), ({"prompt": "Hi"}, "/v1/completions"), ({"input": "Hi"}, "/v1/responses")],
)
def test_a_body_alone(body: dict[str, Any], url: str) -> None:
    assert (read(body).custom_id, read(body).url, read(body).body) == ("line-3", url, body)
    named = read({"custom_id": "a", **body})
    assert (named.custom_id, named.body) == ("a", body)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"prompt": "Hi"', "it is not JSON"),
        (b'{"prompt": "\xff"}', "byte 12 is not UTF-8"),
        (b'{"prompt": NaN}', "NaN"),
        (b"[" * 100_000, "it has more than 200 levels"),
        ([CHAT], "it is no JSON object"),
        ({"text": "Hi"}, "neither url and body, nor one of: messages, prompt, input"),
        ({"custom_id": 5, "prompt": "Hi"}, "custom_id must be text"),
        ({"url": "/v1/embeddings", "body": {}}, "url must be one of: /v1/chat/completions"),
        ({"url": "/v1/completions"}, "body is missing"),
        ({"url": "/v1/completions", "body": "Hi"}, "body must be a JSON object"),
        ({"body": CHAT}, "url is missing"),
        ({"method": "GET", "url": "/v1/completions", "body": {}}, "method is not supported"),
        ({"url": "/v1/completions", "body": {}, "prompt": "Hi"}, "not supported: prompt"),
    ],
)
def test_any_other_line_is_an_error_that_names_it(line: Any, problem: str) -> None:
    with pytest.raises(EdgeLLMError) as raised:
        read(line)
    assert str(raised.value).startswith("in.jsonl, line 3: ")
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)
