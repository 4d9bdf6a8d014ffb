"""From a request to the line that answers it, as the server would."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from threading import Lock
from typing import Any

from edgellm.batch.requests import URLS, BatchRequest
from edgellm.errors import ModelFileError
from edgellm.server.asked import Asked, Stamp
from edgellm.server.endpoint import Dialect
from edgellm.server.events import Event, ReplyEnd
from edgellm.server.failures import RequestError, failure_of, invalid
from edgellm.server.fields import Fields
from edgellm.server.json_text import encoded
from edgellm.server.openai.chat import read_chat
from edgellm.server.openai.completions import read_completions
from edgellm.server.openai.errors import COMPLETIONS, OPENAI, RESPONSES
from edgellm.server.openai.responses import read_response
from edgellm.server.work import Work

_ROUTES: dict[str, tuple[Dialect, Callable[[Fields], Asked]]] = {
    URLS["messages"]: (OPENAI, read_chat),
    URLS["prompt"]: (COMPLETIONS, read_completions),
    URLS["input"]: (RESPONSES, read_response),
}
ID_PREFIX = "batch_req_"
"""Before the identifier of an answer."""

_WORDS = {"ctx": "--ctx", "overflow": "fewer messages", "prompt": "some text"}
_SEED_BYTES = 6
"""Bytes of a seed: JSON readers that have floating-point numbers alone keep it."""

Generate = Callable[[Work, Callable[[Event], None]], None]
"""Does work, and tells what comes of it. Raises OptionError and EdgeLLMError."""


class CancelledError(Exception):
    """The run ends before a request is answered."""


@dataclass(frozen=True)
class BatchAnswer:
    """The line that answers request `index`, and what it took: tokens of prompts, those of them that were cached, and
    generated tokens."""

    index: int
    status: int
    content: bytes
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0

    @property
    def failed(self) -> bool:
        """Whether the request got an error."""
        return self.status != 200


def read_asked(request: BatchRequest) -> Asked:
    """What a request asks for; without a seed, it has one of its own. Raises RequestError and OptionError."""
    body = dict(request.body)
    if body.get("seed") is None:
        digest = sha256(request.custom_id.encode() + b"\0" + encoded(request.body)).digest()
        body["seed"] = int.from_bytes(digest[:_SEED_BYTES], "little")
    asked = _ROUTES[request.url][1](Fields(body))
    if asked.streams:
        raise invalid("stream", "must be false in a batch")
    return asked


def failure_to(request: BatchRequest, error: Exception) -> RequestError:
    """What a request is told of an error."""
    return failure_of(error, _ROUTES[request.url][0].fields, _WORDS)


def make_answer(index: int, request: BatchRequest, answer_id: str, model: str, generate: Generate) -> BatchAnswer:
    """Answer a request. Errors are answers, but those of the machine and of the model's file, which are raised.

    Raises CancelledError if the replies did not come to their ends.
    """
    ends, numbers = list[ReplyEnd](), count()
    stamp = Stamp(0, lambda: sha256(f"{answer_id} {next(numbers)}".encode()).hexdigest()[:24])
    try:
        status, body = 200, _generated(request, stamp, model, generate, ends)
    except (CancelledError, ModelFileError, MemoryError, OSError):
        raise
    except Exception as error:
        failure = failure_to(request, error)
        status, body = failure.status, _ROUTES[request.url][0].error(failure)
    response = {"status_code": status, "request_id": answer_id, "body": body}
    line = {"id": f"{ID_PREFIX}{answer_id}", "custom_id": request.custom_id, "response": response, "error": None}
    stats = [end.stats for end in ends]
    return BatchAnswer(
        index,
        status,
        encoded(line),
        sum(each.prompt_tokens for each in stats),
        sum(each.cached_tokens for each in stats),
        sum(each.generated_tokens for each in stats),
    )


def _generated(
    request: BatchRequest, stamp: Stamp, model: str, generate: Generate, ends: list[ReplyEnd]
) -> Mapping[str, Any]:
    """The body of the answer; `ends` gets the ends of its replies."""
    asked = read_asked(request)
    maker, lock = asked.make(model, stamp), Lock()  # replies of one request come from several threads

    def take(event: Event) -> None:
        if isinstance(event, ReplyEnd):
            # What is cached depends on what was computed before, what is drafted on time: so would the answer's bytes.
            ends.append(event)
            event = replace(event, stats=replace(event.stats, cached_tokens=0, drafted=0, accepted=0))
        with lock:
            for _ in maker.parts(event):
                pass

    generate(asked.work, take)
    if len(ends) < asked.work.n * len(asked.work.prompts):
        raise CancelledError
    return maker.whole()
