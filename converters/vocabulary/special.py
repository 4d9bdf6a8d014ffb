"""The ids of special tokens by role, and which of them are added around a text."""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from converters.tensors import MetadataValue
from converters.vocabulary.added import ROLES, content
from converters.vocabulary.families import tokenizer_family
from converters.vocabulary.files import JsonObject
from converters.vocabulary.post_processor import added_around
from edgellm.errors import EdgeLLMWarning, ModelFileError
from edgellm.fmt import printable

# The roles in GGUF keys; other roles have no key. "seperator" is GGUF's spelling.
_KEYS = {
    "bos": "bos",
    "eos": "eos",
    "unk": "unknown",
    "sep": "seperator",
    "pad": "padding",
    "mask": "mask",
    "eot": "eot",
    "eom": "eom",
}
_AROUND = ("bos", "eos", "sep")


def special_tokens(
    tokenizer: JsonObject | None, settings: JsonObject | None, config: Mapping[str, Any], size: int, folder: str
) -> dict[str, MetadataValue]:
    """`tokenizer.ggml.*_token_id` and `add_*_token`, in llama.cpp's order.

    tokenizer_config.json (`settings`) names tokens by text, and the added tokens of tokenizer.json have their ids;
    config.json has the other ids. Raises ModelFileError for a negative id; an id that is not below `size` is left out
    with an EdgeLLMWarning.
    """
    entries = settings.entries if settings else {}
    tokens = {role: entries.get(f"{role}_token") for role in ROLES}
    roles = list(ROLES)
    adds: dict[str, bool] = {}
    if tokenizer:
        tokens["bos"], tokens["eos"] = tokens["bos"] or tokens["cls"], tokens["eos"] or tokens["sep"]
        adds = added_around(tokenizer, tokens, roles)
    found = _by_text(tokenizer, tokens, roles) if tokenizer and settings else {}
    for role, i in _by_number(config, roles, folder):
        found.setdefault(role, i)
    if tokenizer:
        texts = tokenizer_family(config).roles
        found = _by_text(tokenizer, texts, list(texts)) | found
    made = {
        f"tokenizer.ggml.{_KEYS[role]}_token_id": MetadataValue("u32", i) for role, i in _in_range(found, size, folder)
    }
    for role in roles:
        flag = entries.get(f"add_{role}_token")
        if isinstance(flag, bool):
            adds.setdefault(role, flag)
    return made | {
        f"tokenizer.ggml.add_{role}_token": MetadataValue("bool", adds[role]) for role in adds if role in _AROUND
    }


def _by_text(tokenizer: JsonObject, tokens: Mapping[str, Any], roles: list[str]) -> dict[str, int]:
    ids: dict[str, int] = {}
    for entry in tokenizer.children("added_tokens"):
        ids.setdefault(entry.text("content") or "", entry.required("id", int))
    return {role: ids[text] for role in roles if (text := content(tokens.get(role))) in ids}


def _by_number(config: Mapping[str, Any], roles: list[str], folder: str) -> Iterator[tuple[str, int]]:
    """The ids in config.json; a list of EOS ids is skipped, since none of them is the single one."""
    text_config = config.get("text_config")
    inner: Mapping[str, Any] = text_config if isinstance(text_config, Mapping) else {}
    for role in roles:
        key = f"{role}_token_id"
        i = config.get(key) if config.get(key) is not None else inner.get(key)
        if type(i) is int and i != -1:  # -1 is an older way to say that there is none
            yield role, i
        elif type(i) is not int and i is not None and role != "eos":  # a list is valid for EOS
            text = f"{key} is {printable(repr(i))}, which is no id; it is left out"
            warnings.warn(f"{folder}/config.json: {text}", EdgeLLMWarning, stacklevel=2)


def _in_range(found: Mapping[str, int], size: int, folder: str) -> Iterator[tuple[str, int]]:
    for role, i in found.items():
        if i < 0:
            text = f"{role}_token_id is {i}, which is no id; get the checkpoint again"
            raise ModelFileError(f"{folder}/config.json: {text}")
        if i >= size:
            text = f"the {role} token is {i}, but the vocabulary ends at {size}; it is left out"
            warnings.warn(f"{folder}: {text}", EdgeLLMWarning, stacklevel=2)
        elif role in _KEYS:
            yield role, i
