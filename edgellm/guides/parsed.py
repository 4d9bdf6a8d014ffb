"""The value of an answer to a JSON schema."""

import json
from typing import Any

from edgellm.errors import AnswerError
from edgellm.fmt import printable
from edgellm.guides.python_types import from_json


def parsed(schema: object, answer: str) -> Any:
    """The value, of the class that the schema is or else of JSON.

    Raises AnswerError for JSON that Python does not read, and for a value that the class refuses by its own code, such
    as a validator of pydantic or `__post_init__`.
    """
    if not isinstance(schema, type):
        return _json(answer)
    validate = getattr(schema, "model_validate_json", None)
    value = None if validate else _json(answer)
    try:
        return validate(answer) if validate else from_json(schema, value)
    except Exception as error:
        name, problem = printable(schema.__name__, 60), printable(_problem(error), 300)
        advice = "read the answer in completion, the attribute of this error"
        raise AnswerError(f"the answer follows the schema, but {name} refuses it ({problem}): {advice}") from error


def _json(answer: str) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError) as error:  # more than 4,300 digits, or some 1,000 levels
        advice = "give the schema limits, or read the text of the answer"
        raise AnswerError(f"the answer is JSON that Python does not read ({printable(str(error))}): {advice}") from None


def _problem(error: Exception) -> str:
    """What is wrong, in one line. Errors of pydantic have a list of faults, and a text of several lines."""
    try:
        faults = error.errors()  # type: ignore[attr-defined]
        return "; ".join(": ".join([*filter(None, [".".join(map(str, each["loc"]))]), each["msg"]]) for each in faults)
    except (AttributeError, KeyError, TypeError):
        return str(error) or type(error).__name__
