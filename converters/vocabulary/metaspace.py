"""The vocabulary of a tokenizer.json made from a SentencePiece model, as Llama 2 and Mistral publish it.

It merges as SentencePiece does, with a mark for the space and byte fallback, but lists merges where
`tokenizer.ggml.model` = "llama" needs scores. The merges have the order of the original scores, so scores are derived
from it. llama.cpp's converter gives all tokens the same score, and its readers then merge from left to right.
"""

from typing import Any

from converters.checkpoint.files import without_nulls
from converters.tensors import MetadataValue
from converters.vocabulary.added import AddedTokens, merges, model_tokens
from converters.vocabulary.files import JsonObject
from converters.vocabulary.pretokenizer import steps
from converters.vocabulary.tokens import BYTE_TEXT, VocabToken, added_token, token_arrays
from edgellm.errors import UnsupportedModelError
from edgellm.fmt import printable
from edgellm.text.spm import SPACE
from edgellm.text.vocabulary import BYTE

_PREPEND = {"type": "Prepend", "prepend": SPACE}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}


def metaspace(tokenizer: JsonObject, settings: list[JsonObject], size: int | None) -> dict[str, MetadataValue]:
    """Tokens, scores and types as metadata. Raises UnsupportedModelError for a tokenizer of another kind."""
    model = tokenizer.child("model") or tokenizer.fail("model", "is missing")
    kind = model.text("type")
    if kind not in ("BPE", None) or not model.get("byte_fallback", bool):
        raise _other(
            tokenizer, f'its model is "{printable(str(kind))}", neither byte-level BPE nor BPE with byte_fallback'
        )
    space_prefix(tokenizer)
    ids = model_tokens(model)
    added = AddedTokens(ids, tokenizer, size)
    for document in settings:
        added.complete(document)
    tokens = _scored(ids, merges(model, ids))
    tokens |= {i: added_token(token.text, token.special) for i, token in added.by_id.items()}
    return {
        "tokenizer.ggml.model": MetadataValue("str", "llama"),
        "tokenizer.ggml.pre": MetadataValue("str", "default"),
        **token_arrays(tokens, max(tokens) + 1 if size is None else size, tokenizer.where, scored=True),
    }


def space_prefix(tokenizer: JsonObject) -> bool:
    """Whether a space is put before a text. Raises UnsupportedModelError for steps that SentencePiece does not have."""
    normalizers = [without_nulls(step.entries) for step in steps(tokenizer, "normalizer", "normalizers")]
    pre_tokenizers = [without_nulls(step.entries) for step in steps(tokenizer, "pre_tokenizer", "pretokenizers")]
    if not pre_tokenizers and normalizers in ([_PREPEND, REPLACE], [REPLACE]):
        return bool(normalizers[0] == _PREPEND)
    step = pre_tokenizers[0] if len(pre_tokenizers) == 1 and not normalizers else {}
    if (step.get("type"), step.get("replacement")) == ("Metaspace", SPACE):
        older = "always" if step.get("add_prefix_space", True) else "never"
        return bool(step.get("prepend_scheme", older) != "never")
    raise _other(tokenizer, f"it prepares text with {_shown(normalizers)}, then {_shown(pre_tokenizers)}")


def _scored(ids: dict[str, int], pairs: list[list[str]]) -> dict[int, VocabToken]:
    """The model's tokens: the first merge gets the highest score; tokens that no merge makes get the lowest."""
    made = dict.fromkeys(left + right for left, right in pairs)
    order = {text: rank for rank, text in enumerate((*made, *(text for text in ids if text not in made)))}
    tokens = {i: VocabToken(text, score=-float(order[text])) for text, i in ids.items()}
    return tokens | {i: VocabToken(text, BYTE) for text, i in ids.items() if BYTE_TEXT.fullmatch(text)}


def _shown(found: list[Any]) -> str:
    return printable(repr(found), 160) if found else "nothing"


def _other(tokenizer: JsonObject, problem: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"{tokenizer.where}: {problem}; tokenizers of that kind are not converted yet")
