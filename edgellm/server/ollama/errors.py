"""Errors as ollama's API has them."""

from edgellm.server.endpoint import Dialect
from edgellm.server.failures import RequestError
from edgellm.server.openapi.answers import OLLAMA_ERROR

_FIELDS = {
    "prompt": "prompt",
    "temp": "options.temperature",
    "json_schema": "format",
    "max_tokens": "options.num_predict",
    "penalty_last_n": "options.repeat_last_n",
}


def error_text(error: RequestError) -> dict[str, str]:
    """The object with the message alone."""
    return {"error": error.message}


OLLAMA = Dialect(error_text, _FIELDS, OLLAMA_ERROR)
