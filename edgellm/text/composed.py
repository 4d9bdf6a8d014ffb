"""Text in Unicode's form NFC, as some tokenizers read it, and what of it comes from where."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def composed(text: str, owners: Sequence[T]) -> tuple[str, list[T]]:
    """`text` composed, and an owner for each of its characters; `owners` are those of the characters before."""
    if unicodedata.is_normalized("NFC", text):
        return text, list(owners)
    whole, found, at = "", list[T](), 0
    for piece in _pieces(text):
        own, at = owners[at : at + len(piece)], at + len(piece)
        made = unicodedata.normalize("NFC", piece)
        whole += made
        found += [own[min(i, len(own) - 1)] for i in range(len(made))]
    return whole, found


def _pieces(text: str) -> Iterator[str]:
    """The parts of a text that are composed each by itself: a letter with its marks, or the parts of a syllable."""
    piece = ""
    for letter in text:
        if piece and not unicodedata.combining(letter) and _apart(piece, letter):
            yield piece
            piece = ""
        piece += letter
    yield piece


def _apart(piece: str, letter: str) -> bool:
    together, alone = (unicodedata.normalize("NFC", each) for each in (piece + letter, piece))
    return together == alone + unicodedata.normalize("NFC", letter)
