"""JSON of clients, and JSON for them."""

import json
import re
from math import isfinite
from typing import Any

import numpy as np

from edgellm.errors import OptionError
from edgellm.server.failures import RequestError
from edgellm.text.json_values import json_value

_DEEPEST = 200
"""Levels of lists and objects. More could end in a RecursionError, also one of what Python collects as garbage."""

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\Z)', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def parsed(content: bytes, what: str) -> Any:
    """The value of a JSON text, `what`, without halves of surrogate pairs. Raises RequestError."""
    if _depth(content) > _DEEPEST:
        raise RequestError(400, f"{what} has more than {_DEEPEST} levels of lists and objects", code="invalid_json")
    try:
        return json_value(json.loads(content, parse_constant=_refuse, parse_float=_finite), what)
    except OptionError as error:
        raise RequestError(400, str(error), code="invalid_json") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(400, f"{what} is not JSON: {error}", code="invalid_json") from None


def encoded(value: Any) -> bytes:
    """A value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _depth(content: bytes) -> int:
    """The levels of lists and objects in a JSON text, as far as they may be too many."""
    if content.count(b"[") + content.count(b"{") <= _DEEPEST:
        return 0
    brackets = np.frombuffer(_STRINGS.sub(b"", content).translate(None, _NO_BRACKETS), np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    return int(np.cumsum(np.where(opening, 1, -1), dtype=np.int32).max(initial=0))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")


def _finite(digits: str) -> float:
    if not isfinite(number := float(digits)):
        raise ValueError("a number is too large")
    return number
