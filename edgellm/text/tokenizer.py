"""The tokenizer of a model: text to token ids and back, from what the GGUF file says."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple, Protocol, Self

from edgellm.errors import EdgeLLMError, OptionError, UnsupportedModelError
from edgellm.fmt import printable
from edgellm.gguf import GGUFFile
from edgellm.text.bpe import ByteLevel
from edgellm.text.pretokenizers import PreTokenizer, chosen
from edgellm.text.spm import SentencePiece
from edgellm.text.surrogates import without_surrogates
from edgellm.text.vocabulary import CONTROL, UNKNOWN, USER_DEFINED, Vocabulary

SUPPORTED_MODELS = ("gpt2", "llama")
_WHITE_SPACE = " \t\n\v\f\r"


class Span(NamedTuple):
    """A part of a text: from `start` to before `end`, text or a special token."""

    start: int
    end: int
    token: int | None


class Coder(Protocol):
    """What tells one kind of tokenizer from another: how text without special tokens is coded."""

    space_prefix: bool

    def encode(self, text: str, first: bool) -> list[int]:
        """Ids of `text`; `first`: it opens the whole text or follows a special token."""

    def piece(self, token: int) -> bytes:
        """The bytes of a token that is neither control nor unknown."""


class Tokenizer:
    """Text to ids (`encode`) and back (`decode`). Ids with a role are attributes, None where there is none.

    `eog_ids`: all that end a generation. `control_texts`: ids by text of the tokens that only
    `parse_special` finds. `add_bos`, `add_eos`: whether `add_special` adds them. `composes`: the ids spell a text in
    Unicode's form NFC, whatever form it has.
    """

    def __init__(self, file: GGUFFile, pre: str | None = None) -> None:
        """The tokenizer of an open file, which may be closed afterwards; the rest is as for `open`."""
        kind = _supported_kind(file)
        self.vocabulary = vocabulary = Vocabulary(file)
        self.n_vocab = len(vocabulary)
        # The ids that Llama 2 has, as llama.cpp assumes for files that name none.
        bos, eos, unknown = (1, 2, 0) if kind == "llama" else (None, None, None)
        self.bos_id, self.eos_id = vocabulary.role("bos", bos), vocabulary.role("eos", eos)
        self.eot_id, self.eom_id = vocabulary.role("eot"), vocabulary.role("eom")
        self.unk_id = vocabulary.role("unknown", unknown)
        self.eog_ids = vocabulary.ends(self.eos_id)
        rules = _pre_tokenizer(file, kind, pre)
        self._coder = self._make_coder(file, rules)
        self.composes = bool(rules and rules.nfc)
        bos_wanted = file.get_bool("tokenizer.ggml.add_bos_token", rules.add_bos if rules else True)
        self.add_bos = bos_wanted and self.bos_id is not None
        self.add_eos = file.get_bool("tokenizer.ggml.add_eos_token", False) and self.eos_id is not None
        self.chat_template = file.get_str("tokenizer.chat_template", None)
        self._greedy = self._space_eaters(file.hint("general.name", str) or "")

    @classmethod
    def open(cls, path: str | os.PathLike[str], pre: str | None = None) -> Self:
        """The tokenizer of a file of any architecture, or of one that holds nothing else.

        `pre` names a pre-tokenizer in place of the file's own. Raises ModelFileError for a damaged file,
        UnsupportedModelError for a kind of tokenizer that is not known here, OptionError for a bad `pre`.
        """
        with GGUFFile.open(path) as file:
            return cls(file, pre)

    def __repr__(self) -> str:
        return f"<edgellm.Tokenizer {type(self._coder).__name__}, tokens: {self.n_vocab}>"

    def encode(self, text: str, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """The ids of `text`.

        `add_special` adds the BOS and EOS that the metadata asks for, but no second BOS to text that was
        parsed to begin with one. Control tokens are found in the text only with `parse_special`;
        user-defined ones always. Lone surrogates count as U+FFFD.
        """
        ids = self.encode_parts(self.split(text, self.control_texts if parse_special else {}))
        if not add_special:
            return ids
        if self.add_bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids.insert(0, self.bos_id)
        if self.add_eos and self.eos_id is not None:
            ids.append(self.eos_id)
        return ids

    def split(self, text: str, controls: Mapping[str, int]) -> list[str | int]:
        """`text` cut at these control tokens and the user-defined ones, which become ids; longest first.

        In Phi-3 models they take the white space behind them along.
        """
        text = without_surrogates(text)
        return [text[start:end] if token is None else token for start, end, token in self.spans(text, controls)]

    def spans(self, text: str, controls: Mapping[str, int], own: str | None = None) -> list[Span]:
        """The same as places in a text, which has no surrogates.

        Control tokens are found in `own`, if given: `text` with some characters replaced, so that none is found there.
        """
        special = {**self._user_texts, **controls}
        spans = [Span(0, len(text), None)] if text else []
        for found in sorted((s for s in special if s in text), key=lambda s: len(s.encode()), reverse=True):
            token, searched = special[found], text if own is None or found not in controls else own
            greedy = token in self._greedy
            spans = [piece for span in spans for piece in _cut(text, searched, span, found, token, greedy)]
        return spans

    def encode_parts(self, parts: Iterable[str | int]) -> list[int]:
        """The ids of what `split` gives."""
        ids: list[int] = []
        first = True
        for part in parts:
            ids += self._coder.encode(part, first) if isinstance(part, str) else [part]
            first = isinstance(part, int)
        return ids

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of `ids`, the inverse of `encode`; bytes that are not UTF-8 become U+FFFD.

        Control tokens are left out unless `special`. The space that `encode` puts before text is dropped.
        """
        pieces = []
        first = True
        for i in ids:
            piece = self.token_bytes(i, special)
            pieces.append(piece.removeprefix(b" ") if first and self._coder.space_prefix else piece)
            first = i in self._special_ids
        return b"".join(pieces).decode(errors="replace")

    def token_bytes(self, token: int, special: bool = False) -> bytes:
        """The bytes of one token, perhaps half a character; none for a control token unless `special`."""
        if not 0 <= token < self.n_vocab:
            raise EdgeLLMError(f"no token {token}; this model has the ids 0 to {self.n_vocab - 1}")
        kind = self.vocabulary.types[token]
        if special and kind in (CONTROL, UNKNOWN):
            return self.vocabulary.texts[token]
        return self._coder.piece(token)

    @cached_property
    def control_texts(self) -> dict[str, int]:
        """Ids of control tokens by text: found in text only on request."""
        return self._by_text(CONTROL, UNKNOWN)

    @cached_property
    def _user_texts(self) -> dict[str, int]:
        return self._by_text(USER_DEFINED)

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        return frozenset(self.vocabulary.of_type(CONTROL, UNKNOWN, USER_DEFINED))

    def _by_text(self, *types: int) -> dict[str, int]:
        texts = ((self.vocabulary.texts[i], i) for i in self.vocabulary.of_type(*types))
        return {text.decode(errors="surrogateescape"): i for text, i in texts if text}

    def _space_eaters(self, name: str) -> frozenset[int]:
        """The special tokens behind which white space goes. Files do not tell: llama.cpp, too, knows Phi-3 by name."""
        if not re.search("phi-?3", name.lower()):
            return frozenset()
        keepers = (b"<unk>", b"<s>", b"<|endoftext|>")
        return frozenset(i for i in self._special_ids if self.vocabulary.texts[i] not in keepers)

    def _make_coder(self, file: GGUFFile, rules: PreTokenizer | None) -> Coder:
        if rules:
            return ByteLevel(self.vocabulary, file.get_strings("tokenizer.ggml.merges"), rules)
        space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix", True)
        return SentencePiece(self.vocabulary, self.unk_id or 0, space_prefix)


