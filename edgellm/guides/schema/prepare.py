"""JSON schemas as llguidance gets them: what it would read otherwise is rewritten, what it would ignore is refused.

Its compiler (https://github.com/guidance-ai/llguidance/blob/main/docs/json_schema.md) keeps properties in order, merges
allOf and references, and refuses what it does not implement. But it ignores unknown keywords, reads numbers as float64
and patterns in the dialect of Rust, and does not follow some bounds, dates and counts of properties.

Replies have one style of JSON, that of `json.dumps`: one space behind commas and colons and no other. So what must come
next is known, and no model goes on with white space for ever. Characters have one spelling, so that no key comes in
two; control characters without a letter of their own (`\\n`) have none, and replies do not contain them. An object has
only the properties that its schema names, unless that says something else: small models would add others for ever.
"""

import json
from typing import Any

from edgellm.errors import GuideError
from edgellm.guides.schema.document import Document, Pointer, fail
from edgellm.guides.schema.subschema import Schema, Subschema

_STYLE = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "json_allowed_escapes": 'nrbtf"\\',
}


def prepare_schema(text: str) -> str:
    """The JSON text of a schema, ready for llguidance. Raises GuideError, with the place, for what it cannot follow."""
    try:
        return json.dumps(_Preparer(Document(text)).whole())
    except RecursionError:
        raise GuideError("option json_schema has too many levels") from None


class _Preparer:
    """Prepares all subschemas. Each place that a reference names becomes a definition."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._names: dict[tuple[Pointer, bool], str] = {}
        self._waiting: list[tuple[Pointer, bool]] = []

    def whole(self) -> dict[str, Any]:
        """The schema. Raises GuideError."""
        schema, definitions = self.at((), alone=True), dict[str, Schema]()
        if schema is False:
            fail((), "is valid for no value")
        while self._waiting:
            place = self._waiting.pop()
            definitions[self._names[place]] = self.at(*place)
        return {**({} if schema is True else schema), "$defs": definitions, "x-guidance": _STYLE}

    def at(self, pointer: Pointer, alone: bool) -> Schema:
        """The subschema at a place, for llguidance; see `Preparer`. Raises GuideError."""
        keywords = self.document.at(pointer)
        return keywords if isinstance(keywords, bool) else Subschema(self, pointer, keywords, alone).prepared()

    def reference(self, target: Pointer, alone: bool) -> str:
        """The reference to a place."""
        place = target, alone
        if place not in self._names:
            self._names[place] = str(len(self._names))
            self._waiting.append(place)
        return f"#/$defs/{self._names[place]}"
