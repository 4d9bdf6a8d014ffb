"""Errors as Anthropic's API has them."""

from typing import Any

from edgellm.server.endpoint import Dialect
from edgellm.server.failures import RequestError
from edgellm.server.openapi.answers import ANTHROPIC_ERROR

_FIELDS = {"prompt": "messages", "temp": "temperature", "stop": "stop_sequences", "think_max": "thinking.budget_tokens"}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def message_error(error: RequestError) -> dict[str, Any]:
    """The object of an error."""
    kind = _TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": error.message}}


ANTHROPIC = Dialect(message_error, _FIELDS, ANTHROPIC_ERROR, "error")
