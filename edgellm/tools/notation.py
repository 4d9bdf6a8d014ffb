"""Values as models write them: JSON, Python literals, and Gemma's own notation. Read as they come, strictly.

A string ends where its notation says, so that nothing inside a string opens or closes anything.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.fmt import printable
from edgellm.text.utf8 import replace_surrogates
from edgellm.tools.source import CUT_OFF, MalformedError, Reading, ReplySource
from edgellm.tools.symbols import Symbols

StringReader = Callable[[ReplySource, Symbols], Reading[str]]
"""Reads a string behind its opening quote."""

_MAX_DEPTH = 64
"""Values inside of values. Schemas of tools have a few levels."""

_WORD = re.compile(r"[-+.\w]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
_NUMBER_BEGUN = re.compile(r"-?[0-9]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]*)?")
NAME = re.compile(r"[\w.$-]+")
"""Names of tools and arguments, and keys without quotes."""

_PLAIN = {quote: re.compile(rf"[^{quote}\\]+") for quote in "\"'"}


@dataclass(frozen=True)
class Notation:
    """How values are written. `strings` reads a string by its opening quote; `bare_keys`: keys may have no quotes."""

    constants: Mapping[str, Any]
    strings: Mapping[str, StringReader]
    bare_keys: bool = False

    def value(self, source: ReplySource, symbols: Symbols, depth: int = 0) -> Reading[Any]:
        """Read a value, with white space before it. Raises MalformedError."""
        if depth > _MAX_DEPTH:
            raise MalformedError(f"its values are more than {_MAX_DEPTH} deep inside each other")
        yield from source.space()
        if (yield from source.takes("{")):
            return (yield from self._object(source, symbols, depth))
        if (yield from source.takes("[")):
            return (yield from self._list(source, symbols, depth))
        if quote := (yield from self._quote(source, symbols)):
            return (yield from self.strings[quote](source, symbols))
        return (yield from self._word(source, symbols))

    def object(
        self, source: ReplySource, symbols: Symbols, what: str = "the object of arguments"
    ) -> Reading[dict[str, Any]]:
        """Read an object; `what` names it in MalformedError."""
        yield from source.space()
        yield from source.expect("{", what=what)
        return (yield from self._object(source, symbols, 0))

    def _object(self, source: ReplySource, symbols: Symbols, depth: int) -> Reading[dict[str, Any]]:
        found = dict[str, Any]()
        yield from source.space()
        if (yield from source.takes("}")):
            return found
        while True:
            key = yield from self.key(source, symbols)
            found[key] = yield from self.value(source, symbols, depth + 1)
            yield from source.space()
            if (yield from source.expect(",", "}", what="a comma or the end of an object")) == "}":
                return found

    def _list(self, source: ReplySource, symbols: Symbols, depth: int) -> Reading[list[Any]]:
        found = list[Any]()
        yield from source.space()
        if (yield from source.takes("]")):
            return found
        while True:
            found.append((yield from self.value(source, symbols, depth + 1)))
            yield from source.space()
            if (yield from source.expect(",", "]", what="a comma or the end of a list")) == "]":
                return found

    def key(self, source: ReplySource, symbols: Symbols) -> Reading[str]:
        """Read a key of an object and the colon behind it. Raises MalformedError."""
        yield from source.space()
        if quote := (yield from self._quote(source, symbols)):
            key = yield from self.strings[quote](source, symbols)
        elif not self.bare_keys or not (key := (yield from source.word(NAME))):
            raise (yield from source.malformed("a key is missing"))
        yield from source.space()
        yield from source.expect(":", what=f"the colon behind the key {printable(key)}")
        return key

    def keywords(self, source: ReplySource, symbols: Symbols) -> Reading[dict[str, Any]]:
        """Read arguments by keyword, as in Python, behind the opening parenthesis. Raises MalformedError."""
        found = dict[str, Any]()
        yield from source.space()
        while not (yield from source.takes(")")):
            if not (name := (yield from source.word(NAME))):
                raise (yield from source.malformed("the name of an argument is missing"))
            yield from source.space()
            yield from source.expect("=", what=f"the = behind {printable(name)}")
            found[name] = yield from self.value(source, symbols)
            yield from source.space()
            if not (yield from source.takes(",")) and (yield from source.peek()) != ")":
                raise (yield from source.malformed("a comma or the end of the arguments is missing"))
            yield from source.space()
        return found

    def _quote(self, source: ReplySource, symbols: Symbols) -> Reading[str]:
        """The opening quote that comes next, as a key of `strings`."""
        written = {symbols[quote]: quote for quote in self.strings}
        return written.get((yield from source.takes(*written)), "")

    def _word(self, source: ReplySource, symbols: Symbols) -> Reading[Any]:
        word = yield from source.word(_WORD)
        if word in self.constants:
            return self.constants[word]
        number = _NUMBER.fullmatch(word)
        if not number:
            following = symbols.written((yield from source.peek()))
            begins_value = _NUMBER_BEGUN.fullmatch(word) or any(each.startswith(word) for each in self.constants)
            if not following and begins_value:
                raise MalformedError(CUT_OFF)
            raise MalformedError(f"{printable(word or following)!r} is no value")
        value = float(word) if number["fraction"] else int(word)
        if isinstance(value, float) and not math.isfinite(value):
            raise MalformedError(f"the number {printable(word, 40)} is too large")
        return value


def _quoted(source: ReplySource, quote: str) -> Reading[str]:
    """The inside of a string with backslashes, up to its closing quote, which is read."""
    parts = list[str]()
    while True:
        parts.append(source.matched(_PLAIN[quote]))
        character = yield from source.next()
        if character == quote:
            return "".join(parts)
        parts.append(character)
        if character == "\\":
            parts.append((yield from source.next()))


def _json_string(source: ReplySource, symbols: Symbols) -> Reading[str]:
    """A JSON string. Line ends and other control characters may be in it as they are: models write them so."""
    inside = symbols.quoted((yield from _quoted(source, '"')))
    try:
        return replace_surrogates(json.loads(f'"{inside}"', strict=False))
    except ValueError:
        raise MalformedError("a string has an escape that JSON does not have") from None


_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{1,3})|(.))", re.DOTALL)
_PYTHON_ESCAPES = {"\n": "", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r"}
_PYTHON_ESCAPES |= {"t": "\t", "v": "\v"}


def _python_string(quote: str) -> StringReader:
    def read(source: ReplySource, symbols: Symbols) -> Reading[str]:
        inside = symbols.written((yield from _quoted(source, quote)))
        return replace_surrogates(_ESCAPE.sub(_unescaped, inside))

    return read


def _unescaped(found: re.Match[str]) -> str:
    if found[5]:
        return _PYTHON_ESCAPES.get(found[5], found[0])
    code = int(found[4], 8) if found[4] else int(found[1] or found[2] or found[3], 16)
    if code > 0x10FFFF:
        raise MalformedError("a string has an escape of no character")
    return chr(code)


def raw_string(end: str) -> StringReader:
    """Strings without escapes, up to the mark `end`."""

    def read(source: ReplySource, symbols: Symbols) -> Reading[str]:
        return symbols.written((yield from source.through(symbols[end])))

    return read


_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_PYTHON_CONSTANTS: Mapping[str, Any] = {**_CONSTANTS, "True": True, "False": False, "None": None}

JSON = Notation(_CONSTANTS, {'"': _json_string})
PYTHON = Notation(_PYTHON_CONSTANTS, {quote: _python_string(quote) for quote in "\"'"})


def with_raw_quotes(mark: str) -> Notation:
    """JSON with bare keys, and strings between two of a mark beside those in quotes."""
    return Notation(_CONSTANTS, {mark: raw_string(mark), '"': _json_string}, bare_keys=True)
