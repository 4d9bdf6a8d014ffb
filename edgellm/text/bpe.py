"""Byte-level BPE (`tokenizer.ggml.model` = "gpt2"), merged by the `tokenizers` library.

Each byte is written as one printable character, as GPT-2's encoder.py has it: texts in the vocabulary and the
merges are in that alphabet.
"""

from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, cast

from edgellm.gguf import Strings
from edgellm.gguf.printable import printable
from edgellm.text.pretokenizers import PreTokenizer
from edgellm.text.vocabulary import CONTROL, NORMAL, UNKNOWN, Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library
    from tokenizers.models import BPE

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
BYTE_OF = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + i): byte for i, byte in enumerate(_OTHERS)}


class ByteLevel:
    """Text to ids and back for one vocabulary; its merges are looked at when text is first encoded."""

    space_prefix = False

    def __init__(self, vocabulary: Vocabulary, merges: Strings, pre: PreTokenizer) -> None:
        self._vocabulary = vocabulary
        self._merges = list(merges)
        self._pre = pre

    def encode(self, text: str, first: bool) -> list[int]:
        """Ids of `text` that holds no special token. Raises ModelFileError when the merges are damaged."""
        ids: list[int] = self._library.encode(text, add_special_tokens=False).ids
        return ids

    def piece(self, token: int) -> bytes:
        """The bytes that token stands for; a character outside the alphabet stands for itself."""
        if self._vocabulary.types[token] != NORMAL:
            return b""
        text = self._vocabulary.texts[token].decode("utf-8", "replace")
        return b"".join(bytes([BYTE_OF[c]]) if c in BYTE_OF else c.encode() for c in text)

    @cached_property
    def _library(self) -> "Library":
        from tokenizers import Regex, Tokenizer, pre_tokenizers

        library = Tokenizer(self._model())
        cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self._pre.patterns]
        spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.pre_tokenizer = pre_tokenizers.Sequence([*cuts, spell])
        return library

    def _model(self) -> "BPE":
        """The library's merger. It finds unknown texts by itself, which saves a third of the time."""
        from tokenizers.models import BPE

        ids, whole = self._matchable(), self._pre.ignore_merges
        pairs = self._pairs()
        longest = max((len(text.encode()) for text in ids), default=0)
        if max((len(text.encode()) - 1 for text in self._merges), default=0) > longest:
            pairs = self._usable(pairs, ids)  # what the library does not refuse but panic over
        try:
            return BPE(ids, pairs, ignore_merges=whole)
        except Exception:
            return BPE(ids, self._usable(pairs, ids), ignore_merges=whole)

    def _matchable(self) -> dict[str, int]:
        """Ids by text; control and unknown tokens are never made out of plain text."""
        hidden = {*self._vocabulary.of_type(CONTROL, UNKNOWN)}
        texts = enumerate(self._vocabulary.texts)
        return {text.decode("utf-8", "replace"): i for i, text in texts if text and i not in hidden}

    def _pairs(self) -> list[tuple[str, str]]:
        """The merges, best first, each cut in two."""
        pairs = [tuple(text.split(" ")) for text in self._merges]
        if any(n != 2 for n in set(map(len, pairs))):
            at = next(i for i, pair in enumerate(pairs) if len(pair) != 2)
            self._fail(at, "is not two texts with a space between")
        return cast(list[tuple[str, str]], pairs)

    def _usable(self, pairs: list[tuple[str, str]], ids: dict[str, int]) -> list[tuple[str, str]]:
        """The pairs less those that join or make a token not to be made out of plain text."""
        texts = {text.decode("utf-8", "replace") for text in self._vocabulary.texts}
        for i, (left, right) in enumerate(pairs):
            if not {left, right, left + right} <= texts:
                self._fail(i, "joins or makes what is not a token")
        return [pair for pair in pairs if {*pair, "".join(pair)} <= ids.keys()]

    def _fail(self, at: int, problem: str) -> NoReturn:
        text = printable(self._merges[at])
        self._vocabulary.fail(f'tokenizer.ggml.merges[{at}] "{text}" {problem}')
