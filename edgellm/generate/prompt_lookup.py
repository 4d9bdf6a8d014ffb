"""Drafts of what comes next, without a second model: what followed the last tokens when they came before.

Prompt lookup decoding (A. Saxena, 2023, github.com/apoorvumang/prompt-lookup-decoding). Replies repeat names, quotes,
code and turns of phrase from the prompt and from themselves.
"""

from array import array
from collections.abc import Iterable
from typing import NamedTuple

LENGTHS = 1, 2, 3, 4, 8, 16
"""So many of the last tokens are looked for: the more of them came before, the likelier what followed then comes again.

Simulated with the times of a Zen 4's steps, files that this project has edited come 2.64 times as fast by up to 4
tokens, 2.94 by up to 8, 3.05 by up to 16, 3.06 by up to 24, or by all numbers up to 16.
"""

_SIZE = array("i").itemsize


class Draft(NamedTuple):
    """Tokens that may come next, as they followed the last `matched` ones before; none where the last is new."""

    tokens: list[int]
    matched: int


class PromptLookup:
    """The tokens of a text, as bytes: 8,000 are searched through in 0.05 ms, 128,000 in 1 ms, and need no index."""

    def __init__(self, tokens: Iterable[int]) -> None:
        self._text = bytearray(array("i", tokens).tobytes())

    def accept(self, token: int) -> None:
        """Take note of a token that is now the last one."""
        self._text += array("i", [token]).tobytes()

    def draft(self, most: int) -> Draft:
        """What followed the last tokens where they came before, as many of LENGTHS as possible, and last of all.

        Where that is up to the end, it goes round: the text repeats itself.
        """
        start, matched = len(self._text) - 1, 0  # before its last byte, so that others follow
        for length in LENGTHS:  # more tokens end where fewer did, or before
            if not (end := self._end_of_last(self._text[-length * _SIZE :], start)):
                break
            start, matched = end, length
        if not matched:
            return Draft([], 0)
        followed = self._text[start : start + most * _SIZE]
        rounds = -(-most * _SIZE // len(followed))
        return Draft(array("i", bytes(followed * rounds)).tolist()[:most], matched)

    def _end_of_last(self, tokens: bytearray, before: int) -> int:
        """Where the last occurrence of tokens ends in so many bytes; 0 if there is none."""
        while (at := self._text.rfind(tokens, 0, before)) % _SIZE and at >= 0:
            before = at + len(tokens) - 1
        return at + len(tokens) if at >= 0 else 0
