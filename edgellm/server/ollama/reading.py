"""The fields of requests to /api/chat and /api/generate."""

import math
import re
from typing import Any

from edgellm.server.failures import invalid
from edgellm.server.fields import Fields
from edgellm.server.openai.sampling import asked_logprobs, checked
from edgellm.server.openai.tools import chosen, definitions
from edgellm.text.thought import CLOSING, OPENING

_OPTIONS = {
    "num_predict": "max_tokens",
    "temperature": "temp",
    "repeat_last_n": "penalty_last_n",
    **{name: name for name in ("top_k", "top_p", "min_p", "seed", "stop", "repeat_penalty")},
    **{name: name for name in ("presence_penalty", "frequency_penalty")},
}
_LOADING = ("num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock", "numa")
"""Options about how a model is loaded, which `edgellm serve` is told on its command line."""

_DURATION = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)(ns|us|ms|s|m|h)?")
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_NONE_BELOW_0 = ("num_predict", "seed")
_EFFORTS = ("low", "medium", "high")


def options_of(body: Fields) -> dict[str, Any]:
    """Options of edgellm from `options`, `format` and `logprobs`. Raises RequestError and OptionError."""
    found: dict[str, Any] = {
        "partial": True,
        "logprobs": asked_logprobs(body, body.flag("logprobs"), "logprobs to be true"),
        "json_schema": _format(body),
    }
    if given := body.inner("options"):
        for name, option in _OPTIONS.items():
            value = given.option(name, option)
            is_unset = name in _NONE_BELOW_0 and isinstance(value, int) and value < 0
            found[option] = None if is_unset else value
        given.ignore(*_LOADING)
        given.only("typical_p", 1, 1.0)
        given.only("mirostat", 0)
        given.ignore("mirostat_tau", "mirostat_eta", "penalize_newline", "tfs_z", "vocab_only", "low_vram", "f16_kv")
        given.finish()
    return checked({name: value for name, value in found.items() if value is not None})


def _format(body: Fields) -> dict[str, Any] | None:
    form = body.get("format")
    if form in (None, ""):
        return None
    if form == "json":
        return {"type": "object"}
    if not isinstance(form, dict):
        raise invalid("format", 'must be "json" or a JSON schema')
    return form


def thinking_of(body: Fields) -> bool | str | None:
    """Whether, or how much, a model is asked to think."""
    think: bool | str | None = body.get("think")
    if not (think is None or isinstance(think, bool) or think in _EFFORTS):
        raise invalid("think", f"must be true, false, or one of: {', '.join(_EFFORTS)}")
    return think


def keep_alive_of(body: Fields) -> float | None:
    """Seconds; negative for ever. Raises RequestError."""
    given = body.get("keep_alive")
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return float(given)
    if isinstance(given, str) and (found := _DURATION.fullmatch(given)):
        return float(found[1]) * _UNITS[found[2] or "s"]
    if given is not None:
        raise invalid("keep_alive", "must be seconds, or a duration such as 5m")
    return None


def messages_of(body: Fields) -> list[dict[str, Any]]:
    """The messages of a conversation. Raises RequestError, which names the message and the field."""
    return [_message(message) for message in body.objects("messages")]


def tools_of_body(body: Fields) -> dict[str, Any]:
    """`tools`, as `Chat.reply` takes them."""
    return chosen(definitions(body), None)


def _message(message: Fields) -> dict[str, Any]:
    role = message.required_word("role", "system", "user", "assistant", "tool")
    found: dict[str, Any] = {"role": role, "content": message.text("content") or ""}
    check_no_images(message)
    thought, name = message.text("thinking"), message.text("tool_name") or message.text("name")
    call_id, calls = message.text("tool_call_id"), [_call(call) for call in message.objects("tool_calls")]
    if role == "assistant" and thought:
        found["content"] = f"{OPENING}{thought}{CLOSING}{found['content']}"
    if role == "assistant" and calls:
        found["tool_calls"] = calls
    if role == "tool":
        found |= {key: value for key, value in (("name", name), ("tool_call_id", call_id)) if value}
    message.finish()
    return found


def check_no_images(body: Fields) -> None:
    """Raises RequestError for images."""
    if body.entries("images"):
        raise invalid(body.path("images"), "are not supported: edgellm serves models of text")


def _call(call: Fields) -> dict[str, Any]:
    call.only("type", "function")
    if (function := call.inner("function")) is None:
        raise invalid(call.path("function"), "is missing")
    found = {"name": function.required("name"), "arguments": function.mapping("arguments") or {}}
    function.ignore("index", "description")
    function.finish()
    identity = call.text("id") or ""
    call.finish()
    return {"id": identity, "type": "function", "function": found}
