"""A JSON schema as a document: its subschemas by JSON pointer, and errors that name the place."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NoReturn
from urllib.parse import unquote

from edgellm.errors import GuideError
from edgellm.fmt import printable
from edgellm.guides.schema.keywords import FOLLOWED, NOT_FOLLOWED, wrong_value
from edgellm.options.aliases import closest_match
from edgellm.text.json_values import ANNOTATIONS, is_annotation

Pointer = tuple[str, ...]
"""The keys that lead from the whole document to a part of it."""

_MAX_POINTER = 200


def shown(pointer: Pointer) -> str:
    """A pointer as a URI fragment, such as #/properties/name."""
    keys = (key.replace("~", "~0").replace("/", "~1") for key in pointer)
    return printable("/".join(("#", *keys)), _MAX_POINTER)


def fail(pointer: Pointer, problem: str) -> NoReturn:
    """Raise GuideError for a part of the schema."""
    raise GuideError(f"option json_schema: {shown(pointer)} {problem}")


class Document:
    """A schema from its JSON text, which is valid. Numbers with a point are Decimal."""

    def __init__(self, text: str) -> None:
        self._root = json.loads(text, parse_float=Decimal)

    def at(self, pointer: Pointer) -> dict[str, Any] | bool:
        """The subschema at a place, without annotations. Its keywords are followed, and of values of the right type.

        Raises GuideError for what is no schema, for keywords that no guide follows, and for values of another type.
        """
        found = self._find(pointer)
        if isinstance(found, bool):
            return found
        if not isinstance(found, dict):
            fail(pointer, "is no schema: give an object, true or false")
        for keyword, value in found.items():
            self._check_keyword(pointer, keyword)
            if keyword in FOLLOWED and (wanted := wrong_value(keyword, value)):
                fail((*pointer, keyword), f"has a wrong value: give {wanted}")
        return {keyword: value for keyword, value in found.items() if keyword in FOLLOWED}

    def conjuncts(self, pointer: Pointer) -> Iterator[tuple[Pointer, dict[str, Any]]]:
        """The subschemas that a value at a place must be valid against, each once, with their places: the one there,
        and those of its `allOf` and `$ref`, in turn. Those without keywords are left out. Raises GuideError."""
        seen, waiting = set[Pointer](), [pointer]
        while waiting:
            keywords = self.at(place := waiting.pop())
            if place in seen or isinstance(keywords, bool):
                continue
            seen.add(place)
            yield place, keywords
            waiting += [(*place, "allOf", str(i)) for i in range(len(keywords.get("allOf", [])))]
            waiting += [self.target(place, keywords["$ref"])] if "$ref" in keywords else []

    def target(self, pointer: Pointer, reference: str) -> Pointer:
        """The place that the `$ref` of a subschema names. Raises GuideError if it is not in the document."""
        where = (*pointer, "$ref")
        if not (reference == "#" or reference.startswith("#/")):
            fail(where, "is not a reference within the schema, such as #/$defs/name; others are not followed")
        found = tuple(_unescaped(reference[1:]))
        if not self._has(found):
            fail(where, f"names {printable(reference)}, which the schema does not have")
        return found

    def _check_keyword(self, pointer: Pointer, keyword: str) -> None:
        where = (*pointer, keyword)
        if keyword in NOT_FOLLOWED:
            fail(where, "is a keyword that no guide can hold a reply to; leave it out")
        if keyword in ("$id", "id") and pointer:
            fail(where, "gives a part of the schema a name of its own, which is not supported; leave it out")
        if keyword not in FOLLOWED and not is_annotation(keyword):
            meant = closest_match(keyword, sorted(FOLLOWED | ANNOTATIONS))
            fail(where, f"is no keyword of JSON Schema{f': did you mean {meant}?' if meant else '; leave it out'}")

    def _has(self, pointer: Pointer) -> bool:
        try:
            self._find(pointer)
        except (KeyError, IndexError):
            return False
        return True

    def _find(self, pointer: Pointer) -> Any:
        found = self._root
        for key in pointer:
            if isinstance(found, list):
                if not (key.isascii() and key.isdigit() and str(int(key[:9])) == key):
                    raise KeyError(key)
                found = found[int(key)]
            elif isinstance(found, dict):
                found = found[key]
            else:
                raise KeyError(key)
        return found


def _unescaped(fragment: str) -> Iterator[str]:
    for key in unquote(fragment).split("/")[1:]:
        yield key.replace("~1", "/").replace("~0", "~")
