"""Errors of requests: each has an HTTP status, a message, and the field that it is about."""

import re
from collections.abc import Mapping

from edgellm.errors import (
    ContextOverflowError,
    EdgeLLMError,
    NoMemoryError,
    OptionError,
    PromptError,
    UnsupportedModelError,
)
from edgellm.fmt import printable
from edgellm.system.os_errors import explain_error

_OPTION = re.compile(r"(?:\boption |^(?=prompt\b))(\w+)\b")
_RAW = (
    'continue plain text with /v1/completions, with "raw": true in /api/generate, or with '
    "`edgellm generate --server URL --raw`"
)
_WORDS = {"ctx": "--ctx of edgellm serve", "overflow": "fewer messages", "prompt": "some text", "template": _RAW}
_MAX_LENGTH = 2000
RETRY_S = 5
"""Seconds after which a client may ask again when memory is short."""


class RequestError(Exception):
    """A request that gets an error. `param` is the field at fault, `code` a word for programs.

    `retry_after` is in seconds, None where it would not help to ask again.
    """

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.retry_after = status, param, code, retry_after
        self.message = printable(message, _MAX_LENGTH)

    @property
    def headers(self) -> dict[str, str]:
        """The headers that go with the error."""
        return {} if self.retry_after is None else {"retry-after": str(self.retry_after)}


def invalid(param: str, problem: str) -> RequestError:
    """The error about a field: `problem` follows its name."""
    return RequestError(400, f"{param} {problem}", param, "invalid_value")


def failure_of(error: Exception, fields: Mapping[str, str], words: Mapping[str, str] = _WORDS) -> RequestError:
    """What a client is told of an error.

    `fields` has the field of a request for the prompt, and for options with another name; `words` are for settings in
    advice.
    """
    if isinstance(error, RequestError):
        return error
    if isinstance(error, OptionError):
        return _of_option(str(error), fields)
    if isinstance(error, ContextOverflowError):
        return RequestError(400, error.message_with(words), fields["prompt"], "context_length_exceeded")
    if isinstance(error, PromptError):
        return RequestError(400, error.message_with(words), fields["prompt"], "invalid_value")
    if isinstance(error, NoMemoryError):
        return RequestError(503, str(error), code="no_memory", retry_after=RETRY_S)
    if isinstance(error, UnsupportedModelError):
        return RequestError(400, str(error), "model", "unsupported_model")
    if isinstance(error, EdgeLLMError):
        return RequestError(400, str(error), code="invalid_request")
    if problem := explain_error(error):
        return RequestError(503, problem, code="overloaded", retry_after=RETRY_S)
    return RequestError(500, f"an error inside of edgellm: {type(error).__name__}: {error}", code="internal_error")


def _of_option(message: str, fields: Mapping[str, str]) -> RequestError:
    """The error about an option, under the name of the field."""

    def named(option: re.Match[str]) -> str:
        return fields.get(option[1], option[1])

    found = _OPTION.search(message)
    return RequestError(400, _OPTION.sub(named, message), named(found) if found else None, "invalid_value")
