"""What failures of requests to a server mean for a user: one line each."""

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.fmt import duration, printable
from edgellm.remote.key import KEY_VARIABLE
from edgellm.system.http import retry_after_seconds

_SHOWN = 300
_ADVICE = {
    400: "",
    403: "; check what the key may do",
    404: "; check the address and the name of the model",
    405: "; check the address: this path has no such route",
    413: "; the conversation is too long for it: begin a new one",
    422: "",
}
_KEY = f"{KEY_VARIABLE} or --server-key"


class ServerError(EdgeLLMError):
    """A server cannot be reached, refuses a request, or answers what no such server would."""


class StatusError(ServerError):
    """A server answers with an error status; `status` is that, `problem` the server's own words."""

    def __init__(self, message: str, status: int, problem: str) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem


def transport_error(error: Exception, host: str) -> ServerError:
    """The error for a failure of the connection."""
    from httpx2 import ConnectTimeout, InvalidURL, ProxyError, ReadTimeout, RemoteProtocolError

    causes, detail = list(_causes(error)), printable(" ".join(str(error).split()) or type(error).__name__, 200)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return ServerError(f"the certificate of {host} is not valid ({detail}): SSL_CERT_FILE names another authority")
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return ServerError(f"{host} does not speak TLS as expected ({detail}): is it https or http?")
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return ServerError(f"{host} was not found: check the address and the network")
    if any(isinstance(cause, ConnectionRefusedError | FileNotFoundError) for cause in causes):
        return no_server(host)
    if isinstance(error, InvalidURL):
        return ServerError(f"{host} is no host of a server ({detail}): check the address")
    if isinstance(error, ConnectTimeout):
        return ServerError(f"{host} does not answer: check the address and the network")
    if isinstance(error, ReadTimeout):
        return ServerError(f"{host} sent nothing for a long time: it is overloaded or hangs; try again")
    if isinstance(error, ProxyError):
        return ServerError(f"the proxy does not reach {host} ({detail}): check HTTPS_PROXY and NO_PROXY")
    if isinstance(error, RemoteProtocolError):
        return ServerError(f"{host} ended the connection, or is no HTTP server ({detail}); try again")
    return ServerError(f"the connection to {host} failed ({detail}); try again")


def no_server(host: str) -> ServerError:
    """The error for an address at which nothing listens."""
    return ServerError(f"no server answers at {host}: start it, or check the address")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error:
        yield error
        error = error.__cause__ or error.__context__


def status_error(host: str, status: int, headers: Mapping[str, str], body: bytes, key: str | None) -> StatusError:
    """The error for an error status; `body` is the beginning of the answer."""
    problem = without_key(problem_in(body), key)
    line = _status_line(host, status, headers, problem, key is not None)
    return StatusError(without_key(line, key), status, problem)


def _status_line(host: str, status: int, headers: Mapping[str, str], problem: str, has_key: bool) -> str:
    said = f": {problem}" if problem else ""
    if 300 <= status < 400:
        place = printable(headers.get("location", "nowhere"), 200)
        return f"{host} redirects to {place}, which is not followed: give that address if you trust it"
    if status == 401:
        return f"{host} refuses the key (401): check {_KEY}" if has_key else f"{host} wants a key (401): give {_KEY}"
    if status == 429:
        return f"{host} has too many requests (429){said}; try again {_when(headers)}"
    if status >= 500:
        return f"{host} fails ({status}){said}; try again {_when(headers)}"
    return f"{host} refuses the request ({status}){said}{_ADVICE.get(status, '')}"


def _when(headers: Mapping[str, str]) -> str:
    seconds = retry_after_seconds(headers)
    if not seconds:
        return "later"
    return f"in {seconds:.0f} s" if seconds < 100 else f"in {duration(seconds)}"


def problem_in(body: bytes) -> str:
    """The server's own words about an error; empty if the body is not JSON, or has none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return error_text(found)


def error_text(found: Any, depth: int = 3) -> str:
    """The message of an error object: OpenAI's, ollama's or FastAPI's; safe for a terminal, empty if there is none.

    `depth` is the most objects, one in the other, that are looked into.
    """
    if isinstance(found, Mapping) and depth:
        named = (found.get(name) for name in ("error", "message", "detail"))
        return next((text for each in named if (text := error_text(each, depth - 1))), "")
    return printable(" ".join(found.split()), _SHOWN) if isinstance(found, str) else ""


def without_key(text: str, key: str | None) -> str:
    """A text of a server without the key, which some servers repeat."""
    return text.replace(key, "…") if key else text
