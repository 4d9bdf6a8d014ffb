"""What a hub is asked: what is in a repository, and the bytes of a file from any offset on."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable, size
from edgellm.hub.endpoint import hub_endpoint
from edgellm.hub.http import HTTPClient, HTTPResponse, UnreadableResponseError
from edgellm.hub.http_errors import response_error
from edgellm.hub.listing import RemoteFile, Repository, parse_listing
from edgellm.hub.observer import DownloadObserver
from edgellm.hub.retry import RetryPolicy, retry_after_seconds
from edgellm.hub.token import user_token

_LONGEST_LISTING = 4 << 20
"""Bytes, a file takes 300 of them; hostile JSON takes 40 times as much memory."""

_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})", re.ASCII)
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_OUT_OF_RANGE = 416
_YES = ("1", "ON", "YES", "TRUE")


class TransientError(Exception):
    """What may be gone at the next attempt, in `told` seconds by the hub; `final` is to be raised if it is not."""

    def __init__(self, reason: str, error: EdgeLLMError, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.error, self.retry_after = reason, error, retry_after


class RangeNotSatisfiableError(TransientError):
    """The server does not send the file from where it was asked to."""


@dataclass
class FileBody:
    """The bytes of a file from `start` on."""

    start: int
    chunks: Iterator[bytes]


def is_offline() -> bool:
    """Whether the user has forbidden the network to what speaks to the hub."""
    return any(os.environ.get(name, "").upper() in _YES for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


class Hub:
    """The hub at HF_ENDPOINT, huggingface.co if not given, with the user's token, if there is one.

    Raises EdgeLLMError where the user has forbidden the network, or the environment makes no sense.
    """

    def __init__(self, observer: DownloadObserver | None = None) -> None:
        if is_offline():
            raise EdgeLLMError("HF_HUB_OFFLINE forbids the network; unset it, or use what `edgellm list` shows")
        self.observer = observer or DownloadObserver()
        self.address = hub_endpoint()
        self._token = user_token()
        self._wire = HTTPClient()

    def repository(self, name: str) -> Repository:
        """What is on branch main of ORG/NAME. Raises EdgeLLMError."""
        retries = RetryPolicy(self.observer, attempts=3)
        while True:
            try:
                with self._ask(f"api/models/{name}?blobs=true", name, name) as answer:
                    return parse_listing(self._listing(answer), name)
            except TransientError as error:
                retries.wait(error.reason, error.error, error.retry_after)

    @contextmanager
    def body(self, repository: Repository, file: RemoteFile, start: int) -> Iterator[FileBody]:
        """The bytes of a file from `start` on, or from 0 where the server cannot begin elsewhere.

        Raises TransientError for what may pass, at once or while bytes come, else EdgeLLMError.
        """
        route = f"{repository.name}/resolve/{repository.commit}/{quote(file.name)}"
        with self._ask(route, f"{repository.name}/{file.name}", repository.name, start) as answer:
            yield FileBody(self._start(answer, file, start), answer.chunks())

    @contextmanager
    def _ask(self, route: str, what: str, repository: str, start: int = 0) -> Iterator[HTTPResponse]:
        """The answer to a request for `what`, if it is one of success or says that it cannot begin at `start`."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if start:
            headers["Range"] = f"bytes={start}-"
        with self._told(what), self._wire.get(f"{self.address.url}/{route}", headers) as answer:
            if answer.status not in (200, 206) and not (start and answer.status == _OUT_OF_RANGE):
                self._refuse(answer, what, repository)
            yield answer

    def _refuse(self, answer: HTTPResponse, what: str, repository: str) -> None:
        final = response_error(answer, what, repository, self.address.shown, bool(self._token))
        if answer.status in (408, 429) or answer.status >= 500:
            raise TransientError(f"the hub answers {answer.status}", final, retry_after_seconds(answer.headers))
        raise final

    def _listing(self, answer: HTTPResponse) -> bytes:
        try:
            return answer.read(_LONGEST_LISTING)
        except UnreadableResponseError as error:
            problem = f"answers as no hub does: its list of files {error}; check HF_ENDPOINT, or log in"
            raise EdgeLLMError(f"{self.address} {problem}") from error

    def _start(self, answer: HTTPResponse, file: RemoteFile, start: int) -> int:
        """Where the bytes of an answer begin. Raises EdgeLLMError if they are not the file's."""
        if answer.status == _OUT_OF_RANGE:
            raise RangeNotSatisfiableError("it begins anew", self._wrong(file, "cannot be gone on with"))
        length = answer.headers.get("content-length", "")
        total = int(length) if _LENGTH.fullmatch(length) else None
        begins = 0
        if answer.status == 206:
            span = _RANGE.fullmatch(answer.headers.get("content-range", ""))
            begins, total = (int(span[1]), int(span[2])) if span else (-1, None)
        if total not in (None, file.bytes):
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "text/html":
                raise self._wrong(file, "comes as a web page; a proxy or a login page may be in the way")
            raise self._wrong(file, f"has {size(file.bytes)} by the listing, but {size(total or 0)} come")
        if begins not in (0, start):
            raise self._wrong(file, f"was asked for from byte {start}, and comes from elsewhere")
        return begins

    def _wrong(self, file: RemoteFile, problem: str) -> EdgeLLMError:
        return EdgeLLMError(f"{printable(file.name)}: {problem} (from {self.address}); try again later")

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Turn what goes wrong in a request into a TransientError or an EdgeLLMError."""
        from httpx2 import HTTPError, InvalidURL, TransportError, UnsupportedProtocol

        try:
            yield
        except (UnsupportedProtocol, InvalidURL) as error:
            said = printable(str(error))
            raise EdgeLLMError(f"{printable(what)}: {self.address} leads to no address ({said})") from error
        except TransportError as error:
            why = f"the connection to {self.address} failed ({printable(str(error) or type(error).__name__)})"
            raise TransientError(why, EdgeLLMError(f"{printable(what)}: {why}; check the network")) from error
        except HTTPError as error:
            raise EdgeLLMError(f"{printable(what)}: {printable(str(error))}; try again later") from error
