"""The keywords of JSON Schema, draft 2020-12: what each may have as its value, and which a guide follows.

Forms of earlier drafts are read where they are unambiguous: `definitions`, and `items` as a list with `additionalItems`.
"""

FOLLOWED = frozenset(
    "type const enum allOf anyOf oneOf $ref "
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format "
    "items prefixItems additionalItems minItems maxItems uniqueItems "
    "properties patternProperties additionalProperties required minProperties maxProperties".split()
)
"""Keywords that a reply is held to."""

ANNOTATIONS = frozenset(
    "$schema $id id $anchor $comment $defs definitions $vocabulary title description default example examples "
    "deprecated readOnly writeOnly contentEncoding contentMediaType contentSchema discriminator".split()
)
"""Keywords that say nothing about which values are valid; so do those that begin with x-."""

NOT_FOLLOWED = frozenset(
    "not if then else dependentRequired dependentSchemas dependencies propertyNames contains minContains maxContains "
    "unevaluatedItems unevaluatedProperties $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor".split()
)
"""Keywords that say which values are valid, and that no guide follows."""

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
