"""A str that tracks the origin of each of its characters: the template, a message, or neither.

Only literals of the template are made with the origin TEMPLATE. An operation passes origins on if it is known which
character goes where; the result of any other operation has the origin UNKNOWN. So a character with the origin TEMPLATE
is the template's, whatever the template does.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, Self

TEMPLATE, SHARED_WORD, COMPUTED, ARGUMENT, UNKNOWN = map(chr, range(5))
"""Origins. Each is a character, so that the origins of a text are a text of the same length.

SHARED_WORD: a word of the program, such as a role, that is also a literal of the template. COMPUTED: a number or the
like. ARGUMENT: a template argument. UNKNOWN: possibly text of a message.
"""

MESSAGE = 5
"""The origin of message number i is chr(MESSAGE + i)."""


class TrackedText(str):
    """A str in all respects to a template; its parts and copies are TrackedText, too."""

    __module__ = "builtins"  # so that Jinja2's messages name the type as for str
    __slots__ = ("_origins",)
    _origins: str

    def __new__(cls, text: object = "", origins: str | None = None) -> Self:
        """`origins`: one for each character, or one for all; UNKNOWN by default."""
        new = super().__new__(cls, text)
        n = len(new)
        new._origins = UNKNOWN * n if origins is None else origins * n if len(origins) == 1 else origins
        return new

    def __str__(self) -> str:
        return self

    def __getitem__(self, key: Any) -> "TrackedText":
        return _text(str.__getitem__(self, key), self._origins[key])

    def __iter__(self) -> "Iterator[TrackedText]":
        return map(_text, str.__iter__(self), self._origins)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, str) and not hasattr(other, "__html__"):  # markup escapes the other operand
            return _text(str.__add__(self, other), self._origins + origins(other))
        reflected = getattr(type(other), "__radd__", lambda *operands: NotImplemented)(other, self)
        return str.__add__(self, other) if reflected is NotImplemented else reflected

    def __radd__(self, other: object) -> "TrackedText":
        return TrackedText(other).__add__(self) if isinstance(other, str) else NotImplemented

    def __mul__(self, count: Any) -> "TrackedText":
        return _text(str.__mul__(self, count), self._origins * count)

    __rmul__ = __mul__

    def join(self, items: Iterable[str]) -> "TrackedText":
        """See `str`; the same holds for all methods below."""
        items = list(items)
        return _text(str.join(self, items), self._origins.join(map(origins, items)))

    def lstrip(self, chars: str | None = None) -> "TrackedText":
        """See `str`."""
        return self[len(self) - len(str.lstrip(self, chars)) :]

    def rstrip(self, chars: str | None = None) -> "TrackedText":
        """See `str`."""
        return self[: len(str.rstrip(self, chars))]

    def strip(self, chars: str | None = None) -> "TrackedText":
        """See `str`."""
        return self.lstrip(chars).rstrip(chars)

    def removeprefix(self, prefix: str) -> "TrackedText":
        """See `str`."""
        return self[len(self) - len(str.removeprefix(self, prefix)) :]

    def removesuffix(self, suffix: str) -> "TrackedText":
        """See `str`."""
        return self[: len(str.removesuffix(self, suffix))]

    def partition(self, sep: str) -> "tuple[TrackedText, TrackedText, TrackedText]":
        """See `str`."""
        head, middle, tail = self._cut(str.partition(self, sep))
        return head, middle, tail

    def rpartition(self, sep: str) -> "tuple[TrackedText, TrackedText, TrackedText]":
        """See `str`."""
        head, middle, tail = self._cut(str.rpartition(self, sep))
        return head, middle, tail

    def split(self, sep: str | None = None, maxsplit: Any = -1) -> "list[TrackedText]":  # type: ignore[override]
        """See `str`."""
        return self._found(str.split(self, sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: Any = -1) -> "list[TrackedText]":  # type: ignore[override]
        """See `str`."""
        return self._found(str.rsplit(self, sep, maxsplit), sep)

    def splitlines(self, keepends: bool = False) -> "list[TrackedText]":  # type: ignore[override]
        """See `str`."""
        whole = self._cut(str.splitlines(self, True))
        return [line[: len(kept)] for line, kept in zip(whole, str.splitlines(self, keepends), strict=True)]

    def replace(self, old: str, new: str, count: Any = -1) -> "TrackedText":
        """See `str`."""
        text = str.replace(self, old, new, count)
        return (
            with_origins_of(text, [as_tracked(new).join(self.split(old, count))])
            if old
            else _text(text, common_origin(self, new))
        )

    def _cut(self, pieces: Iterable[str], between: int = 0) -> "list[TrackedText]":
        """Consecutive pieces of this text, with `between` characters between two."""
        at, found = 0, []
        for piece in pieces:
            found.append(self[at : at + len(piece)])
            at += len(piece) + between
        return found

    def _found(self, pieces: list[str], sep: str | None) -> "list[TrackedText]":
        """The pieces of a split at `sep`, or at white space if it is None."""
        if sep is not None:
            return self._cut(pieces, len(sep))
        at, found = 0, []
        for piece in pieces:
            at = str.find(self, piece, at)
            found.append(self[at : at + len(piece)])
            at += len(piece)
        return found


_text = TrackedText


def origins(text: str) -> str:
    """The origin of each character of a text, as a text."""
    return text._origins if isinstance(text, TrackedText) else UNKNOWN * len(text)


def as_tracked(value: object) -> TrackedText:
    """A value as text, with its origin if that is known."""
    if isinstance(value, TrackedText):
        return value
    computed = value is None or isinstance(value, bool | int | float)
    return TrackedText(str(value), COMPUTED if computed else UNKNOWN)


def with_origins_of(text: str, pieces: Iterable[TrackedText]) -> TrackedText:
    """A text with the origins of pieces; UNKNOWN if the pieces together are a different text."""
    joined = TrackedText().join(pieces)
    return joined if joined == text else TrackedText(text)


def common_origin(*values: object) -> str:
    """The origin of a text that is computed from these values in any way."""
    found = {origin for value in values for origin in _origins_in(value)}
    foreign = found - {TEMPLATE, SHARED_WORD, COMPUTED}
    if foreign:
        return foreign.pop() if len(foreign) == 1 else UNKNOWN
    return TEMPLATE if found == {TEMPLATE} else COMPUTED


def _origins_in(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return set(origins(value))
    return () if value is None or isinstance(value, bool | int | float) else (UNKNOWN,)


def _blending(method: Callable[..., Any], same_length: bool) -> Callable[..., Any]:
    """A method of str with a TrackedText as result. With `same_length` each character keeps its origin, if the length
    stays the same; otherwise all get the common origin of the arguments."""

    @wraps(method)
    def blended(self: TrackedText, *args: Any, **options: Any) -> TrackedText:
        made = method(self, *args, **options)
        kept = same_length and len(made) == len(self)
        return TrackedText(made, self._origins if kept and made else common_origin(self, *args, *options.values()))

    return blended


for _name in ("capitalize", "casefold", "lower", "swapcase", "title", "upper"):
    setattr(TrackedText, _name, _blending(getattr(str, _name), same_length=True))
for _name in ("center", "expandtabs", "ljust", "rjust", "translate", "zfill"):
    setattr(TrackedText, _name, _blending(getattr(str, _name), same_length=False))
TrackedText.__name__ = TrackedText.__qualname__ = "str"
