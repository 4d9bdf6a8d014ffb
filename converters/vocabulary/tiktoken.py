"""The vocabulary of a tiktoken.model, for checkpoints without a tokenizer.json, such as Kimi Linear and Kimi K2.

A line holds a token in Base64 and its rank, which is its id. Pairs merge in the order of the rank of what they make.
The ids behind them are of special tokens: those that `added_tokens_decoder` of tokenizer_config.json names, others
reserved. How text is cut into words is said in the code of the model alone, so that it must be a known family.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from itertools import pairwise

from converters.tensors import MetadataValue
from converters.vocabulary.added import decoder_entries
from converters.vocabulary.files import JsonObject
from converters.vocabulary.tokens import MAX_TOKENS, VocabToken, added_token, token_arrays
from edgellm.errors import ModelFileError
from edgellm.text.bpe import LETTER_OF

_RESERVED = 256
"""Ids of special tokens, as in tokenization_kimi.py; two more have no row in the embeddings of published models."""
_LONGEST = 1 << 10  # bytes of a token; the longest published one has 128


def tiktoken(
    data: bytes, settings: JsonObject | None, size: int | None, pre: str, where: str
) -> dict[str, MetadataValue]:
    """Tokens, types and merges as metadata, for `size` tokens; `pre` is the name of the pre-tokenizer.

    Raises ModelFileError for a damaged file.
    """
    ranked = _ranked(data, where)
    total = len(ranked) + _RESERVED if size is None else size
    named = dict(decoder_entries(settings)) if settings else {}
    tokens = {rank: VocabToken(_spelled(token)) for rank, token in enumerate(ranked)}
    for i in range(len(ranked), min(total, len(ranked) + _RESERVED)):
        text = named[i].text("content") if i in named else None
        special = named[i].get("special", bool) if text else True
        tokens[i] = added_token(text or f"<|reserved_token_{i}|>", bool(special))
    return {
        "tokenizer.ggml.model": MetadataValue("str", "gpt2"),
        "tokenizer.ggml.pre": MetadataValue("str", pre),
        **token_arrays(tokens, total, where, scored=False),
        "tokenizer.ggml.merges": MetadataValue("str", list(_merges(ranked))),
    }


def _ranked(data: bytes, where: str) -> list[bytes]:
    """The bytes of all tokens by rank, which must count from 0."""
    found: list[bytes] = []
    for number, line in enumerate(data.splitlines(), 1):
        encoded, _, rank = line.partition(b" ")
        try:
            token = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            token = b""
        if rank.strip() != str(len(found)).encode() or not 0 < len(token) <= _LONGEST or len(found) == MAX_TOKENS:
            raise ModelFileError(f"{where}: line {number} is no token of rank {len(found)}; get it again")
        found.append(token)
    if len({*found}) < len(found) or not {bytes([i]) for i in range(256)} <= {*found}:
        raise ModelFileError(f"{where}: it lacks some of the 256 bytes, or has a token twice; get it again")
    return found


def _merges(ranked: list[bytes]) -> Iterator[str]:
    """The pair that makes each token: its last two parts after all merges of lower ranks, as they were learned."""
    rank_of = {token: rank for rank, token in enumerate(ranked)}
    for rank, token in enumerate(ranked):
        if len(token) > 1 and len(parts := _merged(token, rank, rank_of)) == 2:
            yield " ".join(map(_spelled, parts))


def _merged(token: bytes, limit: int, rank_of: Mapping[bytes, int]) -> list[bytes]:
    """The parts of a token after all merges whose rank is below `limit`, the lowest and leftmost first."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        ranks = [rank_of.get(left + right, limit) for left, right in pairwise(parts)]
        lowest = min(ranks)
        if lowest >= limit:
            break
        at = ranks.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def _spelled(data: bytes) -> str:
    return "".join(map(LETTER_OF.__getitem__, data))
