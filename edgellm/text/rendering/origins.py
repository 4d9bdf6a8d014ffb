"""Text that knows where each of its characters comes from: the template, a message, or neither.

Only literals of the template are made with the origin TEMPLATE. An operation hands the origins on where it is known
which character goes where; the result of any other has the origin UNKNOWN. So a character with the origin TEMPLATE is
the template's, whatever the template does.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, Self

TEMPLATE, NAMED, COMPUTED, ARGUMENT, UNKNOWN = map(chr, range(5))
"""Origins, each a character, so that those of a text are a text of the same length.

NAMED: a word from the program, such as a role, that the template has as a literal, too. COMPUTED: a number or the like.
ARGUMENT: a template argument. UNKNOWN: anything, perhaps text of a message.
"""

MESSAGE = 5
"""The origin of message number i is chr(MESSAGE + i)."""


class Text(str):
    """A str to templates, in all respects; what it gives of itself is Text, too."""

    __module__ = "builtins"  # Jinja2's messages name the type as they do for str
    __slots__ = ("_origins",)
    _origins: str

    def __new__(cls, text: object = "", origins: str | None = None) -> Self:
        """`origins`: one for each character, or one for all; UNKNOWN if not given."""
        new = super().__new__(cls, text)
        n = len(new)
        new._origins = UNKNOWN * n if origins is None else origins * n if len(origins) == 1 else origins
        return new

    def __str__(self) -> str:
        return self

    def __getitem__(self, key: Any) -> "Text":
        return _text(str.__getitem__(self, key), self._origins[key])

    def __iter__(self) -> "Iterator[Text]":
        return map(_text, str.__iter__(self), self._origins)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, str) and not hasattr(other, "__html__"):  # markup escapes what it is added to
            return _text(str.__add__(self, other), self._origins + origins(other))
        reflected = getattr(type(other), "__radd__", lambda *operands: NotImplemented)(other, self)
        return str.__add__(self, other) if reflected is NotImplemented else reflected

    def __radd__(self, other: object) -> "Text":
        return Text(other).__add__(self) if isinstance(other, str) else NotImplemented

    def __mul__(self, count: Any) -> "Text":
        return _text(str.__mul__(self, count), self._origins * count)

    __rmul__ = __mul__

    def join(self, items: Iterable[str]) -> "Text":
        """As str does; so do all methods below."""
        items = list(items)
        return _text(str.join(self, items), self._origins.join(map(origins, items)))

    def lstrip(self, chars: str | None = None) -> "Text":
        """See `str`."""
        return self[len(self) - len(str.lstrip(self, chars)) :]

    def rstrip(self, chars: str | None = None) -> "Text":
        """See `str`."""
        return self[: len(str.rstrip(self, chars))]

    def strip(self, chars: str | None = None) -> "Text":
        """See `str`."""
        return self.lstrip(chars).rstrip(chars)

    def removeprefix(self, prefix: str) -> "Text":
        """See `str`."""
        return self[len(self) - len(str.removeprefix(self, prefix)) :]

    def removesuffix(self, suffix: str) -> "Text":
        """See `str`."""
        return self[: len(str.removesuffix(self, suffix))]

    def partition(self, sep: str) -> "tuple[Text, Text, Text]":
        """See `str`."""
        head, middle, tail = self._cut(str.partition(self, sep))
        return head, middle, tail

    def rpartition(self, sep: str) -> "tuple[Text, Text, Text]":
        """See `str`."""
        head, middle, tail = self._cut(str.rpartition(self, sep))
        return head, middle, tail

    def split(self, sep: str | None = None, maxsplit: Any = -1) -> "list[Text]":  # type: ignore[override]
        """See `str`."""
        return self._found(str.split(self, sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: Any = -1) -> "list[Text]":  # type: ignore[override]
        """See `str`."""
        return self._found(str.rsplit(self, sep, maxsplit), sep)

    def splitlines(self, keepends: bool = False) -> "list[Text]":  # type: ignore[override]
        """See `str`."""
        whole = self._cut(str.splitlines(self, True))
        return [line[: len(kept)] for line, kept in zip(whole, str.splitlines(self, keepends), strict=True)]

    def replace(self, old: str, new: str, count: Any = -1) -> "Text":
        """See `str`."""
        text = str.replace(self, old, new, count)
        return attached(text, [text_of(new).join(self.split(old, count))]) if old else _text(text, blend(self, new))

    def _cut(self, pieces: Iterable[str], between: int = 0) -> "list[Text]":
        """Pieces that follow each other in this text, with so many characters between two."""
        at, found = 0, []
        for piece in pieces:
            found.append(self[at : at + len(piece)])
            at += len(piece) + between
        return found

    def _found(self, pieces: list[str], sep: str | None) -> "list[Text]":
        """Pieces of a split at `sep`, or at white space, with which none begins then."""
        if sep is not None:
            return self._cut(pieces, len(sep))
        at, found = 0, []
        for piece in pieces:
            at = str.find(self, piece, at)
            found.append(self[at : at + len(piece)])
            at += len(piece)
        return found


_text = Text


def origins(text: str) -> str:
    """The origin of each character of a text."""
    return text._origins if isinstance(text, Text) else UNKNOWN * len(text)


def text_of(value: object) -> Text:
    """A value as it is written, with what is known of its origin."""
    if isinstance(value, Text):
        return value
    computed = value is None or isinstance(value, bool | int | float)
    return Text(str(value), COMPUTED if computed else UNKNOWN)


def attached(text: str, pieces: Iterable[Text]) -> Text:
    """A text with the origins of pieces; UNKNOWN if these are not it."""
    joined = Text().join(pieces)
    return joined if joined == text else Text(text)


def blend(*values: object) -> str:
    """The one origin of all that is made of these values, in whatever way."""
    found = {origin for value in values for origin in _origins_in(value)}
    foreign = found - {TEMPLATE, NAMED, COMPUTED}
    if foreign:
        return foreign.pop() if len(foreign) == 1 else UNKNOWN
    return TEMPLATE if found == {TEMPLATE} else COMPUTED


def _origins_in(value: object) -> Iterable[str]:
    if isinstance(value, str):
        return set(origins(value))
    return () if value is None or isinstance(value, bool | int | float) else (UNKNOWN,)


def _blending(method: Callable[..., Any], same_length: bool) -> Callable[..., Any]:
    """A method of str which gives Text; of `same_length`, character by character, it leaves the origins as they are."""

    @wraps(method)
    def blended(self: Text, *args: Any, **options: Any) -> Text:
        made = method(self, *args, **options)
        kept = same_length and len(made) == len(self)
        return Text(made, self._origins if kept and made else blend(self, *args, *options.values()))

    return blended


for _name in ("capitalize", "casefold", "lower", "swapcase", "title", "upper"):
    setattr(Text, _name, _blending(getattr(str, _name), same_length=True))
for _name in ("center", "expandtabs", "ljust", "rjust", "translate", "zfill"):
    setattr(Text, _name, _blending(getattr(str, _name), same_length=False))
Text.__name__ = Text.__qualname__ = "str"
