"""Byte-level BPE (`tokenizer.ggml.model` = "gpt2"), merged by the `tokenizers` library.

Each byte is written as one printable character, as in GPT-2's encoder.py: the texts of the vocabulary and the merges
use that alphabet.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, NoReturn

from edgellm.fmt import printable
from edgellm.gguf import StringArray
from edgellm.text.pretokenizers import PreTokenizer
from edgellm.text.vocabulary import CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library
    from tokenizers.models import BPE

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
BYTE_OF = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + i): byte for i, byte in enumerate(_OTHERS)}


class ByteLevel:
    """Text to ids and back for one vocabulary. Its merges are read when text is encoded for the first time."""

    space_prefix = False

    def __init__(self, vocabulary: Vocabulary, merges: StringArray, pre: PreTokenizer) -> None:
        self._vocabulary = vocabulary
        self._merges = list(merges.raws())
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
        return b"".join(bytes([BYTE_OF[c]]) if c in BYTE_OF else c.encode() for c in letters)

    @cached_property
    def _library(self) -> "Library":
        from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

        library = Tokenizer(self._model())
        if self._pre.nfc:
            library.normalizer = normalizers.NFC()
        splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self._pre.patterns]
        to_alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.pre_tokenizer = pre_tokenizers.Sequence([*splits, to_alphabet])
        return library

    def _model(self) -> "BPE":
        """The library's BPE model. The library itself checks for unknown texts, which saves a third of the time."""
        from tokenizers.models import BPE

        # Plain text never becomes a control or unknown token.
        ids = self._vocabulary.ids_by_text("replace", CONTROL, UNKNOWN)
        pairs: Sequence[tuple[str, str]] = self._pairs()
        longest = max(map(len, map(str.encode, ids)), default=0)
        if max(map(len, self._merges), default=0) - 1 > longest:
            pairs = self._usable(pairs, ids)  # the library would panic instead of raising
        try:
            return BPE(ids, pairs, ignore_merges=self._pre.ignore_merges)
        except Exception:
            return BPE(ids, self._usable(pairs, ids), ignore_merges=self._pre.ignore_merges)

    def _pairs(self) -> "_Pairs":
        """The merges, best first, each split in two. They are split in one step, as there are hundreds of thousands."""
        if not {*map(bytes.count, self._merges, repeat(b" "))} <= {1}:
            at = next(i for i, text in enumerate(self._merges) if text.count(b" ") != 1)
            self._fail(at, "is not two texts with a space between")
        joined = b" ".join(self._merges)
        try:
            return _Pairs(joined.decode().split(" ") if joined else [])
        except UnicodeDecodeError as error:
            self._fail(joined.count(b" ", 0, error.start) // 2, "is not UTF-8")

    def _usable(self, pairs: Sequence[tuple[str, str]], ids: dict[str, int]) -> list[tuple[str, str]]:
        """The pairs without those that join, or result in, a control or unknown token. Raises ModelFileError."""
        texts = {text.decode("utf-8", "replace") for text in self._vocabulary.texts}
        for i, (left, right) in enumerate(pairs):
            if not {left, right, left + right} <= texts:
                self._fail(i, "joins or makes what is not a token")
        return [pair for pair in pairs if {*pair, "".join(pair)} <= ids.keys()]

    def _fail(self, at: int, problem: str) -> NoReturn:
        text = printable(self._merges[at].decode("utf-8", "replace"))
        self._vocabulary.fail(f'tokenizer.ggml.merges[{at}] "{text}" {problem}')


class _Pairs(Sequence[tuple[str, str]]):
    """Pairs of consecutive texts. Making a tuple for each pair would take a tenth of the whole time."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts) // 2

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        texts = iter(self._texts)
        return zip(texts, texts, strict=True)
