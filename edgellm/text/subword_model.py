"""The subword model of a file: how text without special tokens becomes ids."""

from typing import Protocol

from edgellm.errors import OptionError, UnsupportedModelError
from edgellm.fmt import printable, shown_path
from edgellm.gguf import GGUFFile
from edgellm.text.bpe import ByteLevel
from edgellm.text.character_bpe import CharacterBPE
from edgellm.text.pretokenizers import PRE_TOKENIZERS, PreTokenizer, select_pre_tokenizer
from edgellm.text.spm import SentencePiece
from edgellm.text.vocabulary import Vocabulary

SUPPORTED_MODELS = ("gpt2", "llama", "gemma4")


class SubwordModel(Protocol):
    """How text without special tokens is encoded: `ByteLevel`, `CharacterBPE` or `SentencePiece`."""

    space_prefix: bool

    def encode(self, text: str, first: bool) -> list[int]:
        """The ids of `text`; `first`: it begins the whole text or follows a special token."""

    def piece(self, token: int) -> bytes:
        """The bytes of a token that is neither a control token nor the unknown token."""


def subword_model(
    file: GGUFFile, vocabulary: Vocabulary, rules: PreTokenizer | None, unknown: int | None
) -> SubwordModel:
    """The model of an open file. `rules` are those of its pre-tokenizer, `unknown` is the id of the unknown token.

    Raises ModelFileError for a damaged vocabulary.
    """
    if rules is None:
        space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix", True)
        return SentencePiece(vocabulary, unknown or 0, space_prefix)
    merges = file.get_strings("tokenizer.ggml.merges")
    if rules.byte_level:
        return ByteLevel(vocabulary, merges, rules)
    return CharacterBPE(vocabulary, merges, unknown)


def supported_kind(file: GGUFFile) -> str:
    """`tokenizer.ggml.model`. Raises UnsupportedModelError for a kind that is not known here."""
    kind = file.get_str("tokenizer.ggml.model")
    if kind in SUPPORTED_MODELS:
        return kind
    known = ", ".join(SUPPORTED_MODELS)
    raise UnsupportedModelError(
        f'{shown_path(file.path)}: its tokenizer is "{printable(kind)}", but this version has only: '
        f"{known}; use another conversion or a later version"
    )


def pre_tokenizer_of(file: GGUFFile, kind: str, pre: str | None) -> PreTokenizer | None:
    """The rules named by `pre`, or else by the file; None for a kind without a pre-tokenizer."""
    path = shown_path(file.path)
    if kind == "gemma4" and pre is None:
        return PRE_TOKENIZERS[kind]
    if kind == "gpt2":
        return select_pre_tokenizer(path, file.get_str("tokenizer.ggml.pre", ""), pre)
    if pre is None:
        return None
    raise OptionError(f"--tokenizer-pre: the tokenizer of {path} uses none; leave it out")
