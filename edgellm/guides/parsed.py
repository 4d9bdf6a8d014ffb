"""The value of an answer to a JSON schema."""

import json
from typing import Any

from edgellm.guides.python_types import from_json


def parsed(schema: object, answer: str) -> Any:
    """The value, of the class that the schema is or else of JSON.

    Raises what a model of pydantic raises for values that its own validators refuse.
    """
    if not isinstance(schema, type):
        return json.loads(answer)
    if hasattr(schema, "model_validate_json"):
        return schema.model_validate_json(answer)
    return from_json(schema, json.loads(answer))
