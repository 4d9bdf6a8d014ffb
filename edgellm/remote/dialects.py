"""Fields that servers have beyond OpenAI's API. Which server it is, `owned_by` of its models says."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Form = Callable[[str], Mapping[str, Any]]
_META = re.compile(r"[\\^$.|?*+()\[\]{}/]")


@dataclass(frozen=True)
class ServerFields:
    """`fields` has the names of options that the server calls otherwise, None for those that it does not know.

    `forms` makes the fields that hold a reply to a regex, a grammar, or choices as a JSON list. `limit` is the field
    for the most tokens. `continuing` are the fields with which the last message, one of the assistant, is continued;
    None for a server that is not known to do that.
    """

    fields: Mapping[str, str | None] = field(default_factory=dict)
    forms: Mapping[str, Form] = field(default_factory=dict)
    limit: str = "max_tokens"
    continuing: Mapping[str, Any] | None = None


def _gbnf(choices: str) -> dict[str, Any]:
    """A grammar in llama.cpp's notation, whose texts are written as those of JSON."""
    return {"grammar": f"root ::= {' | '.join(json.dumps(each, ensure_ascii=False) for each in json.loads(choices))}"}


def _alternatives(choices: str) -> dict[str, Any]:
    escaped = (_META.sub(r"\\\g<0>", choice) for choice in json.loads(choices))
    return {"regex": f"({'|'.join(escaped)})"}


_NO_THINK_MAX: Mapping[str, str | None] = {"think_max": None}
_CONTINUING = {"continue_final_message": True, "add_generation_prompt": False}
_EDGELLM = ServerFields(
    forms={"regex": lambda source: {"regex": source}, "grammar": lambda source: {"grammar": source}}
    | {"choices": _alternatives},
    continuing=_CONTINUING,
)
_VLLM = ServerFields(
    {**_NO_THINK_MAX, "repeat_penalty": "repetition_penalty", "penalty_last_n": None},
    {
        "regex": lambda source: {"structured_outputs": {"regex": source}},
        "grammar": lambda source: {"structured_outputs": {"grammar": source}},
        "choices": lambda source: {"structured_outputs": {"choice": json.loads(source)}},
    },
    continuing=_CONTINUING,
)
_LLAMA_CPP = ServerFields(
    {**_NO_THINK_MAX, "penalty_last_n": "repeat_last_n"},
    {"grammar": lambda source: {"grammar": source}, "choices": _gbnf},
)
_OTHER = ServerFields({**_NO_THINK_MAX, "repeat_penalty": "repetition_penalty", "penalty_last_n": None})
_OPENAI = ServerFields(
    dict.fromkeys(("top_k", "min_p", "repeat_penalty", "penalty_last_n", "think_max")), limit="max_completion_tokens"
)

_BY_OWNER = {"edgellm": _EDGELLM, "vllm": _VLLM, "llamacpp": _LLAMA_CPP}


def dialect_of(owner: str, is_openai: bool) -> ServerFields:
    """The fields of a server whose models `owner` owns."""
    return _OPENAI if is_openai else _BY_OWNER.get(owner, _OTHER)
