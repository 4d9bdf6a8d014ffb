"""A prompt as styled text, and as a list of tokens."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, overload

from tui.views.lines import STYLES
from tui.views.wrapped import Line, Words, harmless, wrapped

if TYPE_CHECKING:
    from edgellm.text.inspection import Inspection

_BROKEN = "\ufffd"
"""In the text of a token: a part of a character."""

_NEAR = 64
"""Characters by which a token may be further on in the text: templates and tokenizers change white space."""


class PromptTokens(Sequence[Line]):
    """The tokens of an inspection, one per line: position, id, role, text."""

    def __init__(self, inspection: "Inspection") -> None:
        self._seen = inspection

    def __len__(self) -> int:
        return len(self._seen.ids)

    @overload
    def __getitem__(self, place: int) -> Line: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Line]: ...

    def __getitem__(self, place: int | slice) -> Line | Sequence[Line]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        seen, style = self._seen, self._style(place)
        role = seen.roles[place] if seen.roles else ""
        piece = harmless(seen.pieces[place])
        return (
            (f"{place:>9,} ", "muted"),
            (f"{seen.ids[place]:>8} ", "key"),
            (f"{harmless(role):<10.10} ", "muted"),
            (piece if style == "special" else f"▏{piece}▕", style),
        )

    def text(self, width: int) -> list[Line]:
        """The prompt text, coloured by role, with special tokens reversed."""
        return wrapped(self._words, width)

    @cached_property
    def _words(self) -> list[Words]:
        grouped = groupby(self._spelled(), key=lambda words: words[1])
        return [("".join(text for text, _ in words), style) for style, words in grouped]

    def _spelled(self) -> Iterator[Words]:
        """The texts of the tokens. Tokens that are parts of a character get the text of the prompt instead."""
        pieces, text, at = self._seen.pieces, self._seen.text, 0
        for broken, run in groupby(range(len(pieces)), key=lambda place: _BROKEN in pieces[place]):
            places = list(run)
            if broken:
                parts = "".join(pieces[place] for place in places)
                after = places[-1] + 1
                end = (
                    text.find(pieces[after], at, at + len(parts) + len(pieces[after]))
                    if after < len(pieces)
                    else len(text)
                )
                yield text[at:end] if 0 < end - at <= len(parts) else parts, self._style(places[0])
                at = max(at, end)
                continue
            for place in places:
                yield pieces[place], self._style(place)
                at = _after(pieces[place], text, at)

    def _style(self, place: int) -> str:
        seen = self._seen
        if seen.ids[place] in seen.special:
            return "special"
        role = seen.roles[place] if seen.roles else "plain"
        return role if role in STYLES else "muted" if role == "template" else "plain"


def _after(piece: str, text: str, at: int) -> int:
    """The end in `text` of a token that begins near `at`, perhaps without the leading space that tokenizers add."""
    for words in (piece, piece.lstrip()):
        if words and (found := text.find(words, at, at + _NEAR + len(words))) >= 0:
            return found + len(words)
    return at
