"""What is common to HTTP: hosts, clients, connections that can be shut down, and when to ask again."""

import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from threading import Lock
from typing import TYPE_CHECKING, Any

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable

if TYPE_CHECKING:
    from httpx2 import Client

_RATE_LIMIT = re.compile(r"r=0;t=(\d{1,9})\b", re.ASCII)
_SECONDS = re.compile(r"\d{1,9}", re.ASCII)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


def http_client(timeout: Any, **arguments: Any) -> "Client":
    """A client of httpx2 that opens a connection for each request, so that each request can be shut down.

    Raises EdgeLLMError if a proxy or certificate in the environment is invalid.
    """
    from httpx2 import Client, InvalidURL, Limits

    try:
        return Client(timeout=timeout, limits=Limits(max_keepalive_connections=0), **arguments)
    except (OSError, ValueError, ImportError, InvalidURL) as error:
        detail = printable(" ".join(str(error).split()), 200)
        advice = "check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
        raise EdgeLLMError(f"the network cannot be used as the environment says ({detail}); {advice}") from error


class RequestConnection:
    """The connection of one request of httpx2. After `shut_down` the thread that reads from it gets the end.

    One that is not open yet ends when it is opened, or when the time for that is over.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._stream: Any = None
        self._handshake: socket.socket | None = None
        self.is_shut_down = False

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Receive the connection when it is opened: the extension `trace` of an httpx2 request."""
        with self._lock:
            if event.endswith("start_tls.started"):
                self._begin_handshake()
            elif self._handshake:
                self._handshake.close()
                self._handshake = None
            if hasattr(info.get("return_value"), "get_extra_info"):
                self._stream = info["return_value"]
                if self.is_shut_down:
                    self._end()

    def _begin_handshake(self) -> None:
        """Keep a second socket of the connection: the handshake takes the file descriptor from the first."""
        if (opened := self._socket()) is not None:
            with suppress(OSError):
                self._handshake = socket.fromfd(opened.fileno(), opened.family, opened.type)

    def shut_down(self) -> None:
        """End the connection now, or as soon as it is opened; from any thread."""
        with self._lock:
            self.is_shut_down = True
            self._end()

    def _socket(self) -> socket.socket | None:
        found = self._stream and self._stream.get_extra_info("socket")
        return found if isinstance(found, socket.socket) else None

    def _end(self) -> None:
        if (connection := self._handshake or self._socket()) is not None:
            end_reading(connection)


def end_reading(connection: socket.socket) -> None:
    """Give the thread that reads from a connection, with TLS or without, the end."""
    with suppress(OSError):
        # `close` would free the file descriptor for another file while a thread still reads from it. The method of an
        # SSL socket would remove the SSL state that a thread reads with.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait by the header Retry-After, a number or a date (RFC 9110, 10.2.3).

    Without it, those of the header RateLimit: 55 for `"api";r=0;t=55` (IETF draft of RateLimit headers). None without
    either.
    """
    given = headers.get("retry-after", "")
    if not given and (left := _RATE_LIMIT.search(headers.get("ratelimit", ""))):
        return float(left[1])
    with suppress(ValueError, TypeError, OverflowError):  # a date without a time zone, or in a far year
        if _SECONDS.fullmatch(given):
            return float(given)
        return max(0.0, (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds())
    return None
