"""SentencePiece-style BPE (`tokenizer.ggml.model` = "llama"): the pair with the best score merges first.

After Kudo & Richardson, "SentencePiece" (2018), with the rules of llama.cpp where the two differ.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from heapq import heapify, heappop, heappush

from edgellm.text.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Vocabulary

SPACE = "\u2581"
_BYTE_TEXT = re.compile(rb"<0x([0-9A-Fa-f]{2})>")
_INSIDE = re.compile(f"([^{SPACE}]){SPACE}")
_MAX_CACHED_LENGTH = 64


def _words(texts: Iterable[str]) -> re.Pattern[str]:
    """An expression for parts of a text that merge independently of each other.

    Such a part is a run of spaces and the word after it, and more words where a token of `texts` has a space inside
    that stands behind the same letter.
    """
    inner = {letter for text in texts if SPACE in text.lstrip(SPACE) for letter in _INSIDE.findall(text)}
    if not inner:
        return re.compile(f"{SPACE}+[^{SPACE}]*|[^{SPACE}]+")
    letters = "".join(map(re.escape, sorted(inner)))
    return re.compile(f"(?:{SPACE}+|(?=[^{SPACE}]))(?:[^{SPACE}]|(?<=[{letters}]){SPACE}+)*")


def byte_tokens(vocabulary: Vocabulary) -> dict[int, int]:
    """The byte of each byte token, by id. Raises ModelFileError if the text of one is not of the form <0x0A>."""
    found = {}
    for i in vocabulary.of_type(BYTE):
        match = _BYTE_TEXT.fullmatch(vocabulary.texts[i])
        if not match:
            vocabulary.fail(f"token {i} is a byte token, but its text is not of the form <0x0A>")
        found[i] = int(match[1], 16)
    return found


class SentencePiece:
    """Text to ids and back for one vocabulary. Raises ModelFileError for damaged byte tokens and without scores."""

    def __init__(self, vocabulary: Vocabulary, unknown: int, space_prefix: bool) -> None:
        self._vocabulary = vocabulary
        self._unknown = unknown
        self.space_prefix = space_prefix
        self._byte_of = byte_tokens(vocabulary)
        self._id_of_byte = {value: i for i, value in self._byte_of.items()}
        self._scores = vocabulary.numbers("scores", float) or vocabulary.fail("has no tokenizer.ggml.scores")
        self._ids = self._matchable()
        self._longest = max(map(len, self._ids), default=0)
        self._words = _words(self._ids)
        self._cached = lru_cache(1 << 14)(self._merge)

    def encode(self, text: str, first: bool) -> list[int]:
        """The ids of `text`, which has no special token; `first`: it begins the whole text or follows one."""
        if first and self.space_prefix:
            text = " " + text
        text = text.replace(" ", SPACE)
        ids: list[int] = []
        for word in self._words.findall(text):
            ids += self._cached(word) if len(word) <= _MAX_CACHED_LENGTH else self._merge(word)
        return ids

    def piece(self, token: int) -> bytes:
        """The bytes of a token; empty for control and unknown tokens."""
        kind = self._vocabulary.types[token]
        if kind in (NORMAL, USER_DEFINED):
            return self._vocabulary.texts[token].replace(SPACE.encode(), b" ")
        if kind == BYTE:
            return bytes([self._byte_of[token]])
        return b""

    def _matchable(self) -> dict[str, int]:
        """Ids by text, without control, unknown and byte tokens: plain text never becomes one of those."""
        return self._vocabulary.ids_by_text("surrogateescape", CONTROL, UNKNOWN, BYTE)

    def _merge(self, text: str) -> tuple[int, ...]:
        """The ids of `text`, in O(n log n).

        A symbol is identified by its start: `end[start]` is its end, 0 once it was merged into its left neighbour;
        `before[start]` is the start of its left neighbour.
        """
        n = len(text)
        end, before = list(range(1, n + 1)), list(range(-1, n - 1))
        queue = [pair for i in range(n - 1) if (pair := self._pair(text, i, i + 2))]
        heapify(queue)
        while queue:
            _, left, stop = heappop(queue)
            right = end[left]
            if not right or right == n or end[right] != stop:
                continue  # one of the two symbols has changed since
            end[left], end[right] = stop, 0
            if stop < n:
                before[stop] = left
            for start, until in ((before[left], stop), (left, end[stop] if stop < n else 0)):
                if start >= 0 and until and (pair := self._pair(text, start, until)):
                    heappush(queue, pair)
        return tuple(i for start in range(n) if end[start] for i in self._symbol(text[start : end[start]]))

    def _pair(self, text: str, start: int, stop: int) -> tuple[float, int, int] | None:
        """The queue entry for merging text[start:stop] into one token; None if there is no such token."""
        if stop - start > self._longest:
            return None
        token = self._ids.get(text[start:stop])
        return None if token is None else (-self._scores[token], start, stop)

    def _symbol(self, symbol: str) -> list[int]:
        """The token of a symbol, or else those of its bytes, or else the unknown token."""
        if symbol in self._ids:
            return [self._ids[symbol]]
        data = symbol.encode()
        if all(byte in self._id_of_byte for byte in data):
            return [self._id_of_byte[byte] for byte in data]
        return [self._unknown]
