"""HTTP requests to servers that are not trusted: responses are read within bounds.

Bodies have a maximum size, bodies of errors and redirects are not read, redirects are limited, nothing is decompressed,
and `watchdog` shuts down connections that are too slow. `huggingface_hub` and httpx2 by themselves read and decompress
whole bodies into memory, and wait for ever for a server that sends a byte now and then.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgellm.fmt import size
from edgellm.hub.watchdog import Watchdog
from edgellm.system.http import http_client

if TYPE_CHECKING:
    from httpx2 import Request, Response

_TIMEOUT_S = 30.0
_MAX_REDIRECTS = 10


class UnreadableResponseError(Exception):
    """A body that is too long, or compressed although the request did not allow it."""


class HTTPResponse:
    """A response: status and headers, and the body while the connection is open."""

    def __init__(self, response: "Response", watchdog: Watchdog) -> None:
        self._response, self._watchdog = response, watchdog
        self.status, self.headers = response.status_code, response.headers
        self.reason = response.reason_phrase

    def chunks(self) -> Iterator[bytes]:
        """The chunks of the body as they arrive. Raises httpx2.TransportError."""
        from httpx2 import ReadError

        for chunk in self._response.iter_raw():
            self._watchdog.received(len(chunk))
            yield chunk
        if self._watchdog.is_slow:  # without a length, the end of the connection looks like the end of the body
            raise ReadError("shut down")

    def read(self, limit: int) -> bytes:
        """The whole body. Raises UnreadableResponseError for more than `limit` bytes, and httpx2.TransportError."""
        if self.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise UnreadableResponseError("is compressed, which was not requested")
        body = bytearray()
        for chunk in self.chunks():
            body += chunk
            if len(body) > limit:
                raise UnreadableResponseError(f"has more than {size(limit)}")
        return bytes(body)


class HTTPClient:
    """Sends requests. Raises EdgeLLMError if a proxy or certificate in the environment is invalid."""

    def __init__(self) -> None:
        self._client = http_client(_TIMEOUT_S)

    @contextmanager
    def get(self, url: str, headers: Mapping[str, str]) -> Iterator[HTTPResponse]:
        """The response to a GET request, after redirects. Raises httpx2.HTTPError and InvalidURL."""
        from httpx2 import ReadTimeout, TransportError

        with Watchdog() as watchdog:
            headers = {"User-Agent": "edgellm", "Accept-Encoding": "identity", **headers}
            request = self._client.build_request(
                "GET", url, headers=headers, extensions={"trace": watchdog.connection.trace}
            )
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
        """The first response that is no redirect. httpx2 does not send the token to another host."""
        from httpx2 import TooManyRedirects

        for _ in range(_MAX_REDIRECTS + 1):
            response = self._client.send(request, stream=True, follow_redirects=False)
            if response.next_request is None:
                return response
            response.close()
            request = response.next_request
        raise TooManyRedirects(f"more than {_MAX_REDIRECTS} redirects", request=request)
