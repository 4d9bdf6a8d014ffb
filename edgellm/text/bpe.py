"""Byte-level BPE (`tokenizer.ggml.model` = "gpt2"), merged by the `tokenizers` library.

Each byte is written as one printable character, as in GPT-2's encoder.py: the texts of the vocabulary and the merges
use that alphabet.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from edgellm.gguf import StringArray
from edgellm.text.merges import Merges
from edgellm.text.pretokenizers import PreTokenizer
from edgellm.text.vocabulary import CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
BYTE_OF = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + i): byte for i, byte in enumerate(_OTHERS)}
LETTER_OF = {byte: letter for letter, byte in BYTE_OF.items()}
_TO_LATIN = str.maketrans(
    {chr(code): "\uffff" for code in range(128, 256)} | {c: chr(byte) for c, byte in BYTE_OF.items()}
)
"""Letters to the characters of Latin-1 that have their bytes, and others above ASCII to one that Latin-1 lacks."""


class ByteLevel:
    """Text to ids and back for one vocabulary. Its merges are read when text is encoded for the first time."""

    space_prefix = False

    def __init__(self, vocabulary: Vocabulary, merges: StringArray, pre: PreTokenizer) -> None:
        self._vocabulary = vocabulary
        self._merges = Merges(vocabulary, merges)
        self._pre = pre

    def encode(self, text: str, first: bool) -> list[int]:
        """The ids of `text`, which has no special token. Raises ModelFileError if the merges are damaged."""
        ids: list[int] = self._library.encode(text, add_special_tokens=False).ids
        return ids

    def piece(self, token: int) -> bytes:
        """The bytes of a token; a character outside the alphabet is encoded as itself."""
        kind, text = self._vocabulary.types[token], self._vocabulary.texts[token]
        if kind != NORMAL:
            return text if kind == USER_DEFINED else b""
        letters = text.decode("utf-8", "replace")
        try:  # ten times as fast as letter by letter
            return letters.translate(_TO_LATIN).encode("latin-1")
        except UnicodeEncodeError:
            return b"".join(bytes([BYTE_OF[c]]) if c in BYTE_OF else c.encode() for c in letters)

    @cached_property
    def _library(self) -> "Library":
        from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

        # Plain text never becomes a control or unknown token.
        ids = self._vocabulary.ids_by_text("replace", CONTROL, UNKNOWN)
        library = Tokenizer(self._merges.model(ids, ignore_merges=self._pre.ignore_merges))
        if self._pre.nfc:
            library.normalizer = normalizers.NFC()
        splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self._pre.patterns]
        to_alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.pre_tokenizer = pre_tokenizers.Sequence([*splits, to_alphabet])
        return library
