"""The keywords of JSON Schema, draft 2020-12, and what a guide does with each.

Forms of earlier drafts are read where they are clear: `definitions`, and `items` as a list with `additionalItems`.
"""

import re


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\S+", text))


FOLLOWED = _names("""
    type const enum allOf anyOf oneOf $ref
    minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format
    items prefixItems additionalItems minItems maxItems uniqueItems
    properties patternProperties additionalProperties required minProperties maxProperties
""")
"""Keywords that a reply is held to."""

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
