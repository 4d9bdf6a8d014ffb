"""A model's vocabulary as llguidance reads it: the bytes of each token, and how the model's tokenizer writes a text."""

import re
from collections.abc import Sequence
from functools import cache, cached_property

from llguidance import LLTokenizer, TokenizerWrapper

from edgellm.text.tokenizer import Tokenizer
from edgellm.text.vocabulary import CONTROL, UNKNOWN, UNUSED, USER_DEFINED

_MARK = re.compile(rb"[<\[][^\s<>\[\]]*[A-Za-z][^\s<>\[\]]*[>\]]")
"""Texts of user-defined tokens that mark a part of a reply, such as <think> and [TOOL_CALLS]."""


def special_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that are no text to a guide: control tokens, those that end a reply, and marks such as <think>.

    A grammar can name them; nothing else allows them.
    """
    vocabulary = tokenizer.vocabulary
    marks = (i for i in vocabulary.of_type(USER_DEFINED) if _MARK.fullmatch(vocabulary.texts[i]))
    controls = vocabulary.of_type(CONTROL, UNKNOWN, UNUSED)
    return frozenset([*controls, *marks, *tokenizer.control_texts.values(), *tokenizer.eog_ids])


def text_pieces(tokenizer: Tokenizer) -> list[bytes]:
    """The bytes of all tokens; empty for those that are no text."""
    specials = special_ids(tokenizer)
    return [b"" if i in specials else tokenizer.token_bytes(i) for i in range(tokenizer.n_vocab)]


def prepare(tokenizer: Tokenizer) -> LLTokenizer:
    """The vocabulary for llguidance. It takes about 0.5 s for 128k tokens."""
    return LLTokenizer(TokenizerWrapper(_Wrapped(tokenizer)))


@cache
def bytes_alone() -> LLTokenizer:
    """A vocabulary of single bytes, to ask whether anything matches a grammar."""
    return LLTokenizer(TokenizerWrapper(_Bytes()), slices=[])


class _Bytes:
    bos_token_id, eos_token_id, special_token_ids = None, 256, (256,)
    tokens = (*(bytes([i]) for i in range(256)), b"<end>")

    def __call__(self, text: str) -> list[int]:
        return list(text.encode())


class _Wrapped:
    """What `TokenizerWrapper` asks of a tokenizer."""

    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts, self._specials = tokenizer.vocabulary.texts, special_ids(tokenizer)
        self._tokenizer = tokenizer
        self.tokens = [texts[i] if i in self._specials else tokenizer.token_bytes(i) for i in range(tokenizer.n_vocab)]
        self.special_token_ids: Sequence[int] = sorted(self._specials)
        self.eos_token_id = min(tokenizer.eog_ids, default=tokenizer.n_vocab)
        if not tokenizer.eog_ids:  # llguidance needs a token that ends a text
            self.tokens.append(b"<end>")
            self.special_token_ids.append(tokenizer.n_vocab)

    def __call__(self, text: str) -> list[int]:
        """The tokens that spell exactly `text`: as the tokenizer has it, but for what that writes otherwise."""
        ids = self._encode(text)
        if self._spelled(ids) == text.encode():
            return ids
        return [token for character in text for token in self._character(character)]

    def _encode(self, text: str) -> list[int]:
        tokenizer = self._tokenizer
        parts = [
            tokenizer.vocabulary.texts[part].decode(errors="replace") if part in self._specials else part
            for part in tokenizer.split(text, {})
        ]
        return tokenizer.encode_parts(parts, first=False)

    def _character(self, character: str) -> list[int]:
        """The tokens of one character; those of its bytes if the tokenizer would write another one for it."""
        ids, spelled = self._encode(character), character.encode()
        return ids if self._spelled(ids) == spelled else [self._bytes[byte] for byte in spelled if byte in self._bytes]

    def _spelled(self, ids: list[int]) -> bytes:
        return b"".join(self.tokens[i] for i in ids if i not in self._specials)

    @cached_property
    def _bytes(self) -> dict[int, int]:
        """The tokens of single bytes."""
        return {piece[0]: i for i, piece in enumerate(self.tokens) if len(piece) == 1 and i not in self._specials}
