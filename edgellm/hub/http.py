"""Requests over HTTP to servers that are trusted in nothing: what they answer is read within bounds.

A listing has a largest size, a page of an error or of a redirect is not read at all, redirects are counted, nothing is
decompressed, and what comes slower than `watchdog` allows does not come. `huggingface_hub` and httpx2 by themselves
read whole pages into memory, unpacked, and wait for ever for a server that sends a byte now and then.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, size
from edgellm.hub.watchdog import Watchdog

if TYPE_CHECKING:
    from httpx2 import Client, Request, Response

_TIMEOUT_S = 30.0
_MOST_REDIRECTS = 10


class UnreadableResponseError(Exception):
    """An answer that is not read: it has too many bytes, or is compressed though this was not asked for."""


class HTTPResponse:
    """What a server answers: its status and headers, and its body while it is open."""

    def __init__(self, response: "Response", watchdog: Watchdog) -> None:
        self._response, self._watchdog = response, watchdog
        self.status, self.headers = response.status_code, response.headers
        self.reason = response.reason_phrase

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes. Raises httpx2.TransportError."""
        from httpx2 import ReadError

        for chunk in self._response.iter_raw():
            self._watchdog.received(len(chunk))
            yield chunk
        if self._watchdog.is_slow:  # a body of no known length ends where the connection does
            raise ReadError("shut down")

    def read(self, most: int) -> bytes:
        """The whole body. Raises UnreadableResponseError if it has more than `most` bytes, and httpx2.TransportError."""
        if self.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise UnreadableResponseError("comes compressed, which was not asked for")
        body = bytearray()
        for chunk in self.chunks():
            body += chunk
            if len(body) > most:
                raise UnreadableResponseError(f"has more than {size(most)}")
        return bytes(body)


class HTTPClient:
    """Sends requests. Raises EdgeLLMError where the environment forbids: a proxy or certificates that are none."""

    def __init__(self) -> None:
        self._client = _client()

    @contextmanager
    def get(self, url: str, headers: Mapping[str, str]) -> Iterator[HTTPResponse]:
        """The answer to a request, or that of the server to which it leads. Raises httpx2.HTTPError and InvalidURL."""
        from httpx2 import ReadTimeout, TransportError

        with Watchdog() as watchdog:
            asked = {"User-Agent": "edgellm", "Accept-Encoding": "identity", **headers}
            request = self._client.build_request("GET", url, headers=asked, extensions={"trace": watchdog.trace})
            try:
                response = self._follow(request)
                try:
                    yield HTTPResponse(response, watchdog)
                finally:
                    response.close()
            except TransportError as error:
                if watchdog.is_slow:
                    raise ReadTimeout(watchdog.reason, request=request) from error
                raise

    def _follow(self, request: "Request") -> "Response":
        """The first answer that is no redirect. httpx2 keeps the token from any other host."""
        from httpx2 import TooManyRedirects

        for _ in range(_MOST_REDIRECTS + 1):
            response = self._client.send(request, stream=True, follow_redirects=False)
            if response.next_request is None:
                return response
            response.close()
            request = response.next_request
        raise TooManyRedirects(f"it leads on by more than {_MOST_REDIRECTS} redirects", request=request)


def _client() -> "Client":
    """A client that makes a connection for each request: a watchdog hears of a connection only when it is made."""
    from httpx2 import Client, InvalidURL, Limits

    try:
        return Client(timeout=_TIMEOUT_S, limits=Limits(max_keepalive_connections=0))
    except (OSError, ValueError, ImportError, InvalidURL) as error:
        said = printable(" ".join(str(error).split()), 200)
        advice = "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        raise EdgeLLMError(f"the network cannot be used as the environment says ({said}); {advice}") from error
