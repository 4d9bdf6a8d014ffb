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

MAX_COUNT = 2**31 - 1
"""The largest number of characters, items or properties that llguidance counts to."""

VALUES: Mapping[str, tuple[Any, str]] = {
    **dict.fromkeys((*BOUNDS, "multipleOf"), (int | Decimal, "a number")),
    **dict.fromkeys(_COUNTS, (int, f"a whole number, from 0 to {MAX_COUNT:,}")),
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


NOT_FOLLOWED = _names("""
    not if then else dependentRequired dependentSchemas dependencies propertyNames contains minContains maxContains
    unevaluatedItems unevaluatedProperties $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor
""")
"""Keywords that say which values are valid, and that no guide follows."""

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def wrong_value(keyword: str, value: Any) -> str:
    """Words for a value that a keyword, one of FOLLOWED, may have, if `value` is not one; "" if it is."""
    kind, wanted = VALUES[keyword]
    is_bool = isinstance(value, bool) and kind not in (bool, object)
    if is_bool or not isinstance(value, kind) or (kind is int and not 0 <= value <= MAX_COUNT):
        return wanted
    of_texts = keyword in ("required", "type") and isinstance(value, list)
    return wanted if of_texts and not all(isinstance(each, str) for each in value) else ""
