"""What answers a load: a model in this process, and servers that are slow, full, or send nonsense."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from edgellm import EdgeLLMError, Model, OptionError
from edgellm.bench.serving.generator import LoadGenerator
from edgellm.bench.serving.local_target import LocalTarget
from edgellm.bench.serving.outcome import ReplyCounts, Status
from edgellm.bench.serving.server_target import ServerTarget
from edgellm.bench.serving.target import Cancellation, LoadRequest, NoRoomError

TIMEOUT_S = 60
USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}
Answer = Callable[[BaseHTTPRequestHandler], None]


class FakeServer(ThreadingHTTPServer):
    """Answers as `answer` does; `bodies` and `headers` are those of the requests."""

    daemon_threads = True
    answer: Answer
    go: threading.Event

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies, self.headers = list[dict[str, Any]](), list[Any]()
        self.go = threading.Event()
        self.begun = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append({"path": self.path, **body})
        self.server.headers.append(self.headers)
        self.server.answer(self)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.go.set()
        found.shutdown()
        thread.join()


def stream(*events: object, end: bytes = b"data: [DONE]\n\n") -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for event in events:
            handler.wfile.write(event if isinstance(event, bytes) else b"data: %s\n\n" % json.dumps(event).encode())
        handler.wfile.write(end)

    return answer


def status(code: int, body: bytes) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def text(piece: str, reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"text": piece, "finish_reason": reason}], **more}


def ask(url: str, pieces: list[int] | None = None, **options: Any) -> ReplyCounts:
    found = pieces if pieces is not None else []
    given: dict[str, Any] = {"model": "m", "key": "secret", "eog_ids": [2, 5], "temp": 0.0} | options
    target = ServerTarget(url, **given)
    return target.complete(LoadRequest([7, 8, 9], 4), lambda: found.append(1), Cancellation())


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
def test_what_is_asked_and_counted(base: str, server: FakeServer) -> None:
    server.answer = stream(b": comment\n\n", text("a"), text(""), text("bcd"), text("", "length", usage=USAGE))
    pieces = list[int]()
    assert ask(server.url + base, pieces) == ReplyCounts(3, 2, 4)
    assert len(pieces) == 2
    assert server.bodies == [
        {
            "path": "/v1/completions",
            "model": "m",
            "prompt": [7, 8, 9],
            "max_tokens": 4,
            "temperature": 0,
            "logit_bias": {"2": -100, "5": -100},
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]
    assert server.headers[0]["Authorization"] == "Bearer secret"


def test_usage_in_an_event_of_its_own_and_without_any(server: FakeServer) -> None:
    server.answer = stream(text("a"), text("b", "length"), {"choices": [], "usage": USAGE})
    assert ask(server.url, model=None, key=None).tokens == 4
    assert "model" not in server.bodies[0]
    assert server.headers[0]["Authorization"] is None
    server.answer = stream(text("a"), text("b", "length"))
    assert ask(server.url) == ReplyCounts(0, 0, 2)
    odd = {"prompt_tokens": "3", "completion_tokens": -1, "prompt_tokens_details": [4]}
    server.answer = stream(text("a", "stop", usage=odd), {"choices": None, "usage": 7}, {"choices": ["x"]})
    assert ask(server.url) == ReplyCounts(0, 0, 1)
    server.answer = stream(text("a", "stop", usage={"prompt_tokens": 10**400, "completion_tokens": 10**400}))
    assert ask(server.url) == ReplyCounts(0, 0, 1)


@pytest.mark.parametrize("code", [429, 503])
def test_a_full_server_refuses(code: int, server: FakeServer) -> None:
    server.answer = status(code, b'{"error": {"message": "too many\\nrequests"}}')
    with pytest.raises(NoRoomError, match=rf"{server.url}: HTTP status {code}: too many requests"):
        ask(server.url)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (status(400, b'{"error": {"message": "no ids"}}'), "HTTP status 400: no ids"),
        (status(500, b"\xff oops \x1b[0m"), "HTTP status 500: "),
        (status(404, b'{"detail": "Not Found"}'), "HTTP status 404: "),
        (stream(text("a"), end=b""), "the stream ended before the reply"),
        (stream(b"data: {\n\n"), "an event of the stream is no JSON object"),
        (stream(b"data: [1]\n\n"), "an event of the stream is no JSON object"),
        (stream(b"data: " + b"[" * 100_000 + b"\n\n"), "an event of the stream is no JSON object"),
        (status(500, b"[" * 100_000), "HTTP status 500: [["),
        (stream(*[text("a")] * 1000), "the reply does not end after 4 tokens"),
        (stream({"error": {"message": "out of memory"}}), "out of memory"),
        (lambda handler: None, "start the server, or give its address"),
    ],
)
def test_a_failure_is_one_line_with_the_address(answer: Answer, told: str, server: FakeServer) -> None:
    server.answer = answer
    with pytest.raises(EdgeLLMError) as caught:
        ask(server.url)
    assert str(caught.value).startswith(f"{server.url}: ")
    assert told in str(caught.value)
    assert str(caught.value).isprintable()


def test_no_server() -> None:
    with FakeServer() as gone:
        url = gone.url
    host = url.removeprefix("http://")
    with pytest.raises(EdgeLLMError, match=f"^no server answers at {host}: start it, or check the address$"):
        ask(url)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "ftp://host", "http://", "http://host:99999", "http://[::1", "http://a:b@host"]
)
def test_urls_of_no_server(url: str) -> None:
    with pytest.raises(OptionError, match="option server cannot be"):
        ask(url)


def test_hosts_and_keys_that_cannot_be_sent() -> None:
    with pytest.raises(EdgeLLMError, match="start the server, or give its address"):
        ask(f"http://{'x' * 70}.invalid")
    with pytest.raises(OptionError, match="EDGELLM_API_KEY cannot be this: give printable ASCII") as caught:
        ask("http://127.0.0.1:1", key="secret\n")
    assert "secret" not in str(caught.value)


def test_a_slow_server_is_cancelled(server: FakeServer) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        stream(text("a"), end=b"")(handler)
        handler.wfile.flush()
        server.begun.set()
        server.go.wait(TIMEOUT_S)

    server.answer = answer
    generator = LoadGenerator(ServerTarget(server.url, None, None, [], 0.0), 2)

    def interrupt(done: int, total: int) -> None:
        if server.begun.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generator.run([LoadRequest([1], 4)] * 3, interrupt)
    assert [each.status for each in generator.outcomes] == [Status.UNFINISHED] * 3


def test_only_loopback_is_this_machine() -> None:
    def is_local(host: str) -> bool:
        return ServerTarget(f"http://{host}:1", None, None, [], 0.0).is_local

    assert all(map(is_local, ("localhost", "127.0.0.1", "127.3.2.1", "[::1]")))
    assert not any(map(is_local, ("10.0.0.1", "example.org", "localhost.example.org")))


def test_a_model_in_this_process() -> None:
    with Model.open("builtin", threads=1) as model:
        target = LocalTarget(model, 0.0)
        generator = LoadGenerator(target, 3)
        prompts = [[*range(10, 80), last] for last in range(20, 24)]
        generator.run([LoadRequest(prompt, 6) for prompt in prompts], lambda done, total: None)
    assert [each.status for each in generator.outcomes] == [Status.COMPLETED] * 4, generator.outcomes
    for each in generator.outcomes:
        assert each.reply
        assert (each.reply.prompt_tokens, each.reply.tokens, len(each.pieces_s)) == (71, 6, 6)
    assert sum(each.reply.cached_tokens for each in generator.outcomes if each.reply) > 0


def test_replies_of_a_model_are_not_ended_by_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[dict[str, Any]]()
    with Model.open("builtin", threads=1) as model:
        stream_of = model.stream

        def stream(prompt: list[int], **options: Any) -> Any:
            asked.append(options)
            return stream_of(prompt, **options)

        monkeypatch.setattr(model, "stream", stream)
        LocalTarget(model, 0.5).complete(LoadRequest([9, 8], 3), lambda: None, Cancellation())
        assert asked[0]["logit_bias"] == dict.fromkeys(model.tokenizer.eog_ids, float("-inf"))
        assert (asked[0]["max_tokens"], asked[0]["temp"]) == (3, 0.5)
