"""A server with OpenAI's API that answers as it is told: in any pieces, wrongly, or not at all."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from edgellm.remote.address import server_address
from edgellm.remote.model import RemoteModel, RemoteServer

TIMEOUT_S = 30
EVENTS = "text/event-stream"


@dataclass
class Answer:
    """An answer. Each of `pieces` is sent alone; before piece `hold` the server waits until `go` is set.

    `cut`: the connection ends where more would follow.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    kind: str = EVENTS
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    hold: int | None = None
    go: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)


@dataclass
class Request:
    """A request that arrived."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class FakeAPI:
    """`answers` are taken one after the other; `models` answers for the list of models."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    models: Answer = field(default_factory=lambda: listing({"id": "m", "owned_by": "vllm"}))
    asked: list[Request] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)  # a client closed its connection amid an answer

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    def say(self, *answers: Answer) -> None:
        self.answers += answers

    def model(self, name: str = "", key: str | None = None) -> RemoteModel:
        return RemoteServer(server_address(self.url), key).model(name)


def event(**values: Any) -> bytes:
    """An event with a JSON object."""
    return b"data: " + json.dumps(values).encode() + b"\n\n"


def delta(reason: str | None = None, index: int = 0, **values: Any) -> bytes:
    """An event that adds to a reply."""
    return event(choices=[{"index": index, "delta": values, "finish_reason": reason}])


DONE = b"data: [DONE]\n\n"


def usage(prompt: int, generated: int, cached: int = 0, accepted: int = 0, rejected: int = 0) -> bytes:
    """An event with the usage."""
    counts = {"prompt_tokens": prompt, "completion_tokens": generated}
    drafts = {"accepted_prediction_tokens": accepted, "rejected_prediction_tokens": rejected}
    details = {"prompt_tokens_details": {"cached_tokens": cached}, "completion_tokens_details": drafts}
    return event(choices=[], usage=counts | details)


def saying(*texts: str) -> Answer:
    """A whole answer that says some texts, with usage."""
    return Answer([*(delta(content=text) for text in texts), delta("stop"), usage(5, len(texts)), DONE])


def listing(*models: Mapping[str, Any]) -> Answer:
    """The list of models."""
    return Answer([json.dumps({"object": "list", "data": models}).encode()], kind="application/json")


def failing(status: int, message: str = "", **headers: str) -> Answer:
    """An error."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"error": {"message": message}}).encode()
    return Answer([body], status, "application/json", named)


@contextmanager
def fake_api() -> Iterator[FakeAPI]:
    """The server, on loopback."""
    api = FakeAPI()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            api.asked.append(Request(self.path, dict(self.headers), None))
            self.answer(api.models)

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            api.asked.append(Request(self.path, dict(self.headers), json.loads(content)))
            self.answer(api.answers.pop(0))

        def answer(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in {"content-type": answer.kind, "transfer-encoding": "chunked", **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for i, piece in enumerate(answer.pieces):
                    if i == answer.hold:
                        answer.held.set()
                        assert answer.go.wait(TIMEOUT_S)
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()
                if not answer.cut:
                    self.wfile.write(b"0\r\n\r\n")
            except OSError:
                api.gone.set()
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
