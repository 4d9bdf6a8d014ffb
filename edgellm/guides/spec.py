"""What a reply must conform to, as the options say it."""

import json
from dataclasses import dataclass
from typing import Literal

from edgellm.errors import OptionError
from edgellm.options import GenerationOptions
from edgellm.text.json_values import json_value


@dataclass(frozen=True)
class GuideSpec:
    """A JSON schema as JSON, a regex, a grammar, or choices as a JSON list.

    "calls" is a grammar in Lark's syntax that edgellm made: every text of it comes to an end.
    """

    kind: Literal["json_schema", "regex", "grammar", "choices", "calls"]
    source: str


def spec_of(options: GenerationOptions) -> GuideSpec | None:
    """What the options hold a reply to; None for free text. Raises OptionError."""
    if options.json_schema is not None:
        return GuideSpec("json_schema", _canonical(options.json_schema))
    if options.regex is not None:
        return GuideSpec("regex", options.regex)
    if options.choices is not None:
        return GuideSpec("choices", json.dumps(options.choices))
    return None if options.grammar is None else GuideSpec("grammar", options.grammar)


def _canonical(schema: object) -> str:
    if isinstance(schema, type):
        from edgellm.guides.python_types import schema_of  # imports what reads classes

        schema = schema_of(schema)
    value = json_value(json.loads(schema) if isinstance(schema, str) else schema, "option json_schema")
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        raise OptionError("option json_schema has NaN or Infinity, which no JSON has; give a finite number") from None
