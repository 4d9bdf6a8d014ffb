"""The child process: requests to compile or render a template on stdin, replies on stdout, both JSON.

A request has the template's `source` and, unless it only compiles, `own` (variables of the program), `args` and
`messages`. A reply has the `text` and the `origins` of its characters as runs, or the `names` of the variables that the
template reads, or `refused`: the reason in two parts of a message.

The process ends with its parent, however the parent ends, as stdin is closed then.
"""

import json
import os
import re
import signal
from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, NamedTuple

from jinja2 import Template, TemplateSyntaxError, meta

from edgellm.process.wire import receive, send
from edgellm.text.rendering.codes import ANSWER, LAST, READY
from edgellm.text.rendering.limits import (
    TOO_LARGE,
    RenderLimits,
    address_space,
    end_on_cpu_signal,
    forbid_writing_and_processes,
)
from edgellm.text.rendering.sandbox import Sandbox
from edgellm.text.rendering.tracked_text import ARGUMENT, MESSAGE, SHARED_WORD, TEMPLATE, TrackedText, origins

_COMMON_ROLES = frozenset(["system", "developer", "user", "assistant", "tool", "function"])
_KEPT_TEMPLATES = 8
_MAX_PROBLEM_LENGTH = 1000


class _Compiled(NamedTuple):
    template: Template
    words: frozenset[str]
    names: list[str]


def main() -> None:
    """Serve until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_on_cpu_signal()
    requests, replies = os.fdopen(0, "rb"), os.fdopen(1, "wb")
    idle = address_space()
    forbid_writing_and_processes()
    send(replies, READY)
    code = READY
    while code != LAST:
        try:
            _, request = receive(requests)
        except EOFError:
            break
        limits = RenderLimits.of(len(request))
        with limits.enforced(idle):
            code, reply = _reply(request, limits)
        send(replies, code, reply)
    os._exit(0)


def _reply(request: bytes, limits: RenderLimits) -> tuple[int, bytes]:
    try:
        return ANSWER, _packed(answer(json.loads(request), limits))
    except MemoryError:
        return LAST, _packed(_refused("failed", TOO_LARGE))


def _packed(reply: Mapping[str, Any]) -> bytes:
    return json.dumps(reply, ensure_ascii=False).encode(errors="backslashreplace")


def answer(request: Mapping[str, Any], limits: RenderLimits) -> dict[str, Any]:
    """The reply to a request. Raises only MemoryError."""
    try:
        compiled = _compiled(request["source"])
        return _rendered(compiled, request, limits) if "messages" in request else {"names": compiled.names}
    except MemoryError:
        raise
    except _InvalidTemplateError as error:
        return _refused("is not valid", str(error))
    except Exception as error:  # a template can make Python raise nearly any exception
        return _refused("failed", str(error) or type(error).__name__)


class _InvalidTemplateError(Exception):
    """A template cannot be compiled."""


@lru_cache(_KEPT_TEMPLATES)
def _compiled(source: str) -> _Compiled:
    sandbox = Sandbox()
    try:
        tree = sandbox.parse(source)
        names = sorted(meta.find_undeclared_variables(tree))
        return _Compiled(sandbox.from_string(tree), sandbox.words, names)
    except MemoryError:
        raise
    except TemplateSyntaxError as error:
        raise _InvalidTemplateError(f"line {error.lineno}: {error.message}") from None
    except Exception as error:  # Python itself may fail to compile a template
        raise _InvalidTemplateError(f"{type(error).__name__}: {error}") from None


def _rendered(compiled: _Compiled, request: Mapping[str, Any], limits: RenderLimits) -> dict[str, Any]:
    known = _COMMON_ROLES | compiled.words
    args = {name: _word(value, known, ARGUMENT) for name, value in request["args"].items()}
    messages = [_message(message, known, chr(MESSAGE + i)) for i, message in enumerate(request["messages"])]
    text = compiled.template.render(_marked(request["own"], TEMPLATE) | args | {"messages": messages})
    runs = [[ord(origin), sum(1 for _ in run)] for origin, run in islice(groupby(origins(text)), limits.runs + 1)]
    if len(text) > limits.text or len(runs) > limits.runs:
        return _refused("failed", "it writes too much")
    return {"text": re.sub("[\ud800-\udfff]", "\ufffd", text), "origins": runs}


def _message(message: Any, known: frozenset[str], origin: str) -> Any:
    """A message for the template. Its role is a shared word if the template contains it, too."""
    marked = _marked(message, origin)
    return marked | {"role": _word(message["role"], known, origin)} if "role" in marked else marked


def _word(value: Any, known: frozenset[str], origin: str) -> Any:
    return _marked(value, SHARED_WORD if isinstance(value, str) and value in known else origin)


def _marked(value: Any, origin: str) -> Any:
    """A copy of a JSON value, with all text in it of that origin."""
    if isinstance(value, str):
        return TrackedText(value, origin)
    if isinstance(value, dict):
        return {TrackedText(key, origin): _marked(item, origin) for key, item in value.items()}
    return [_marked(item, origin) for item in value] if isinstance(value, list) else value


def _refused(how: str, problem: str) -> dict[str, Any]:
    return {"refused": [how, problem[:_MAX_PROBLEM_LENGTH]]}
