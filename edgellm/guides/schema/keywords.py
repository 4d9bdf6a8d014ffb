"""The keywords of JSON Schema, draft 2020-12, and what a guide does with each.

Forms of earlier drafts are read where they are clear: `definitions`, and `items` as a list with `additionalItems`.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_ANYTHING: tuple[Any, str] = (object, "")

VALUES: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys((*BOUNDS, "multipleOf"), (int | Decimal, "a number")),
    **dict.fromkeys(_COUNTS, (int, "a whole number, at least 0")),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), (list, "a list of schemas")),
    **dict.fromkeys(("properties", "patternProperties"), (dict, "an object of schemas")),
    **dict.fromkeys(("const", "items", "additionalItems", "additionalProperties"), _ANYTHING),
    "$ref": (str, "a reference within the schema, such as #/$defs/name"),
    "enum": (list, "a list of values"),
    "format": (str, "the name of a format"),
    "pattern": (str, "a regular expression"),
    "required": (list, "a list of texts"),
    "type": (str | list, "a type or a list of types"),
    "uniqueItems": (bool, "true or false"),
}
"""The keywords that a reply is held to: the type of the value of each, and words for it."""

FOLLOWED = frozenset(VALUES)
OF_OBJECTS = frozenset(
    ("properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties")
)
"""Keywords of which each may say which properties an object has."""


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\S+", text))


ANNOTATIONS = _names("""
    $schema $id id $anchor $comment $defs definitions $vocabulary title description default example examples
    deprecated readOnly writeOnly contentEncoding contentMediaType contentSchema discriminator
""")
"""Keywords that say nothing about which values are valid; so do those that begin with x-."""

NOT_FOLLOWED = _names("""
    not if then else dependentRequired dependentSchemas dependencies propertyNames contains minContains maxContains
    unevaluatedItems unevaluatedProperties $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor
""")
"""Keywords that say which values are valid, and that no guide follows."""

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
