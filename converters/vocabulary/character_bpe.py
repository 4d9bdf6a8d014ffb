"""The vocabulary of a tokenizer.json of BPE over characters, as Gemma 3 and 4 publish it.

Its merges are kept as they are: "gemma4" as `tokenizer.ggml.model`, or as the pre-tokenizer of "gpt2".
"""

from converters.checkpoint.files import without_nulls
from converters.tensors import MetadataValue
from converters.vocabulary.added import Added, AddedTokens, merges, model_tokens
from converters.vocabulary.families import TokenizerFamily
from converters.vocabulary.files import JsonObject
from converters.vocabulary.metaspace import REPLACE
from converters.vocabulary.pretokenizer import steps
from converters.vocabulary.tokens import ADDED_SCORE, BYTE_TEXT, VocabToken, added_token, token_arrays
from edgellm.text.spm import SPACE
from edgellm.text.vocabulary import BYTE, RENDERED_TEXTS, USER_DEFINED

# It finds no space, since the normalizer has replaced them all.
_IDLE_SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}


def is_character_bpe(tokenizer: JsonObject) -> bool:
    """Whether a tokenizer.json merges characters of whole texts, with U+2581 for the space."""
    normalizers = [without_nulls(step.entries) for step in steps(tokenizer, "normalizer", "normalizers")]
    pre_tokenizers = [without_nulls(step.entries) for step in steps(tokenizer, "pre_tokenizer", "pretokenizers")]
    model = tokenizer.child("model")
    falls_back = model is not None and model.get("byte_fallback", bool) is True
    return falls_back and normalizers == [REPLACE] and pre_tokenizers == [_IDLE_SPLIT]


def character_bpe(
    tokenizer: JsonObject, settings: list[JsonObject], size: int | None, rules: TokenizerFamily
) -> dict[str, MetadataValue]:
    """Tokens, types and merges as metadata; `settings` are the files that complete tokenizer.json."""
    model = tokenizer.child("model") or tokenizer.fail("model", "is missing")
    ids = model_tokens(model)
    pairs = merges(model, ids) or model.fail("merges", "is missing or empty")
    added = AddedTokens(ids, tokenizer, size)
    for document in settings:
        added.complete(document)
    tokens = {i: VocabToken(text, score=ADDED_SCORE) for text, i in ids.items()}
    tokens |= {i: VocabToken(text, BYTE, ADDED_SCORE) for text, i in ids.items() if BYTE_TEXT.fullmatch(text)}
    tokens |= {i: _added(token, rules) for i, token in added.by_id.items() if _matches(token, ids)}
    made = {"tokenizer.ggml.model": MetadataValue("str", "gemma4" if rules.gemma4 else "gpt2")}
    if not rules.gemma4:
        made["tokenizer.ggml.pre"] = MetadataValue("str", "gemma4")
    size = max(tokens) + 1 if size is None else size
    made |= token_arrays(tokens, size, tokenizer.where, scored=rules.gemma4)
    made["tokenizer.ggml.merges"] = MetadataValue("str", [f"{left} {right}" for left, right in pairs])
    return made


def _matches(token: Added, ids: dict[str, int]) -> bool:
    """Whether an added token is found in a text. One of U+2581 is not, as texts have spaces: merges make it."""
    return token.special or SPACE not in token.text or token.text not in ids


def _added(token: Added, rules: TokenizerFamily) -> VocabToken:
    if rules.gemma4 and token.text.encode() in RENDERED_TEXTS | {b"<|tool_response>"}:
        return VocabToken(token.text, USER_DEFINED, ADDED_SCORE)
    return added_token(token.text, token.special)
