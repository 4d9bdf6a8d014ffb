"""The tokens of a tokenizer.json: those of its model, and the added tokens.

As in transformers, tokenizer.json lists the added tokens, tokenizer_config.json may change or complete them, and
tokens with a role (bos, eos, ...) are always special.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from converters.vocabulary.files import JsonObject
from edgellm.fmt import printable

ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


class Added(NamedTuple):
    """An added token; a `normalized` one is matched in the text after normalization."""

    text: str
    special: bool
    normalized: bool


def model_tokens(model: JsonObject) -> dict[str, int]:
    """`model.vocab`: ids by text. Raises ModelFileError for ids that are negative, duplicate or no integers."""
    vocab = model.required("vocab", dict)
    if not vocab:
        model.fail("vocab", "is empty")
    taken: set[int] = set()
    for text, i in vocab.items():
        a_number = type(i) is int and i >= 0
        if not a_number or i in taken:
            problem = "which another token is, too" if a_number else "no id"
            model.fail(f'vocab["{printable(text)}"]', f"is {printable(repr(i))}, {problem}")
        taken.add(i)
    return vocab


def merges(model: JsonObject, ids: dict[str, int]) -> list[list[str]]:
    """`model.merges` as pairs of texts, best first; the file has pairs, or texts with a space between them.

    Raises ModelFileError for a merge that is no pair, or whose parts or result are no tokens.
    """
    entries = model.get("merges", list) or ()
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in entries]
    for i, pair in enumerate(pairs):
        if not isinstance(pair, list) or [*map(type, pair)] != [str, str]:
            model.fail(f"merges[{i}]", "is not two texts")
        left, right = pair
        if left not in ids or right not in ids or left + right not in ids:
            text = f'"{printable(left)}" "{printable(right)}"'
            model.fail(f"merges[{i}]", f"{text} joins or makes what is not a token")
    return pairs


class AddedTokens:
    """Added tokens by id. `ids` are the ids of the model's tokens; an added token may be one of them.

    A role's token without an id gets the next free one, if that is below `size`.
    """

    def __init__(self, ids: dict[str, int], tokenizer: JsonObject, size: int | None) -> None:
        self.by_id: dict[int, Added] = {}
        self._ids = dict(ids)
        # The tokenizers library gives a new token this id and ignores the one in the file.
        self._next = len(ids)
        self._size = size
        for entry in tokenizer.children("added_tokens"):
            self._add(entry, entry.required("id", int))

    def complete(self, settings: JsonObject) -> None:
        """Add the tokens of tokenizer_config.json or special_tokens_map.json."""
        for i, entry in decoder_entries(settings):
            self._add(entry, self._ids.get(entry.text("content") or "", i))
        for text in role_texts(settings):
            i = self._ids.get(text, self._next)
            if text in self._ids or self._size is None or i < self._size:
                known = self.by_id.get(i)
                self._put(i, Added(text, True, known is not None and known.normalized))

    def _add(self, entry: JsonObject, i: int) -> None:
        text = entry.text("content")
        if not text:
            entry.fail("content", "is missing")
        right = self._ids.get(text, self._next)
        if i != right:
            entry.fail("id", f'is {i}, but the tokens before "{printable(text)}" make it {right}')
        special, normalized = entry.get("special", bool), entry.get("normalized", bool)
        self._put(i, Added(text, bool(special), not special if normalized is None else normalized))

    def _put(self, i: int, token: Added) -> None:
        self.by_id[i], self._ids[token.text] = token, i
        self._next = max(self._next, i + 1)


def decoder_entries(settings: JsonObject) -> Iterator[tuple[int, JsonObject]]:
    """Ids and tokens in `added_tokens_decoder` of tokenizer_config.json."""
    for key, entry in settings.child_objects("added_tokens_decoder"):
        if not re.fullmatch("[0-9]{1,9}", key):
            settings.fail(f"added_tokens_decoder.{key}", "is no token's id")
        yield int(key), entry


def content(entry: Any) -> str | None:
    """The text of a token that is given as a string or as an object with a `content`; None for others."""
    text = entry.get("content") if isinstance(entry, dict) else entry
    return text if isinstance(text, str) else None


def role_texts(settings: JsonObject) -> Iterator[str]:
    """The texts of all tokens with a role, and of those listed as special."""
    more = settings.entries.get("additional_special_tokens") or settings.entries.get("extra_special_tokens")
    listed = list(more.values()) if isinstance(more, dict) else more if isinstance(more, list) else []
    for entry in (*(settings.entries.get(f"{role}_token") for role in ROLES), *listed):
        if text := content(entry):
            yield text
