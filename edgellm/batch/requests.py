"""A line of the input as a request, in OpenAI's batch format or as the body alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.server.failures import RequestError, invalid
from edgellm.server.fields import Fields
from edgellm.server.json_text import parsed
from edgellm.system.text_input import decode_utf8

URLS = {"messages": "/v1/chat/completions", "prompt": "/v1/completions", "input": "/v1/responses"}
"""The routes of requests, by the field that the bodies of each have."""

_ENVELOPE = ("method", "url", "body")


@dataclass(frozen=True)
class BatchRequest:
    """A request: the route it is for, and its body."""

    custom_id: str
    url: str
    body: Mapping[str, Any]


def read_request(content: bytes, where: str, number: int) -> BatchRequest:
    """The request of line `number`, which `where` names. Raises EdgeLLMError for a line that is none."""
    try:
        if not isinstance(value := parsed(decode_utf8(content).encode(), "it"), dict):
            raise RequestError(400, "it is no JSON object")
        line = Fields(value)
        return (
            _enveloped(line, number) if any(line.get(name) is not None for name in _ENVELOPE) else _bare(line, number)
        )
    except UnicodeDecodeError as error:
        raise EdgeLLMError(f"{where}: byte {error.start} is not UTF-8; convert the file to UTF-8 text") from None
    except RequestError as error:
        raise EdgeLLMError(f"{where}: {error.message}; see edgellm batch --help") from None


def _enveloped(line: Fields, number: int) -> BatchRequest:
    """A line in OpenAI's batch format."""
    line.only("method", "POST")
    custom_id, url = _custom_id(line, number), line.required("url")
    if url not in URLS.values():
        raise invalid("url", f"must be one of: {', '.join(URLS.values())}")
    if (body := line.mapping("body")) is None:
        raise RequestError(400, "body is missing")
    line.finish()
    return BatchRequest(custom_id, url, body)


def _bare(line: Fields, number: int) -> BatchRequest:
    """A line that is the body alone, perhaps with a `custom_id`."""
    url = next((url for field, url in URLS.items() if line.get(field) is not None), None)
    if url is None:
        raise RequestError(400, f"it has neither url and body, nor one of: {', '.join(URLS)}")
    return BatchRequest(_custom_id(line, number), url, line.without("custom_id"))


def _custom_id(line: Fields, number: int) -> str:
    found = line.text("custom_id")
    return f"line-{number}" if found is None else found
