"""The vocabulary of a tokenizer.model, SentencePiece's own format, for `tokenizer.ggml.model` = "llama"."""

import warnings

from converters.tensors import MetadataValue
from converters.vocabulary.added import decoder_entries
from converters.vocabulary.files import JsonObject
from converters.vocabulary.model_proto import UNIGRAM, ModelProto
from converters.vocabulary.tokens import ADDED_SCORE, VocabToken, added_token, token_arrays
from edgellm.errors import EdgeLLMWarning, ModelFileError
from edgellm.fmt import printable
from edgellm.text.vocabulary import NORMAL, USER_DEFINED


def sentencepiece(
    model: ModelProto,
    tokenizer: JsonObject | None,
    added: JsonObject | None,
    settings: JsonObject | None,
    size: int | None,
    where: str,
) -> dict[str, MetadataValue]:
    """Tokens, scores and types as metadata; `added` is added_tokens.json, `settings` tokenizer_config.json.

    `tokenizer`, the tokenizer.json, is used for tokens that `model` lacks or calls user-defined. Tokens from `size` on,
    for which the weights have no row, are left out with an EdgeLLMWarning.
    """
    if model.kind == UNIGRAM:
        text = "a unigram model, which readers of GGUF files merge as if it were BPE; token ids may differ at times"
        warnings.warn(f"{where}: {text}", EdgeLLMWarning, stacklevel=2)
    size = len(model.pieces) if size is None else size
    # User-defined pieces merge like normal ones, unless the JSON files name them.
    pieces = {i: p._replace(type=NORMAL) if p.type == USER_DEFINED else p for i, p in enumerate(model.pieces)}
    own = {i for i, piece in enumerate(model.pieces) if piece.type != USER_DEFINED}
    pieces |= {i: piece for i, piece in _listed(tokenizer).items() if i not in own}
    pieces |= _added(added) | _decoder(settings)
    beyond = sorted(i for i in pieces if i >= size)
    if beyond:
        found = f"{len(beyond)} tokens from {beyond[0]} on are left out"
        warnings.warn(f"{where}: {found}, since the vocabulary ends at {size}", EdgeLLMWarning, stacklevel=2)
    return {
        "tokenizer.ggml.model": MetadataValue("str", "llama"),
        "tokenizer.ggml.pre": MetadataValue("str", "default"),
        **token_arrays({i: piece for i, piece in pieces.items() if i < size}, size, where, scored=True),
    }


def check_same_ids(model: ModelProto, tokenizer: JsonObject, where: str) -> None:
    """Raise ModelFileError if tokenizer.json, the file that transformers reads, gives a token another id."""
    part = tokenizer.child("model")
    vocab = part.entries.get("vocab") if part else None
    if not isinstance(vocab, dict):
        return
    for i, piece in enumerate(model.pieces):
        if piece.type == NORMAL and vocab.get(piece.text) != i:
            text = f'is of another model than tokenizer.json: its token {i} is "{printable(piece.text)}"'
            raise ModelFileError(f"{where}: {text}; get it again")


def _listed(tokenizer: JsonObject | None) -> dict[int, VocabToken]:
    """The added tokens of tokenizer.json by id."""
    pieces = {}
    for entry in tokenizer.children("added_tokens") if tokenizer else ():
        i, text = entry.required("id", int), entry.text("content")
        if i < 0 or not text:
            entry.fail("id", "is no id of a token with a text")
        pieces[i] = added_token(text, bool(entry.get("special", bool)))
    return pieces


def _added(added: JsonObject | None) -> dict[int, VocabToken]:
    """The tokens of added_tokens.json by id."""
    if not added:
        return {}
    pieces = {}
    for text in added.entries:
        i = added.required(text, int)
        if i < 0 or i in pieces:
            added.fail(text, f"is {i}, which is no id, or another token's")
        pieces[i] = VocabToken(text, USER_DEFINED, ADDED_SCORE)
    return pieces


def _decoder(settings: JsonObject | None) -> dict[int, VocabToken]:
    """The tokens of tokenizer_config.json by id."""
    pieces = {}
    for i, entry in decoder_entries(settings) if settings else ():
        text = entry.text("content") or entry.fail("content", "is missing")
        pieces[i] = added_token(text, bool(entry.get("special", bool)))
    return pieces
