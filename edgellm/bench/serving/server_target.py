"""An OpenAI-compatible server, asked over `/v1/completions` with token ids.

The standard library reads the stream, as it takes half the CPU time of httpx2: where the load generator and the server
share the cores, the one lacks what the other takes. For the same reason only the fields that are counted are read, and
not all that `edgellm.remote.parts` checks.
measured on Emerald Rapids: 12 us for an event, 24 us with httpx2
"""

import json
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from edgellm.bench.serving.outcome import ReplyCounts
from edgellm.bench.serving.target import Cancellation, LoadRequest, NoRoomError, RequestCancelledError
from edgellm.errors import EdgeLLMError, OptionError
from edgellm.fmt import printable
from edgellm.remote.failures import error_text, no_server, problem_in
from edgellm.system.http import end_reading, is_loopback

FORBIDDEN = -100
"""The least `logit_bias` of OpenAI's API; a token with it does not come."""

_TIMEOUT_S = 600
_MOST_BYTES = 1 << 20
_MOST_TOKENS = 1 << 31
_SPARE_PIECES = 16
"""A token is in one piece, or two: a reply of many more pieces has no end."""

_BUSY = (429, 503)


class ServerTarget:
    """A server at `url`. `eog_ids` are the tokens that end a text."""

    def __init__(self, url: str, model: str | None, key: str | None, eog_ids: Iterable[int], temp: float) -> None:
        """Raises OptionError for a URL that is not one of HTTP, and for a key that no header can have."""
        if key and not (key.isascii() and key.isprintable()):
            raise OptionError("EDGELLM_API_KEY cannot be this: give printable ASCII")
        parts = _parts(url)
        self._scheme, self._host, self._port = parts.scheme, parts.hostname or "", parts.port
        self._netloc = printable(parts.netloc)
        self._path = f"{parts.path.rstrip('/').removesuffix('/v1')}/v1/completions"
        self.shown, self.is_local = printable(url), is_loopback(self._host)
        self._headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        self._headers |= {"Authorization": f"Bearer {key}"} if key else {}
        self._fields: dict[str, Any] = {"temperature": temp, "stream": True, "stream_options": {"include_usage": True}}
        self._fields |= {"logit_bias": {str(token): FORBIDDEN for token in eog_ids}}
        self._fields |= {"model": model} if model else {}

    def complete(self, request: LoadRequest, on_piece: Callable[[], None], cancellation: Cancellation) -> ReplyCounts:
        """As `Target.complete`."""
        body = json.dumps({**self._fields, "prompt": request.prompt, "max_tokens": request.tokens})
        stopper = _Stopper()
        with closing(self._connection()) as connection, cancellation.calls(stopper.stop):
            try:
                connection.connect()
                stopper.watch(connection.sock)
                connection.request("POST", self._path, body, self._headers)
                with closing(connection.getresponse()) as response:
                    return self._read(response, request.tokens, on_piece)
            except (OSError, ValueError, HTTPException, EdgeLLMError) as error:
                if stopper.stopped:
                    raise RequestCancelledError("the request was cancelled") from None
                if isinstance(error, EdgeLLMError):
                    raise
                if isinstance(error, ConnectionRefusedError):
                    raise no_server(self._netloc) from error
                why = printable(str(error) or type(error).__name__)
                raise EdgeLLMError(f"{self.shown}: {why}: start the server, or give its address") from error

    def _connection(self) -> HTTPConnection:
        kind = HTTPSConnection if self._scheme == "https" else HTTPConnection
        return kind(self._host, self._port, timeout=_TIMEOUT_S)

    def _read(self, response: HTTPResponse, wanted: int, on_piece: Callable[[], None]) -> ReplyCounts:
        if response.status != 200:
            told = f"{self.shown}: HTTP status {response.status}: {_reason(response.read(_MOST_BYTES))}"
            raise NoRoomError(told) if response.status in _BUSY else EdgeLLMError(told)
        usage: dict[str, Any] = {}
        pieces, ended = 0, False
        for chunk in self._chunks(response):
            for choice in _objects(chunk.get("choices")):
                if choice.get("text"):
                    pieces += 1
                    if pieces > 2 * wanted + _SPARE_PIECES:
                        raise EdgeLLMError(f"{self.shown}: the reply does not end after {wanted:,} tokens")
                    on_piece()
                ended = ended or choice.get("finish_reason") is not None
            usage = next(_objects([chunk.get("usage")]), usage)
        if not ended:
            raise EdgeLLMError(f"{self.shown}: the stream ended before the reply")
        details = next(_objects([usage.get("prompt_tokens_details")]), {})
        cached = _count(details, "cached_tokens", 0)
        return ReplyCounts(_count(usage, "prompt_tokens", 0), cached, _count(usage, "completion_tokens", pieces))

    def _chunks(self, response: HTTPResponse) -> Iterator[dict[str, Any]]:
        """The objects of a stream of server-sent events."""
        while line := response.readline(_MOST_BYTES):
            if not line.startswith(b"data:") or (data := line[5:].strip()) == b"[DONE]":
                continue
            try:
                chunk = json.loads(data)
            except (ValueError, RecursionError):
                chunk = None
            if not isinstance(chunk, dict):
                raise EdgeLLMError(f"{self.shown}: an event of the stream is no JSON object")
            if chunk.get("error"):
                raise EdgeLLMError(f"{self.shown}: {error_text(chunk) or 'it fails, and does not say why'}")
            yield chunk


def _objects(values: Any) -> Iterator[dict[str, Any]]:
    """Those of a list of values that are objects."""
    return (each for each in values if isinstance(each, dict)) if isinstance(values, list) else iter(())


def _count(found: dict[str, Any], name: str, otherwise: int) -> int:
    value = found.get(name)
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else otherwise


class _Stopper:
    """Shuts down a connection from another thread, also one that is about to be made."""

    def __init__(self) -> None:
        self.stopped = False
        self._socket: socket.socket | None = None

    def watch(self, connected: socket.socket) -> None:
        """Stop this connection when asked to, which may have been before."""
        self._socket = connected
        if self.stopped:
            self.stop()

    def stop(self) -> None:
        """Shut the connection down."""
        self.stopped = True
        if self._socket:
            end_reading(self._socket)


def _parts(url: str) -> Any:
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port
        if parts.scheme in ("http", "https") and parts.hostname and has_port and parts.username is None:
            return parts
    except ValueError:
        pass
    raise OptionError(f"option server cannot be {printable(url)!r}: give a URL such as http://127.0.0.1:8080")


def _reason(body: bytes) -> str:
    """What the body of an error says."""
    return problem_in(body) or printable(" ".join(body.decode(errors="replace").split()), 200)
