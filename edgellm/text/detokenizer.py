"""Incremental detokenizing: token ids in, text out as soon as its characters are complete."""

from codecs import getincrementaldecoder
from collections.abc import Sequence
from copy import copy

from edgellm.fmt import printable
from edgellm.text.tokenizer import Tokenizer

_CONTEXT = 16
_Decoder = getincrementaldecoder("utf-8")


class IncrementalDetokenizer:
    """Decodes a generation token by token.

    The results of `push` and `flush` together are the decoded bytes of the tokens: the leading space is kept, invalid
    bytes become U+FFFD. No result ends inside of a character.
    """

    def __init__(self, tokenizer: Tokenizer, special: bool = False) -> None:
        self._tokenizer = tokenizer
        self._special = special
        self._decoder = _Decoder(errors="replace")

    def fork(self) -> "IncrementalDetokenizer":
        """Another one that has decoded the same tokens."""
        child = copy(self)
        child._decoder = copy(self._decoder)
        return child

    def push(self, token: int) -> str:
        """The text that `token` completes. Raises EdgeLLMError if there is no such token."""
        return self._decoder.decode(self._tokenizer.token_bytes(token, self._special))

    def flush(self) -> str:
        """The rest: U+FFFD if the last character is incomplete. Then the detokenizer can start again."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


def excerpt(tokenizer: Tokenizer, ids: Sequence[int], at: int) -> str:
    """Some words around the token at index `at`, on one line, for people; control tokens included."""
    start = max(0, at - _CONTEXT)
    before = len(tokenizer.decode(ids[start:at], special=True))
    text = tokenizer.decode(ids[start : at + _CONTEXT], special=True)[max(0, before - _CONTEXT) : before + _CONTEXT]
    words = " ".join(text.strip("\ufffd").split())
    return printable(f"…{words}" if at else words)
