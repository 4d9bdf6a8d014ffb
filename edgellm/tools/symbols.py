"""Control tokens of a call format beside the text of a reply, as one string.

A mark that the vocabulary has as one token is one character in that string: a surrogate, which decoded text never
contains. So text that only looks like a mark is text. Other marks are their text.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgellm.text.utf8 import replace_surrogates

_FIRST = 0xD800


@dataclass(frozen=True)
class Mark:
    """A control token in a reply, by its text."""

    text: str


class Symbols:
    """The marks of a format as characters. `tokens` are the texts of those that the vocabulary has as one token."""

    def __init__(self, marks: Sequence[str], tokens: Collection[str]) -> None:
        self._by_text = {text: chr(_FIRST + i) for i, text in enumerate(marks) if text in tokens}
        self._texts = {ord(symbol): text for text, symbol in self._by_text.items()}
        self._quoted = {symbol: json.dumps(text, ensure_ascii=False)[1:-1] for symbol, text in self._texts.items()}

    def __getitem__(self, text: str) -> str:
        """The character of a mark; its text if it is no token."""
        return self._by_text.get(text, text)

    def piece(self, piece: str | Mark) -> str:
        """A piece of a reply, as a part of the one string."""
        return self[piece.text] if isinstance(piece, Mark) else replace_surrogates(piece)

    def written(self, text: str) -> str:
        """The string as the model wrote it, marks as their texts."""
        return text.translate(self._texts)

    def quoted(self, text: str) -> str:
        """The inside of a JSON string, marks as their texts in JSON."""
        return text.translate(self._quoted)
