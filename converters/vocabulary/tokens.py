"""The token arrays of a GGUF file: a text, a type and a score for every id."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from converters.tensors import MetadataValue
from edgellm.errors import ModelFileError
from edgellm.text.vocabulary import CONTROL, NORMAL, UNUSED, USER_DEFINED

MAX_TOKENS = 1 << 20
"""The most tokens of a vocabulary; the largest published ones have 262,144."""
ADDED_SCORE, UNUSED_SCORE = -1000.0, -10000.0

BYTE_TEXT = re.compile("<0x[0-9A-Fa-f]{2}>")

_LIKE_SPECIAL = ("<pad>", "<mask>", "<2mass>", "[@BOS@]")
_LIKE_SPECIAL_ENDS = (("<|", "|>"), ("<｜", "｜>"), ("<unused", ">"))


class VocabToken(NamedTuple):
    """A token; types are those of the GGUF specification. Scores are used only in SentencePiece vocabularies."""

    text: str
    type: int = NORMAL
    score: float = 0.0


def added_token(text: str, special: bool) -> VocabToken:
    """An added token: a control token if it is `special` or looks so, since some checkpoints do not mark all of them.

    Other added tokens are matched in text, with real spaces.
    """
    if special or looks_special(text):
        return VocabToken(text, CONTROL, ADDED_SCORE)
    return VocabToken(text.replace("\u2581", " "), USER_DEFINED, ADDED_SCORE)


def looks_special(text: str) -> bool:
    """Whether `text` has the form of a control token, as llama.cpp's `does_token_look_special`."""
    return text in _LIKE_SPECIAL or any(text.startswith(a) and text.endswith(b) for a, b in _LIKE_SPECIAL_ENDS)


def token_arrays(tokens: Mapping[int, VocabToken], size: int, where: str, *, scored: bool) -> dict[str, MetadataValue]:
    """The arrays for `size` tokens; an id without a token gets an unused `[PAD…]`.

    Raises ModelFileError if a token's id is `size` or more, or if `size` is larger than in any model.
    """
    if size > MAX_TOKENS:
        raise ModelFileError(f"{where}: a vocabulary of {size} tokens is beyond reason; get the checkpoint again")
    if tokens and max(tokens) >= size:
        text = "config.json's vocab_size leaves no room for it; the two files belong to different models"
        raise ModelFileError(f"{where}: it has a token {max(tokens)}, but {size} tokens are wanted: {text}")
    rows = [tokens.get(i) or VocabToken(f"[PAD{i}]", UNUSED, UNUSED_SCORE) for i in range(size)]
    made = {"tokenizer.ggml.tokens": MetadataValue("str", [row.text for row in rows])}
    if scored:
        made["tokenizer.ggml.scores"] = MetadataValue("f32", [row.score for row in rows])
    return made | {"tokenizer.ggml.token_type": MetadataValue("i32", [row.type for row in rows])}
