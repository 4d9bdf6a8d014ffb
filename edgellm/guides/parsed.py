"""The value of an answer to a JSON schema."""

import json
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.guides.python_types import from_json


def parsed(schema: object, answer: str) -> Any:
    """The value, of the class that the schema is or else of JSON.

    Raises EdgeLLMError for JSON that Python does not read, and what a model of pydantic raises for values that its own
    validators refuse.
    """
    if isinstance(schema, type) and hasattr(schema, "model_validate_json"):
        return schema.model_validate_json(answer)
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError) as error:  # more than 4,300 digits, or some 1,000 levels
        advice = "give the schema limits, or read the text of the answer"
        raise EdgeLLMError(
            f"the answer is JSON that Python does not read ({printable(str(error))}): {advice}"
        ) from None
    return from_json(schema, value) if isinstance(schema, type) else value
