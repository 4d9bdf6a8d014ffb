"""A hub on loopback: it has the routes of huggingface.co that are used, and fails in the ways that networks do.

    GET /api/models/ORG/NAME?blobs=true          the listing of a repository
    GET /ORG/NAME/resolve/COMMIT/FILE            a file or a range of it, or a redirect to the host that has it

Source: the hub's own documentation of its API; the header X-Error-Code of its errors is in huggingface_hub.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep
from typing import Any

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PAGE = b"<!DOCTYPE html><title>Please log in</title>"

Fault = Callable[["Handler", bytes], None]
"""Answers a request for a file in place of the server."""


@dataclass
class Asked:
    """A request that arrived: its path, and the headers that matter."""

    path: str
    range: str | None
    token: str | None
    agent: str


@dataclass
class Hub:
    """The repositories of a hub, and its failures: each request for a file takes the next of `faults`, if any is left.

    `cdn` is the host of the files, if it is another. `status` other than 200 answers `refusals` requests for a listing,
    with `headers`. `lists` answers every request for a listing in place of the server.
    """

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    lies: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: int = 200
    refusals: int = 1 << 30
    headers: dict[str, str] = field(default_factory=dict)
    answer: bytes | None = None
    lists: Fault | None = None
    architecture: str | None = None
    cdn: str = ""
    url: str = ""
    sent: int = 0

    def add(self, repository: str, **files: bytes) -> None:
        """Add a repository; `__` in a keyword is a dot in the name of a file."""
        self.repositories[repository] = {name.replace("__", "."): content for name, content in files.items()}

    @property
    def files_asked(self) -> list[Asked]:
        """The requests for files."""
        return [asked for asked in self.asked if "/resolve/" in asked.path]

    def listing(self, repository: str) -> dict[str, Any]:
        """The listing of a repository: large files with their SHA-256, small ones with git's hash."""
        siblings = [self._sibling(name, content) for name, content in self.repositories[repository].items()]
        about: dict[str, Any] = {"id": repository, "sha": COMMIT, "siblings": siblings}
        return about | ({"gguf": {"architecture": self.architecture}} if self.architecture else {})

    def _sibling(self, name: str, content: bytes) -> dict[str, Any]:
        git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        entry: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": git}
        if name.endswith((".gguf", ".safetensors")):
            sha = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"sha256": sha, "size": len(content), "pointerSize": 134}
        return entry | self.lies.get(name, {})


class Handler(BaseHTTPRequestHandler):
    """Answers requests to `hub`."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        headers = self.headers
        agent = headers["User-Agent"] or ""
        self.hub.asked.append(Asked(path, headers["Range"], headers["Authorization"], agent))
        if listed := re.fullmatch("/api/models/([^/]+/[^/]+)", path):
            self._list(listed[1])
        elif file := re.fullmatch("/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            self._file(file[1], file[2])
        else:
            self.reply(404, b"")

    def _list(self, repository: str) -> None:
        if self.hub.lists:
            self.hub.lists(self, b"")
        elif self.hub.status != 200 and self.hub.refusals > 0:
            self.hub.refusals -= 1
            self.reply(self.hub.status, b"{}", self.hub.headers)
        elif self.hub.answer is not None:
            self.reply(200, self.hub.answer, {"Content-Type": "text/html"})
        elif repository in self.hub.repositories:
            self.reply(200, json.dumps(self.hub.listing(repository)).encode())
        else:
            self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _file(self, repository: str, name: str) -> None:
        content = self.hub.repositories.get(repository, {}).get(name)
        if content is None:
            self.reply(404, b"", {"X-Error-Code": "EntryNotFound"})
        elif self.hub.faults:
            self.hub.faults.pop(0)(self, content)
        elif self.hub.cdn:
            self.reply(302, b"", {"Location": self.hub.cdn + self.path})
        else:
            self.send_file(content)

    def send_file(self, content: bytes) -> None:
        """Send a file, or the requested range of it."""
        start = self.start
        if start >= len(content) > 0:
            self.reply(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        elif start:
            span = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
            self.reply(206, content[start:], span)
        else:
            self.reply(200, content)

    @property
    def start(self) -> int:
        """The first byte of the requested range."""
        found = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        return int(found[1]) if found else 0

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = None) -> None:
        """Send a response. With another `length` than that of the body, the connection ends after the body."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        if length is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


def breaks_off(after: int) -> Fault:
    """A fault: the connection ends after `after` of the requested bytes."""

    def answer(handler: Handler, content: bytes) -> None:
        rest = content[handler.start :]
        status = 206 if handler.start else 200
        span = {"Content-Range": f"bytes {handler.start}-{len(content) - 1}/{len(content)}"} if handler.start else {}
        handler.reply(status, rest[:after], span, length=len(rest))

    return answer


def drips(chunk: int, seconds: float, begun: int = 0) -> Fault:
    """A fault: the first `begun` bytes arrive at once, the others in pieces, with a pause after each."""

    def answer(handler: Handler, content: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[:begun])
        for at in range(begun, len(content), chunk):
            handler.wfile.write(content[at : at + chunk])
            sleep(seconds)

    return answer


def waits(released: threading.Event, begun: int) -> Fault:
    """A fault: the first `begun` bytes arrive, the others once an event is set."""

    def answer(handler: Handler, content: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[:begun])
        released.wait(60)
        handler.wfile.write(content[begun:])

    return answer


STAYS_OPEN = drips(100, 0.05, begun=50_000)
"""A fault: a part arrives, and the rest takes longer than a test that stops it, however slow the machine is."""


def sends(body: bytes, status: int = 200, **headers: str) -> Fault:
    """A fault: another response; `_` in a keyword is `-` in the name of a header."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, content: handler.reply(status, body, given)


def sends_without_length(body: bytes) -> Fault:
    """A fault: another response, without a length."""

    def answer(handler: Handler, content: bytes) -> None:
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def streams(
    piece: bytes, times: int, seconds: float = 0, status: int = 200, begin: bytes = b"", **headers: str
) -> Fault:
    """A fault: a response without a length: `begin`, then `times` pieces, unless the client hangs up."""

    def answer(handler: Handler, content: bytes) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Connection", "close")
        handler.end_headers()
        send_slowly(handler, begin, piece, times, seconds)

    return answer


def drips_raw(begin: bytes, piece: bytes, seconds: float) -> Fault:
    """A fault: a response that never ends: `begin`, then a piece again and again."""
    return lambda handler, content: send_slowly(handler, begin, piece, 1 << 30, seconds)


def send_slowly(handler: Handler, begin: bytes, piece: bytes, times: int, seconds: float) -> None:
    """Send pieces until all are sent or the client hangs up; the hub counts their bytes."""
    handler.close_connection = True
    handler.wfile.write(begin)
    for _ in range(times):
        handler.wfile.write(piece)
        handler.hub.sent += len(piece)
        sleep(seconds)


def ignores_ranges(handler: Handler, content: bytes) -> None:
    """A fault: the whole file is sent, whichever range was requested."""
    handler.reply(200, content)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Run a hub on a free port, at its `url`."""
    server = _Server(("127.0.0.1", 0), type("Mine", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that hang up, as tests do on purpose."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub at HF_ENDPOINT; retries do not wait."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("edgellm.hub.observer.sleep", lambda seconds: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "no such file")
    with serving(Hub()) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield found
