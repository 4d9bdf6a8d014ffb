"""Requests to a server. Answers are read within bounds, and redirects are not followed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from edgellm.remote.address import ServerAddress
from edgellm.remote.failures import ServerError, status_error, transport_error
from edgellm.system.http import RequestConnection, http_client

if TYPE_CHECKING:
    from httpx2 import Client, Response

CONNECT_S = 10.0
SILENCE_S = 600.0
"""Seconds without a byte, after which a request fails: long prompts take minutes on slow machines."""

LISTING_S = 30.0
"""Seconds that a list of models may take from beginning to end."""

MAX_LISTING_BYTES = 4 << 20
MAX_ERROR_BYTES = 64 << 10


class ServerClient:
    """Sends requests to one server, each with the key, if there is one, and on a connection of its own.

    Raises EdgeLLMError if a proxy or certificate in the environment is invalid.
    """

    def __init__(self, address: ServerAddress, key: str | None) -> None:
        self.address, self.key = address, key
        self._client = _client(address)

    def get(self, route: str) -> bytes:
        """The whole answer to a GET request, which takes at most LISTING_S. Raises ServerError."""
        connection, host = RequestConnection(), self.address.host
        with _deadline(connection, host), self._sent("GET", route, None, LISTING_S, connection) as response:
            body = _beginning(response, MAX_LISTING_BYTES + 1)
        if len(body) > MAX_LISTING_BYTES:
            raise ServerError(f"{host} answers with more than any list of models has: check the address")
        return body

    @contextmanager
    def post(
        self, route: str, body: Mapping[str, Any], connection: RequestConnection
    ) -> Iterator[tuple[str, Iterator[bytes]]]:
        """The media type of the answer to a POST request, and its bytes as they come.

        `connection` may be shut down by another thread. Raises ServerError, also while bytes come.
        """
        with self._sent("POST", route, body, SILENCE_S, connection) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            yield kind, response.iter_raw()

    @contextmanager
    def _sent(
        self, method: str, route: str, body: Mapping[str, Any] | None, silence_s: float, connection: RequestConnection
    ) -> "Iterator[Response]":
        from httpx2 import HTTPError, InvalidURL, Timeout

        try:
            request = self._client.build_request(
                method,
                f"{self.address.url}/{route}",
                headers=self._headers(),
                json=body,
                timeout=Timeout(silence_s, connect=CONNECT_S),
                extensions={"trace": connection.trace},
            )
            response = self._client.send(request, stream=True, follow_redirects=False)
            try:
                self._check(response)
                yield response
            finally:
                response.close()
        except (HTTPError, InvalidURL) as error:
            raise transport_error(error, self.address.host) from error

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": "edgellm", "Accept-Encoding": "identity"}
        return headers | ({"Authorization": f"Bearer {self.key}"} if self.key else {})

    def _check(self, response: "Response") -> None:
        """Raises ServerError for an error status, and for a body that is compressed, which was not requested."""
        if not 200 <= response.status_code < 300:
            body = _beginning(response, MAX_ERROR_BYTES)
            raise status_error(self.address.host, response.status_code, response.headers, body, self.key)
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise ServerError(f"{self.address.host} answers in compressed form, which was not requested")


def _client(address: ServerAddress) -> "Client":
    """A client; servers on this machine are reached without a proxy."""
    if address.socket is None:
        return http_client(SILENCE_S, trust_env=not address.is_local)
    from httpx2 import HTTPTransport

    return http_client(SILENCE_S, transport=HTTPTransport(uds=address.socket), trust_env=False)


@contextmanager
def _deadline(connection: RequestConnection, host: str) -> Iterator[None]:
    """Shuts a connection down after LISTING_S, as each byte restarts the timeout of a socket. Raises ServerError."""
    timer = Timer(LISTING_S, connection.shut_down)
    timer.daemon = True
    timer.start()
    try:
        yield
    except ServerError:
        if not connection.is_shut_down:
            raise
    finally:
        timer.cancel()
    if connection.is_shut_down:  # also a body without a length, which seems to be whole then
        raise ServerError(f"{host} did not list its models in {LISTING_S:.0f} s: try again")


def _beginning(response: "Response", limit: int) -> bytes:
    """At most the first `limit` bytes of a body."""
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) >= limit:
            break
    return bytes(body[:limit])


def is_openai(address: ServerAddress) -> bool:
    """Whether this is OpenAI's own server."""
    return urlsplit(address.url).hostname == "api.openai.com"
