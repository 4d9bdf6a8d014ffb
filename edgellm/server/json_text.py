"""JSON of clients, and JSON for them."""

import json
from math import isfinite
from typing import Any

from edgellm.errors import OptionError
from edgellm.server.failures import RequestError
from edgellm.text.json_values import json_value


def parsed(content: bytes, what: str) -> Any:
    """The value of a JSON text, `what`, without halves of surrogate pairs. Raises RequestError."""
    try:
        return json_value(json.loads(content, parse_constant=_refuse, parse_float=_finite), what)
    except OptionError as error:
        raise RequestError(400, str(error), code="invalid_json") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"{what} is not JSON: {error}", code="invalid_json") from None


def encoded(value: Any) -> bytes:
    """A value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")


def _finite(digits: str) -> float:
    if not isfinite(number := float(digits)):
        raise ValueError("a number is too large")
    return number
