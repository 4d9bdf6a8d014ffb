"""Unicode normalization to NFC, as some tokenizers do it, with the origin of each resulting character."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def normalize_nfc(text: str, origins: Sequence[T]) -> tuple[str, list[T]]:
    """`text` in NFC, and an origin for each of its characters, given the origins of the characters before."""
    if unicodedata.is_normalized("NFC", text):
        return text, list(origins)
    normalized, found, at = "", list[T](), 0
    for segment in _segments(text):
        own, at = origins[at : at + len(segment)], at + len(segment)
        composed = unicodedata.normalize("NFC", segment)
        normalized += composed
        found += [own[min(i, len(own) - 1)] for i in range(len(composed))]
    return normalized, found


def _segments(text: str) -> Iterator[str]:
    """The parts of a text that are normalized independently: a letter with its marks, or the parts of a syllable."""
    segment = ""
    for letter in text:
        if segment and not unicodedata.combining(letter) and _independent(segment, letter):
            yield segment
            segment = ""
        segment += letter
    yield segment


def _independent(segment: str, letter: str) -> bool:
    together, alone = (unicodedata.normalize("NFC", each) for each in (segment + letter, segment))
    return together == alone + unicodedata.normalize("NFC", letter)
