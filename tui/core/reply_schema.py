"""The JSON schema that replies follow, checked before anything is sent."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from edgellm.errors import EdgeLLMError, GuideError
from edgellm.fmt import printable


def checked_schema(text: str, origin: str, options: Mapping[str, Any]) -> str:
    """The schema, if guides follow it and it goes with the other options of replies.

    Raises EdgeLLMError, which begins with `origin`: the file of the schema, or the command.
    """
    from edgellm.guides.compile import check  # imports numpy and llguidance
    from edgellm.guides.spec import spec_of
    from edgellm.options import GenerationOptions

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EdgeLLMError(f"{origin}: the schema is no JSON: {printable(str(error), 200)}") from None
    if not isinstance(found, dict | bool):
        raise EdgeLLMError(f'{origin}: the JSON is no schema; give an object, such as {{"type": "object"}}')
    known = {field.name for field in fields(GenerationOptions)}
    others = {name: value for name, value in options.items() if name in known and name != "json_schema"}
    try:
        if spec := spec_of(GenerationOptions.from_kwargs(**others, json_schema=text)):
            check(spec)
    except GuideError as error:
        raise EdgeLLMError(f"{origin}: {str(error).removeprefix('option json_schema').lstrip(': ')}") from None
    return text
