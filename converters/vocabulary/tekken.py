"""The vocabulary of a tekken.json, Mistral's own format, for checkpoints without a tokenizer.json.

    config           pattern (words), default_vocab_size, default_num_special_tokens
    vocab            the tokens in the order of their ranks: `token_bytes` in Base64
    special_tokens   `rank` and `token_str` of each; missing in older files, which all have the same

Ids are first those of special tokens, then those of the ranks. Pairs merge in the order of the rank of what they make,
as in tiktoken; a merge is listed for every way to make a token of two others.
"""

import base64
import binascii
from collections.abc import Iterator

from converters.tensors import MetadataValue
from converters.vocabulary.files import JsonObject
from converters.vocabulary.tokens import MAX_TOKENS, VocabToken, token_arrays
from edgellm.errors import UnsupportedModelError
from edgellm.fmt import printable
from edgellm.text.bpe import LETTER_OF
from edgellm.text.vocabulary import CONTROL
from edgellm.text.word_patterns import TEKKEN

# The special tokens of files that list none, as in mistral_common/tokens/tokenizers/tekken.py.
_OLDER = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] "
    "[IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
)
_ROLES = {"bos": "<s>", "eos": "</s>", "unknown": "<unk>", "padding": "<pad>"}
_LONGEST = 1 << 10  # bytes of a token; the longest published one has 128


def tekken(document: JsonObject, size: int | None) -> dict[str, MetadataValue]:
    """Tokens, types, merges and roles as metadata, for `size` tokens.

    Raises ModelFileError for a damaged file, UnsupportedModelError if it splits words in an unknown way.
    """
    config = document.child("config") or document.fail("config", "is missing")
    pattern = config.required("pattern", str)
    if pattern != TEKKEN:
        text = f'it splits with "{printable(pattern, 200)}", which is not known here'
        raise UnsupportedModelError(f"{document.where}: {text}; models with another pattern are not converted yet")
    reserved, total = config.required("default_num_special_tokens", int), config.required("default_vocab_size", int)
    if reserved > MAX_TOKENS:
        config.fail("default_num_special_tokens", f"is {reserved}, more than {MAX_TOKENS}")
    special = _special(document, reserved)
    ranked = _ranked(document, total - reserved)
    tokens = {i: VocabToken(text, CONTROL) for i, text in enumerate(special)}
    tokens |= {reserved + rank: VocabToken(_spelled(data)) for rank, data in enumerate(ranked)}
    roles = {role: special.index(text) for role, text in _ROLES.items() if text in special}
    return {
        "tokenizer.ggml.model": MetadataValue("str", "gpt2"),
        "tokenizer.ggml.pre": MetadataValue("str", "tekken"),
        **token_arrays(tokens, total if size is None else size, document.where, scored=True),
        "tokenizer.ggml.merges": MetadataValue("str", list(_merges(ranked))),
        **{f"tokenizer.ggml.{role}_token_id": MetadataValue("u32", i) for role, i in roles.items()},
        "tokenizer.ggml.add_bos_token": MetadataValue("bool", True),
        "tokenizer.ggml.add_eos_token": MetadataValue("bool", False),
    }


def _special(document: JsonObject, reserved: int) -> list[str]:
    """The texts of the `reserved` special tokens by id; ids without one get a text of their own."""
    texts = dict(enumerate(_OLDER.split()))
    if document.get("special_tokens", list):
        texts = {
            entry.required("rank", int): entry.required("token_str", str)
            for entry in document.children("special_tokens")
        }
    if not 0 < len(texts) <= reserved or not all(0 <= i < reserved for i in texts):
        document.fail("special_tokens", f"has ids outside the {reserved} that config reserves")
    made = [texts.get(i) or f"<SPECIAL_{i}>" for i in range(reserved)]
    return made if len({*made}) == reserved else document.fail("special_tokens", "has a token twice")


def _ranked(document: JsonObject, count: int) -> list[bytes]:
    """The bytes of the first `count` tokens by rank; the first 256 are the single bytes."""
    found = []
    for rank, entry in enumerate(document.children("vocab")):
        if rank == count:
            break
        try:
            data = base64.b64decode(entry.required("token_bytes", str), validate=True)
        except (binascii.Error, ValueError):
            entry.fail("token_bytes", "is not Base64")
        if entry.get("rank", int) not in (None, rank) or not 0 < len(data) <= _LONGEST:
            entry.fail("rank", "is out of order, or the token has no bytes")
        found.append(data)
    complete = 256 <= count <= len(found) and len({*found}) == len(found)
    if not complete or {*found[:256]} != {bytes([i]) for i in range(256)}:
        document.fail("vocab", f"has not the 256 bytes and {count} different tokens in all")
    return found


def _merges(ranked: list[bytes]) -> Iterator[str]:
    rank_of = {data: rank for rank, data in enumerate(ranked)}
    for data in ranked[256:]:
        halves = ((data[:at], data[at:]) for at in range(1, len(data)))
        pairs = [pair for pair in halves if pair[0] in rank_of and pair[1] in rank_of]
        for left, right in sorted(pairs, key=lambda pair: (rank_of[pair[0]], rank_of[pair[1]])):
            yield f"{_spelled(left)} {_spelled(right)}"


def _spelled(data: bytes) -> str:
    return "".join(map(LETTER_OF.__getitem__, data))
