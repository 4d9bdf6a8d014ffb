"""The fields of requests that set options of edgellm, checked before a request waits for others."""

import re
from typing import Any

from edgellm.options import GenerationOptions
from edgellm.server.failures import invalid
from edgellm.server.fields import Fields

_SAME = (
    "top_k",
    "top_p",
    "min_p",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "penalty_last_n",
    "seed",
    "stop",
    "regex",
    "grammar",
    "think_max",
)
"""Fields with the name of the option that they set. OpenAI's API has five of them; clients pass the others beside."""

_IGNORED = (
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "metadata",
    "service_tier",
    "store",
)
"""Fields about accounts of users and computers of OpenAI. Nothing is stored here."""

MAX_TOP_LOGPROBS = 20
_TOKEN_ID = re.compile(r"[0-9]{1,9}")


def sampling_options(body: Fields) -> dict[str, Any]:
    """Options of edgellm from a body. Raises RequestError and OptionError."""
    options = {name: body.option(name, name) for name in _SAME}
    options |= {"temp": body.option("temperature", "temp"), "logit_bias": _biases(body)}
    body.ignore(*_IGNORED)
    given = {name: value for name, value in options.items() if value is not None}
    return {**given, "partial": True, "logprobs": False}


def checked(options: dict[str, Any]) -> dict[str, Any]:
    """The same options. Raises OptionError if one is impossible, or two contradict each other."""
    GenerationOptions.from_kwargs(**{name: options[name] for name in options if name in GenerationOptions.names()})
    return options


def asked_logprobs(body: Fields, asked: bool, way: str) -> bool | int:
    """The option `logprobs`, of `top_logprobs`, which needs `way` of asking for them. Raises RequestError."""
    top = body.integer("top_logprobs", 0, MAX_TOP_LOGPROBS)
    if top and not asked:
        raise invalid("top_logprobs", f"needs {way}")
    return (top or True) if asked else False


def _biases(body: Fields) -> dict[int, Any] | None:
    """`logit_bias`, whose keys JSON has as text."""
    given = body.mapping("logit_bias")
    if given is None:
        return None
    for token in given:
        if not _TOKEN_ID.fullmatch(token):
            raise invalid("logit_bias", "must have token ids as keys")
    return {int(token): bias for token, bias in given.items()}


def response_format(body: Fields) -> dict[str, Any]:
    """The option that holds a reply to the JSON that `response_format` asks for, if it does."""
    if (form := body.inner("response_format")) is None:
        return {}
    kind = form.word("type", "text", "json_object", "json_schema")
    if kind is None:
        raise invalid("response_format.type", "is missing: give text, json_object or json_schema")
    found = {"json_object": {"type": "object"}, "text": None}.get(kind)
    if kind == "json_schema":
        if (named := form.inner("json_schema")) is None:
            raise invalid("response_format.json_schema", "is missing")
        found = schema_of(named)
    form.finish()
    return {} if found is None else {"json_schema": found}


def schema_of(named: Fields) -> dict[str, Any]:
    """The schema of an object with `name`, `schema` and `strict`; replies always follow it strictly."""
    named.ignore("name", "description", "strict")
    found = named.mapping("schema")
    named.finish()
    return {} if found is None else found
