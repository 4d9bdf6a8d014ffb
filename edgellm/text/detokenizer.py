"""Token ids in, text out as soon as it is whole characters."""

from codecs import getincrementaldecoder
from collections.abc import Sequence

from edgellm.fmt import printable
from edgellm.text.tokenizer import Tokenizer

_AROUND = 16
_Decoder = getincrementaldecoder("utf-8")


class TextStream:
    """Decodes a generation token by token.

    All that `push` and `flush` give, put together, is the decoded bytes of the tokens: the leading space is
    kept, invalid bytes become U+FFFD. Nothing ever ends in half a character.
    """

    def __init__(self, tokenizer: Tokenizer, special: bool = False) -> None:
        self._tokenizer = tokenizer
        self._special = special
        self._decoder = _Decoder(errors="replace")

    def push(self, token: int) -> str:
        """The text that is certain now that `token` has come; EdgeLLMError if there is no such token."""
        return self._decoder.decode(self._tokenizer.token_bytes(token, self._special))

    def flush(self) -> str:
        """The rest: U+FFFD if the last character was never finished. The stream can then start anew."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


def excerpt(tokenizer: Tokenizer, ids: Sequence[int], at: int) -> str:
    """The text around the token at index `at`, for people: some words on one line, control tokens too."""
    start = max(0, at - _AROUND)
    before = len(tokenizer.decode(ids[start:at], special=True))
    text = tokenizer.decode(ids[start : at + _AROUND], special=True)[max(0, before - _AROUND) : before + _AROUND]
    words = " ".join(text.strip("\ufffd").split())
    return printable(f"…{words}" if at else words)
