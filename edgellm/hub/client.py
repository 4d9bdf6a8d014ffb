"""Requests to a hub: what is in a repository, and the bytes of a file from any offset on."""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgellm.errors import EdgeLLMError
from edgellm.gguf.printable import printable, size
from edgellm.hub.listing import RemoteFile, Repository, read_listing
from edgellm.hub.patience import Patience, retry_after
from edgellm.hub.refusals import refusal
from edgellm.hub.watcher import Watcher

if TYPE_CHECKING:
    from httpx2 import Response
    from huggingface_hub.errors import HfHubHTTPError

_TIMEOUT_S = 30.0
_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})", re.ASCII)
_LENGTH = re.compile(r"\d{1,18}", re.ASCII)
_OUT_OF_RANGE = 416
_YES = ("1", "ON", "YES", "TRUE")


class PassingError(Exception):
    """What may be gone at the next attempt, in `told` seconds by the hub; `final` is to be raised if it is not."""

    def __init__(self, why: str, final: EdgeLLMError, told: float | None = None) -> None:
        super().__init__(why)
        self.why, self.final, self.told = why, final, told


class NoRangeError(PassingError):
    """The server does not send the file from where it was asked to."""


@dataclass
class Body:
    """The bytes of a file from `start` on."""

    start: int
    chunks: Iterator[bytes]


def is_offline() -> bool:
    """Whether the user has forbidden the network to what speaks to the hub."""
    return any(os.environ.get(name, "").upper() in _YES for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


class Hub:
    """The hub at HF_ENDPOINT, huggingface.co if not given, with the user's token, if there is one.

    Raises EdgeLLMError where the user has forbidden the network.
    """

    def __init__(self, watcher: Watcher | None = None) -> None:
        if is_offline():
            raise EdgeLLMError("HF_HUB_OFFLINE forbids the network; unset it, or use what `edgellm list` shows")
        # Before it is imported: the library reads it only then.
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        from huggingface_hub import get_token

        logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
        self.watcher = watcher or Watcher()
        self.endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"
        self._token = get_token()

    def repository(self, name: str) -> Repository:
        """What is on branch main of ORG/NAME. Raises EdgeLLMError."""
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self.endpoint, token=self._token or False, library_name="edgellm")
        patience = Patience(self.watcher, attempts=3)
        while True:
            try:
                with self._told(name, name):
                    return read_listing(api.model_info(name, files_metadata=True, timeout=_TIMEOUT_S), name)
            except PassingError as error:
                patience.wait(error.why, error.final, error.told)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
                raise EdgeLLMError(f"{self.endpoint} answers as no hub does; check HF_ENDPOINT, or log in") from error

    @contextmanager
    def body(self, repository: Repository, file: RemoteFile, start: int) -> Iterator[Body]:
        """The bytes of a file from `start` on, or from 0 where the server cannot begin elsewhere.

        Raises PassingError for what may pass, at once or while bytes come, else EdgeLLMError.
        """
        from huggingface_hub import get_session, hf_hub_url
        from huggingface_hub.utils import hf_raise_for_status

        url = hf_hub_url(repository.name, file.name, revision=repository.commit, endpoint=self.endpoint)
        headers = {"User-Agent": "edgellm", "Accept-Encoding": "identity"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if start:
            headers["Range"] = f"bytes={start}-"
        with self._told(f"{repository.name}/{file.name}", repository.name):
            # The client follows redirects, and keeps the token from any other host.
            request = get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT_S, follow_redirects=True)
            with request as response:
                if response.status_code == _OUT_OF_RANGE:
                    raise NoRangeError("it begins anew", self._wrong(file, "cannot be gone on with"))
                hf_raise_for_status(response)
                yield Body(self._start(response, file, start), response.iter_raw())

    def _start(self, response: "Response", file: RemoteFile, start: int) -> int:
        """Where the bytes of a response begin. Raises EdgeLLMError if they are not the file's."""
        length = response.headers.get("content-length", "")
        total = int(length) if _LENGTH.fullmatch(length) else None
        begins = 0
        if response.status_code == 206:
            span = _RANGE.fullmatch(response.headers.get("content-range", ""))
            begins, total = (int(span[1]), int(span[2])) if span else (-1, None)
        if total not in (None, file.bytes):
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "text/html":
                raise self._wrong(file, "comes as a web page; a proxy or a login page may be in the way")
            raise self._wrong(file, f"has {size(file.bytes)} by the listing, but {size(total or 0)} come")
        if begins not in (0, start):
            raise self._wrong(file, f"was asked for from byte {start}, and comes from elsewhere")
        return begins

    def _wrong(self, file: RemoteFile, problem: str) -> EdgeLLMError:
        return EdgeLLMError(f"{printable(file.name)}: {problem} (from {self.endpoint}); try again later")

    @contextmanager
    def _told(self, what: str, repository: str) -> Iterator[None]:
        """Turn what goes wrong in a request into a PassingError or an EdgeLLMError."""
        from httpx2 import HTTPError, InvalidURL, TransportError, UnsupportedProtocol
        from huggingface_hub.errors import HfHubHTTPError

        try:
            yield
        except HfHubHTTPError as error:
            self._refused(error, what, repository)
        except (UnsupportedProtocol, InvalidURL) as error:
            raise EdgeLLMError(f"{printable(self.endpoint)} is no address of a hub; check HF_ENDPOINT") from error
        except TransportError as error:
            why = f"the connection to {self.endpoint} failed ({printable(str(error) or type(error).__name__)})"
            raise PassingError(why, EdgeLLMError(f"{printable(what)}: {why}; check the network")) from error
        except HTTPError as error:
            raise EdgeLLMError(f"{printable(what)}: {printable(str(error))}; try again later") from error

    def _refused(self, error: "HfHubHTTPError", what: str, repository: str) -> None:
        status = error.response.status_code
        final = refusal(error, what, repository, self.endpoint, bool(self._token))
        if status in (408, 429) or status >= 500:
            raise PassingError(f"the hub answers {status}", final, retry_after(error.response.headers)) from error
        raise final from error
