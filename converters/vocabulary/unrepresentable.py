"""Warnings about tokenizer features that GGUF cannot represent: token ids may differ in readers of the file."""

import warnings
from collections.abc import Iterator

from converters.vocabulary.added import decoder_entries
from converters.vocabulary.files import JsonObject
from converters.vocabulary.model_proto import ModelProto
from converters.vocabulary.pretokenizer import steps
from edgellm.errors import EdgeLLMWarning
from edgellm.fmt import counted, printable
from edgellm.text.pretokenizers import PRE_TOKENIZERS

_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_BESIDE = ("lstrip", "rstrip", "single_word")


def warn_unrepresentable(
    where: str, tokenizer: JsonObject | None, settings: JsonObject | None, model: ModelProto | None, pre: object
) -> None:
    """Issue an EdgeLLMWarning for each feature that the new file lacks.

    `where` names the checkpoint. `pre` is the name of the pre-tokenizer in the file, or None: some names imply that
    text is composed (NFC).
    """
    composes = isinstance(pre, str) and PRE_TOKENIZERS[pre].nfc
    for what in (*_of_json(tokenizer, composes), *_of_added(tokenizer, settings), *_of_model(model)):
        text = f"{where}: its tokenizer {what}; GGUF cannot represent this, and llama.cpp does not do it"
        warnings.warn(text, EdgeLLMWarning, stacklevel=3)


def _of_json(tokenizer: JsonObject | None, composes: bool) -> Iterator[str]:
    if not tokenizer:
        return
    for kind in (step.text("type") for step in steps(tokenizer, "normalizer", "normalizers")):
        if kind in _FORMS and not (kind == "NFC" and composes):
            yield f"normalizes text to Unicode {kind}, such as é written as one character"
    pre_tokenizers = steps(tokenizer, "pre_tokenizer", "pretokenizers")
    if any(step.entries.get("prepend_scheme") == "first" for step in pre_tokenizers):
        yield "puts a space before the first text only, not after each control token (prepend_scheme: first)"


def _of_added(tokenizer: JsonObject | None, settings: JsonObject | None) -> Iterator[str]:
    """Added tokens that match depending on the text beside them."""
    entries = list(tokenizer.children("added_tokens")) if tokenizer else []
    entries += [entry for _, entry in decoder_entries(settings)] if settings else []
    for option in _BESIDE:
        texts = dict.fromkeys(entry.text("content") or "" for entry in entries if entry.entries.get(option) is True)
        if texts:
            what = f"{counted(len(texts), 'added token')}, such as {printable(next(iter(texts)))}"
            yield f"matches {what}, depending on the text beside them ({option})"


def _of_model(model: ModelProto | None) -> Iterator[str]:
    if model and model.normalizes:
        yield "replaces some characters before it splits text (precompiled_charsmap)"
    if model and model.single_spaces:
        yield "merges repeated spaces into one, and strips the ends (remove_extra_whitespaces)"