def _cut(text: str, searched: str, span: Span, found: str, token: int, greedy: bool) -> Iterator[Span]:
    """`span` of `text` cut at each `found`, if `greedy` with the white space behind, in `searched`; no empty text."""
    start, end, already = span
    if already is not None:
        yield span
        return
    while (at := searched.find(found, start, end)) >= 0:
        if at > start:
            yield Span(start, at, None)
        start = at + len(found)
        yield Span(at, start, token)
        while greedy and start < end and text[start] in _WHITE_SPACE:
            start += 1
    if start < end:
        yield Span(start, end, None)


def _supported_kind(file: GGUFFile) -> str:
    kind = file.get_str("tokenizer.ggml.model")
    if kind in SUPPORTED_MODELS:
        return kind
    known = ", ".join(SUPPORTED_MODELS)
    raise UnsupportedModelError(
        f'{printable(str(file.path), 400)}: its tokenizer is "{printable(kind)}", but this version has only: '
        f"{known}; use another conversion or a later version"
    )


def _pre_tokenizer(file: GGUFFile, kind: str, pre: str | None) -> PreTokenizer | None:
    """The rules named by `pre`, or else by the file; None for a kind that has none."""
    path = printable(str(file.path), 400)
    if kind == "gpt2":
        return chosen(path, file.get_str("tokenizer.ggml.pre", ""), pre)
    if pre is None:
        return None
    raise OptionError(f"--tokenizer-pre: the tokenizer of {path} uses none; leave it out")
