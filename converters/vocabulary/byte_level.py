"""The vocabulary of a byte-level BPE tokenizer.json, for `tokenizer.ggml.model` = "gpt2"."""

from converters.tensors import MetadataValue
from converters.vocabulary.added import AddedTokens, merges, model_tokens
from converters.vocabulary.families import TokenizerFamily
from converters.vocabulary.files import JsonObject
from converters.vocabulary.post_processor import first_token
from converters.vocabulary.pretokenizer import pre_tokenizer, steps
from converters.vocabulary.tokens import VocabToken, added_token, token_arrays
from edgellm.text.bpe import BYTE_OF


def is_byte_level(tokenizer: JsonObject) -> bool:
    """Whether a tokenizer.json is byte-level BPE, which spells bytes with letters, as GPT-2 does."""
    return any(step.text("type") == "ByteLevel" for step in steps(tokenizer, "pre_tokenizer", "pretokenizers"))


def byte_level(
    tokenizer: JsonObject, settings: list[JsonObject], size: int | None, rules: TokenizerFamily
) -> dict[str, MetadataValue]:
    """Tokens, types and merges as metadata; `settings` are the files that complete tokenizer.json."""
    model = tokenizer.child("model") or tokenizer.fail("model", "is missing")
    if model.get("byte_fallback", bool):
        model.fail("byte_fallback", "is true, but the pre-tokenizer spells bytes already")
    name = pre_tokenizer(tokenizer, model, first_token(tokenizer) is not None, rules.pre)
    ids = model_tokens(model)
    pairs = merges(model, ids) or model.fail("merges", "is missing or empty")
    added = AddedTokens(ids, tokenizer, size)
    for document in settings:
        added.complete(document)
    tokens = {i: VocabToken(text) for text, i in ids.items()}
    for i, token in added.by_id.items():
        text = token.text if token.normalized else _decoded(token.text)
        tokens[i] = added_token(text, token.special or text in rules.control)
    return {
        "tokenizer.ggml.model": MetadataValue("str", "gpt2"),
        "tokenizer.ggml.pre": MetadataValue("str", name),
        **token_arrays(tokens, max(tokens) + 1 if size is None else size, tokenizer.where, scored=False),
        "tokenizer.ggml.merges": MetadataValue(
            "str", [_spelled(left) + " " + _spelled(right) for left, right in pairs]
        ),
    }


def _spelled(part: str) -> str:
    """One side of a merge, with spaces spelled as GPT-2's letter: GGUF separates the two sides by a space."""
    return part.replace(" ", "Ġ")


def _decoded(text: str) -> str:
    """The text of an added token: the bytes that its letters spell if those are UTF-8, else the letters."""
    try:
        return bytes(BYTE_OF[letter] for letter in text).decode()
    except (KeyError, UnicodeDecodeError):
        return text
