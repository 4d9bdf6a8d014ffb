"""Sets of characters, as sorted ranges of code points; surrogates are no characters."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby
from unicodedata import category

Range = tuple[int, int]
"""The first and the last code point of a range."""

_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)


@dataclass(frozen=True)
class CharSet:
    """A set of characters. `ranges` are sorted, and no two of them touch."""

    ranges: tuple[Range, ...]

    @classmethod
    def of(cls, *ranges: Range) -> "CharSet":
        """The characters of some ranges."""
        return cls(tuple(_merged(ranges)))

    @classmethod
    def from_text(cls, characters: str) -> "CharSet":
        """The characters of a text."""
        return cls.of(*((ord(c), ord(c)) for c in characters))

    def __contains__(self, code: int) -> bool:
        return any(low <= code <= high for low, high in self.ranges)

    def __or__(self, other: "CharSet") -> "CharSet":
        return CharSet.of(*self.ranges, *other.ranges)

    def __and__(self, other: "CharSet") -> "CharSet":
        return (self.complement() | other.complement()).complement()

    def __sub__(self, other: "CharSet") -> "CharSet":
        return self & other.complement()

    def complement(self) -> "CharSet":
        """All other characters."""
        gaps, start = list[Range](), 0
        for low, high in sorted((*self.ranges, _SURROGATES)):
            if start < low:
                gaps.append((start, low - 1))
            start = max(start, high + 1)
        if start <= _LAST:
            gaps.append((start, _LAST))
        return CharSet(tuple(gaps))


def _merged(ranges: Iterable[Range]) -> Iterator[Range]:
    current: Range | None = None
    for low, high in sorted(ranges):
        if current and low <= current[1] + 1:
            current = current[0], max(current[1], high)
        else:
            if current:
                yield current
            current = low, high
    if current:
        yield current


NO_CHARS = CharSet(())
ANY_CHAR = NO_CHARS.complement()
DIGITS = CharSet.from_text("0123456789")
WORD = DIGITS | CharSet.of((0x41, 0x5A), (0x61, 0x7A)) | CharSet.from_text("_")
LINE_ENDS = CharSet.from_text("\n\r\u2028\u2029")
SPACE = CharSet.from_text("\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000") | CharSet.of((0x2000, 0x200A))


@lru_cache
def of_categories(prefixes: tuple[str, ...]) -> CharSet:
    """The characters whose Unicode general category begins with one of `prefixes`, such as "L" or "Lu"."""
    return CharSet.of(*(each for name, ranges in _categories().items() if name.startswith(prefixes) for each in ranges))


@cache
def _categories() -> Mapping[str, list[Range]]:
    """The characters of each general category. It takes some 0.3 s, so it is done once for all."""
    found = defaultdict[str, list[Range]](list)
    for name, group in groupby(range(_LAST + 1), lambda code: category(chr(code))):
        codes = list(group)
        found[name].append((codes[0], codes[-1]))
    return found
