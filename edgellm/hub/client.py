"""Requests to a hub: the listing of a repository, and the bytes of a file from an offset on."""

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, size
from edgellm.hub.endpoint import hub_endpoint
from edgellm.hub.http import HTTPClient, HTTPResponse, UnreadableResponseError
from edgellm.hub.http_errors import response_error
from edgellm.hub.listing import RemoteFile, Repository, parse_listing
from edgellm.hub.observer import DownloadObserver
from edgellm.hub.retry import RetryPolicy, TransientError
from edgellm.hub.token import user_token
from edgellm.system.http import retry_after_seconds

if TYPE_CHECKING:
    from httpx2 import TransportError

_MAX_LISTING_BYTES = 4 << 20
"""A listing takes about 300 bytes a file. Hostile JSON takes 40 times as much memory as its bytes."""

_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})", re.ASCII)
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_RANGE_NOT_SATISFIABLE = 416
_YES = ("1", "ON", "YES", "TRUE")


class RangeNotSatisfiableError(TransientError):
    """The server does not send the file from the requested offset on (status 416)."""


@dataclass
class FileBody:
    """The bytes of a file from offset `start` on."""

    start: int
    chunks: Iterator[bytes]


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids network access."""
    return any(os.environ.get(name, "").upper() in _YES for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


class Hub:
    """The hub at HF_ENDPOINT, by default huggingface.co; requests carry the user's token, if there is one.

    Raises EdgeLLMError if network access is forbidden, or an environment variable is invalid.
    """

    def __init__(self, observer: DownloadObserver | None = None) -> None:
        if is_offline():
            raise EdgeLLMError("HF_HUB_OFFLINE forbids the network; unset it, or use what `edgellm list` shows")
        self.observer = observer or DownloadObserver()
        self.endpoint = hub_endpoint()
        self._token = user_token()
        self._http = HTTPClient()

    def repository(self, name: str) -> Repository:
        """The listing of branch main of ORG/NAME. Raises EdgeLLMError."""
        retries = RetryPolicy(self.observer, attempts=3)
        while True:
            try:
                with self._request(f"api/models/{name}?blobs=true", name, name) as response:
                    return parse_listing(self._read_listing(response), name)
            except TransientError as error:
                retries.wait(error)

    @contextmanager
    def body(self, repository: Repository, file: RemoteFile, start: int) -> Iterator[FileBody]:
        """The bytes of a file from offset `start` on, or from 0 if the server ignores the range.

        Raises TransientError for a failure that may pass, when it is entered or while chunks arrive; else EdgeLLMError.
        """
        route = f"{repository.name}/resolve/{repository.commit}/{quote(file.name)}"
        with self._request(route, f"{repository.name}/{file.name}", repository.name, start) as response:
            yield FileBody(self._body_start(response, file, start), response.chunks())

    @contextmanager
    def _request(self, route: str, what: str, repository: str, start: int = 0) -> Iterator[HTTPResponse]:
        """The response to a request for `what`: one of success, or status 416 if `start` is not 0."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if start:
            headers["Range"] = f"bytes={start}-"
        with self._translate_errors(what), self._http.get(f"{self.endpoint.url}/{route}", headers) as response:
            if response.status not in (200, 206) and not (start and response.status == _RANGE_NOT_SATISFIABLE):
                self._raise_for_status(response, what, repository)
            yield response

    def _raise_for_status(self, response: HTTPResponse, what: str, repository: str) -> None:
        error = response_error(response, what, repository, self.endpoint.shown, bool(self._token))
        if response.status in (408, 429) or response.status >= 500:
            raise TransientError(f"the hub answers {response.status}", error, retry_after_seconds(response.headers))
        raise error

    def _read_listing(self, response: HTTPResponse) -> bytes:
        try:
            return response.read(_MAX_LISTING_BYTES)
        except UnreadableResponseError as error:
            problem = f"does not answer as a hub does: its list of files {error}; check HF_ENDPOINT, or log in"
            raise EdgeLLMError(f"{self.endpoint} {problem}") from error

    def _body_start(self, response: HTTPResponse, file: RemoteFile, start: int) -> int:
        """The offset in the file of the first byte of the body. Raises EdgeLLMError if it is another file's."""
        if response.status == _RANGE_NOT_SATISFIABLE:
            raise RangeNotSatisfiableError("starting over", self._file_error(file, "the download cannot be resumed"))
        length = response.headers.get("content-length", "")
        total = int(length) if _LENGTH.fullmatch(length) else None
        first = 0
        if response.status == 206:
            span = _RANGE.fullmatch(response.headers.get("content-range", ""))
            first, total = (int(span[1]), int(span[2])) if span else (-1, None)
        if total not in (None, file.bytes):
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "text/html":
                raise self._file_error(file, "comes as a web page; a proxy or a login page may be in the way")
            problem = f"has {size(file.bytes)} in the listing, but the server sends {size(total or 0)}"
            raise self._file_error(file, problem)
        if first not in (0, start):
            raise self._file_error(file, f"was requested from byte {start} on, but another range comes")
        return first

    def _file_error(self, file: RemoteFile, problem: str) -> EdgeLLMError:
        return EdgeLLMError(f"{printable(file.name)}: {problem} (from {self.endpoint}); try again later")

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        """Turn errors of httpx2 into TransientError or EdgeLLMError."""
        from httpx2 import HTTPError, InvalidURL, TransportError, UnsupportedProtocol

        try:
            yield
        except (UnsupportedProtocol, InvalidURL) as error:
            detail = printable(str(error))
            problem = f"{self.endpoint} redirects to an invalid address ({detail})"
            raise EdgeLLMError(f"{printable(what)}: {problem}") from error
        except TransportError as error:
            reason = f"{self._failure(error)} ({printable(str(error) or type(error).__name__)})"
            raise TransientError(reason, EdgeLLMError(f"{printable(what)}: {reason}; check the network")) from error
        except HTTPError as error:
            raise EdgeLLMError(f"{printable(what)}: {printable(str(error))}; try again later") from error

    def _failure(self, error: "TransportError") -> str:
        causes: BaseException | None = error
        while causes is not None:
            if isinstance(causes, socket.gaierror):
                return f"{error.request.url.host} was not found"
            causes = causes.__cause__ or causes.__context__
        return f"the connection to {self.endpoint} failed"
