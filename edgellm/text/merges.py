"""The merges of a BPE vocabulary, as the BPE model of the `tokenizers` library."""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NoReturn

from edgellm.fmt import printable
from edgellm.gguf import StringArray
from edgellm.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers.models import BPE


class Merges:
    """`tokenizer.ggml.merges`, copied: two texts with a space between each, best first."""

    def __init__(self, vocabulary: Vocabulary, merges: StringArray) -> None:
        self._vocabulary = vocabulary
        self._merges = list(merges.raws())

    def model(self, ids: dict[str, int], **options: Any) -> "BPE":
        """The library's BPE model with these tokens and options. Raises ModelFileError if the merges are damaged.

        The library itself checks for unknown texts, which saves a third of the time.
        """
        from tokenizers.models import BPE

        pairs: Sequence[tuple[str, str]] = self._pairs()
        longest = max(map(len, map(str.encode, ids)), default=0)
        if max(map(len, self._merges), default=0) - 1 > longest:
            pairs = self._usable(pairs, ids)  # the library would panic instead of raising
        try:
            return BPE(ids, pairs, **options)
        except Exception:
            return BPE(ids, self._usable(pairs, ids), **options)

    def _pairs(self) -> "_Pairs":
        """The merges, each split in two. They are split in one step, as there are hundreds of thousands."""
        if not {*map(bytes.count, self._merges, repeat(b" "))} <= {1}:
            at = next(i for i, text in enumerate(self._merges) if text.count(b" ") != 1)
            self._fail(at, "is not two texts with a space between")
        joined = b" ".join(self._merges)
        try:
            return _Pairs(joined.decode().split(" ") if joined else [])
        except UnicodeDecodeError as error:
            self._fail(joined.count(b" ", 0, error.start) // 2, "is not UTF-8")

    def _usable(self, pairs: Sequence[tuple[str, str]], ids: dict[str, int]) -> list[tuple[str, str]]:
        """The pairs without those that join, or result in, a token that is not in `ids`. Raises ModelFileError."""
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
