"""The models of a server, as `/v1/models` lists them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgellm.fmt import printable
from edgellm.remote.failures import ServerError

_MAX_NAME = 500
_SHOWN = 12
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "n_ctx")
"""Names that vLLM, OpenRouter, Groq and llama.cpp have for the context of a model."""

_MAX_CONTEXT = 1 << 40


@dataclass(frozen=True)
class ListedModel:
    """A model: its name at the server, who owns it by the server's words, and its context in tokens, 0 if unknown."""

    name: str
    owner: str = ""
    ctx: int = 0


class UnnamedModelError(ServerError):
    """A server has several models, and none was named."""


def listed_models(body: bytes, host: str) -> list[ListedModel]:
    """The models of an answer. Raises ServerError if it is no list of models."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    entries = found.get("data", found.get("models")) if isinstance(found, Mapping) else found
    if not isinstance(entries, list):
        raise ServerError(f"{host} does not list its models as OpenAI's API does: check the address")
    return list({model.name: model for model in _models(entries)}.values())


def _models(entries: list[Any]) -> Iterator[ListedModel]:
    for entry in entries:
        if isinstance(entry, Mapping) and isinstance(name := entry.get("id", entry.get("name")), str):
            owner = entry.get("owned_by")
            if 0 < len(name) <= _MAX_NAME and name.isprintable():
                yield ListedModel(name, owner if isinstance(owner, str) else "", _context(entry))


def _context(entry: Mapping[str, Any]) -> int:
    meta = entry.get("meta")
    places = (entry, meta if isinstance(meta, Mapping) else {})
    values = (place.get(name) for name in _CONTEXT_FIELDS for place in places)
    return next((value for value in values if type(value) is int and 0 < value < _MAX_CONTEXT), 0)


def chosen_model(models: Sequence[ListedModel], name: str, host: str) -> ListedModel:
    """The model of a name, or the only one if the name is empty. Raises ServerError, which lists what there is."""
    if not name:
        if len(models) == 1:
            return models[0]
        if models:
            raise UnnamedModelError(f"name one of the models at {host}: {_names(models)}")
        raise ServerError(f"{host} has no models")
    same = (model for model in models if model.name.casefold() in (name.casefold(), f"{name}:latest".casefold()))
    if found := next(same, None):
        return found
    base = name.rpartition(":")[0]  # OpenRouter does not list variants, such as NAME:free
    if not models or any(model.name == base for model in models):
        return ListedModel(name)
    raise ServerError(f"{host} has no model {printable(name, 200)}; it has {_names(models)}")


def _names(models: Sequence[ListedModel]) -> str:
    more = f", and {len(models) - _SHOWN:,} more" if len(models) > _SHOWN else ""
    return ", ".join(printable(model.name, 100) for model in models[:_SHOWN]) + more
