"""The special tokens that the post-processor of a tokenizer.json adds around a text.

GGUF can represent a BOS before it, an EOS after it and a separator between two texts; other templates are read as in
llama.cpp's converter (gguf-py's SpecialVocab).
"""

from typing import Any

from converters.vocabulary.files import JsonObject
from edgellm.errors import UnsupportedModelError
from edgellm.fmt import printable


def added_around(tokenizer: JsonObject, tokens: dict[str, Any], roles: list[str]) -> dict[str, bool]:
    """Whether "bos", "eos" and "sep" are added, for the roles that the file specifies.

    `tokens` has the tokens of tokenizer_config.json by role; the template's tokens replace them there. A replaced EOS
    becomes "eot" or "eom", and that role is added to `roles`.
    """
    adds: dict[str, bool] = {}
    for processor in _processors(tokenizer):
        kind = processor.text("type")
        if kind == "ByteLevel":
            adds.setdefault("bos", False)
            adds.setdefault("eos", False)
        elif kind == "TemplateProcessing":
            _template(processor, tokens, roles, adds)
        else:
            text = f'its post-processor "{printable(str(kind))}" is not known here'
            raise UnsupportedModelError(f"{tokenizer.where}: {text}; models with another one are not converted yet")
    return adds


def first_token(tokenizer: JsonObject) -> str | None:
    """The token added before every text."""
    templates = [_ids(each, "single") for each in _processors(tokenizer) if each.text("type") == "TemplateProcessing"]
    return next((ids[0][0] for ids in templates if len(ids) > 1), None)


def _processors(tokenizer: JsonObject) -> list[JsonObject]:
    top = tokenizer.child("post_processor")
    if not top:
        return []
    return list(top.children("processors")) if top.text("type") == "Sequence" else [top]


def _template(processor: JsonObject, tokens: dict[str, Any], roles: list[str], adds: dict[str, bool]) -> None:
    single = _ids(processor, "single")
    first, last = (single[0][0], single[-1][0]) if len(single) > 1 else (None, None)
    if first:
        # Compared as written: a token given as an object differs from one given as a string.
        if first not in (tokens.get("bos"), tokens.get("cls")):
            tokens["bos"], tokens["cls"] = tokens.get("bos") or first, tokens.get("cls") or first
        adds["bos"] = first in (tokens["bos"], tokens.get("cls"))
    if last:
        if last != tokens.get("eos"):
            _replace_eos(last, tokens, roles)
        adds["eos"] = True
    inner = _between(_ids(processor, "pair"), first, last)
    if inner:
        ends = (tokens.get("sep"), tokens.get("eos"))
        adds["sep"] = (inner[0] in ends and inner[0] is not None and not last) or (len(inner) == 2 and inner[1] in ends)
        if adds["sep"]:
            tokens["sep"] = tokens.get("sep") or tokens.get("eos")


def _replace_eos(last: str, tokens: dict[str, Any], roles: list[str]) -> None:
    spare = next((role for role in ("eot", "eom") if role not in roles), None)
    if spare:
        roles.append(spare)
        tokens[spare] = tokens.get("eos")
    tokens["eos"] = last


def _between(pair: list[tuple[str | None, str | None]], first: str | None, last: str | None) -> list[str | None]:
    """The special tokens between the two texts of a template for a pair; none if it has another form."""
    start = 1 if first and pair and pair[0][0] == first else 0
    stop = -1 if last and pair and pair[-1][0] == last else None
    pair = pair[start:stop]
    if len(pair) < 3 or pair[0][1] != "A" or pair[-1][1] != "B":
        return []
    return [token for token, _ in pair[1:-1]]


def _ids(processor: JsonObject, key: str) -> list[tuple[str | None, str | None]]:
    """The items of a template: (special token, None) or (None, text), where the text is "A" or "B"."""
    items = []
    for item in processor.children(key):
        token, text = item.child("SpecialToken"), item.child("Sequence")
        items.append((token.text("id") if token else None, text.text("id") if text else None))
    return items
