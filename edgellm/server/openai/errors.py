"""Errors as OpenAI's API has them."""

from typing import Any

from edgellm.server.endpoint import Dialect
from edgellm.server.failures import RequestError
from edgellm.server.openapi.answers import OPENAI_ERROR

FIELDS = {"prompt": "messages", "temp": "temperature", "json_schema": "response_format"}
"""The fields of the prompt, and of the options of edgellm that have another name."""

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def error_body(error: RequestError) -> dict[str, Any]:
    """The object `error`."""
    kind = _TYPES.get(error.status, "server_error" if error.status >= 500 else "invalid_request_error")
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


OPENAI = Dialect(error_body, FIELDS, OPENAI_ERROR)
COMPLETIONS = Dialect(error_body, {**FIELDS, "prompt": "prompt"}, OPENAI_ERROR)
RESPONSES = Dialect(error_body, {**FIELDS, "prompt": "input", "json_schema": "text.format"}, OPENAI_ERROR, "error")
