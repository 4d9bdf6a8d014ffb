"""The tokenizer of a model: text to token ids and back, as the GGUF file specifies it."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Self

from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile
from edgellm.text.special_tokens import Span, SpecialTokens
from edgellm.text.subword_model import pre_tokenizer_of, subword_model, supported_kind
from edgellm.text.utf8 import replace_surrogates
from edgellm.text.vocabulary import CONTROL, UNKNOWN, Vocabulary


class Tokenizer:
    """Text to ids (`encode`) and back (`decode`).

    `bos_id`, `eos_id`, `eot_id`, `eom_id` and `unk_id` are None if the vocabulary has no such token. `eog_ids`: all
    tokens that end a generation. `add_bos`, `add_eos`: whether `encode(add_special=True)` adds them. `normalizes_nfc`:
    text is normalized to Unicode NFC before it is encoded. `chat_template` and `tool_template` are the Jinja2 sources
    for conversations without and with tools, None if the file has none; few files have two. `kind` is the name of its
    subword model, and `pre` that of its pre-tokenizer, None without one.
    """

    def __init__(self, file: GGUFFile, pre: str | None = None) -> None:
        """The tokenizer of an open file, which may be closed afterwards; the rest is as for `open`."""
        kind = self.kind = supported_kind(file)
        self.vocabulary = vocabulary = Vocabulary(file)
        self.n_vocab = len(vocabulary)
        # The ids of Llama 2, as in llama.cpp, for files that name none.
        bos, eos, unknown = (1, 2, 0) if kind == "llama" else (None, None, None)
        self.bos_id, self.eos_id = vocabulary.role("bos", bos), vocabulary.role("eos", eos)
        self.eot_id, self.eom_id = vocabulary.role("eot"), vocabulary.role("eom")
        self.unk_id = vocabulary.role("unknown", unknown)
        self.eog_ids = vocabulary.eog_ids(self.eos_id)
        rules = self._rules = pre_tokenizer_of(file, kind, pre)
        self.pre = (pre or file.hint("tokenizer.ggml.pre", str)) if rules else None
        self._model = subword_model(file, vocabulary, rules, self.unk_id)
        self.normalizes_nfc = bool(rules and rules.nfc)
        bos_wanted = file.get_bool("tokenizer.ggml.add_bos_token", rules.add_bos if rules else True)
        # The first files of Gemma 4 say that none is added; the model needs one.
        self.add_bos = (bos_wanted or kind == "gemma4") and self.bos_id is not None
        self.add_eos = file.get_bool("tokenizer.ggml.add_eos_token", False) and self.eos_id is not None
        self.chat_template = file.get_str("tokenizer.chat_template", None)
        self.tool_template = file.hint("tokenizer.chat_template.tool_use", str) or self.chat_template
        self._special = SpecialTokens(vocabulary, kind == "llama" and _is_phi3(file))

    @classmethod
    def open(cls, path: str | os.PathLike[str], pre: str | None = None) -> Self:
        """The tokenizer of a GGUF file of any architecture, also of a file without weights.

        `pre` names a pre-tokenizer in place of the file's own. Raises ModelFileError for a damaged file,
        UnsupportedModelError for an unknown kind of tokenizer, OptionError for a bad `pre`.
        """
        with GGUFFile.open(path) as file:
            return cls(file, pre)

    def __repr__(self) -> str:
        return f"<edgellm.Tokenizer {type(self._model).__name__}, tokens: {self.n_vocab}>"

    def splits_as(self, other: "Tokenizer") -> bool:
        """Whether another tokenizer splits text into the same words, and writes bytes in tokens in the same way."""
        return (self.kind, self._rules) == (other.kind, other._rules)

    @property
    def control_texts(self) -> dict[str, int]:
        """Ids of control tokens by text; `encode` finds them only with `parse_special`."""
        return self._special.control_texts

    def special_ids(self, texts: Iterable[str]) -> dict[str, int]:
        """The ids of those texts that are a control token or a user-defined token."""
        return {text: token for text in texts if (token := self._special.id_of(text)) is not None}

    def encode(self, text: str, add_special: bool = False, parse_special: bool = False) -> list[int]:
        """The ids of `text`.

        `add_special` adds the BOS and EOS that the metadata asks for, but no second BOS to parsed text that begins
        with one. Control tokens are found in the text only with `parse_special`, user-defined ones always. Lone
        surrogates count as U+FFFD.
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
        """`text` cut at the given control tokens and the user-defined tokens, which become ids; see `spans`."""
        text = replace_surrogates(text)
        return [text[start:end] if token is None else token for start, end, token in self.spans(text, controls)]

    def spans(self, text: str, controls: Mapping[str, int], masked: str | None = None) -> list[Span]:
        """As `split`, as places in the text; see `edgellm.text.special_tokens.SpecialTokens.spans`."""
        return self._special.spans(text, controls, masked)

    def encode_parts(self, parts: Iterable[str | int], first: bool = True) -> list[int]:
        """The ids of the parts that `split` gives; `first`: they begin a text, or follow a special token."""
        ids: list[int] = []
        for part in parts:
            ids += self._model.encode(part, first) if isinstance(part, str) else [part]
            first = isinstance(part, int)
        return ids

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of `ids`, the inverse of `encode`; bytes that are not UTF-8 become U+FFFD.

        Control tokens are left out unless `special`. The space that `encode` puts before text is removed.
        """
        pieces = []
        first = True
        for i in ids:
            piece = self.token_bytes(i, special)
            pieces.append(piece.removeprefix(b" ") if first and self._model.space_prefix else piece)
            first = i in self._special.ids
        return b"".join(pieces).decode(errors="replace")

    def token_bytes(self, token: int, special: bool = False) -> bytes:
        """The bytes of one token, perhaps a part of a character; empty for a control token unless `special`."""
        if not 0 <= token < self.n_vocab:
            raise EdgeLLMError(f"no token {token}; this model has the ids 0 to {self.n_vocab - 1}")
        kind = self.vocabulary.types[token]
        if special and kind in (CONTROL, UNKNOWN):
            return self.vocabulary.texts[token]
        return self._model.piece(token)


def _is_phi3(file: GGUFFile) -> bool:
    """Whether a file is of Phi-3 or Phi-3.5, with experts or without. Later models have another kind of tokenizer.

    GGUF has no key for white space that belongs to special tokens. llama.cpp goes by the name alone, and so misses
    "Phi 3.5 Mini Instruct".
    """
    name = (file.hint("general.name", str) or "").lower()
    return file.hint("general.architecture", str) in ("phi3", "phimoe") or re.search("phi-?3", name) is not None
