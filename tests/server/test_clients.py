"""Clients that vanish, are slow, too many, or send what is no request: they get an error, and others are not harmed."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.chat_model import write_chat_model
from support.served import TIMEOUT_S, Served, served

PATHS = ("/v1/chat/completions", "/v1/completions")
LONG = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
SHORT = {**LONG, "stream": False, "max_tokens": 2, "seed": 1}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that writes until its context of 8,192 tokens is full."""
    return write_chat_model(tmp_path_factory.mktemp("served") / "m.gguf")


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Served]:
    with served(path, parallel=2, max_queue=1, max_body=100_000) as found:
        yield found


@pytest.fixture(scope="module")
def hasty(path: Path) -> Iterator[Served]:
    with served(path, parallel=2, body_timeout=0.2, send_timeout=0.2) as found:
        yield found


def ask(server: Served, **given: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/chat/completions", json={**SHORT, **given}, timeout=TIMEOUT_S)


def request(path: str, body: bytes, more: int = 0) -> bytes:
    """The bytes of a request; `more` bytes of its body are still to come."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len(body) + more}\r\n\r\n"
    return head.encode() + body


def test_a_client_that_vanishes_ends_its_reply(server: Served) -> None:
    text = ask(server).json()["choices"][0]["message"]["content"]
    for number, stream in enumerate((True, False), 1):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(request(PATHS[0], json.dumps({**LONG, "stream": stream}).encode()))
            if stream:
                assert client.recv(10)
        # The reply alone would take much longer.
        server.wait_until(lambda n=number: sum("client gone" in line for line in server.log) == n)  # type: ignore[misc]
    assert server.idle() and not server.server.service.models.running()[0].users
    assert ask(server).json()["choices"][0]["message"]["content"] == text


def test_too_many_requests_are_told_when_to_come_again(server: Served) -> None:
    with httpx.Client(base_url=server.url, timeout=TIMEOUT_S) as client:
        first, second = (client.stream("POST", PATHS[0], json=LONG) for _ in range(2))
        with first as one, second as other:
            streams = [one.iter_lines(), other.iter_lines()]  # kept, since httpx closes those that nobody has
            assert all(map(next, streams))
            answers: list[httpx.Response] = []
            waiting = threading.Thread(target=lambda: answers.append(ask(server)))
            waiting.start()
            server.wait_until(lambda: server.server.service.slots.waiting == 1)
            refused = ask(server)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
            assert 1 <= int(refused.headers["retry-after"]) <= 60
            assert client.get("/health").json() == {"status": "ok", "running": 2, "waiting": 1}
    waiting.join(TIMEOUT_S)
    assert answers[0].status_code == 200  # the others have ended


def test_requests_at_once_get_the_replies_that_they_get_alone(server: Served) -> None:
    questions = [f"w{number}" for number in range(3)]
    found: dict[str, str] = {}

    def one(question: str) -> str:
        answer = ask(server, messages=[{"role": "user", "content": question}], max_tokens=20, temperature=0)
        return str(answer.json()["choices"][0]["message"]["content"])

    alone = {question: one(question) for question in questions}
    threads = [threading.Thread(target=lambda q=q: found.update({q: one(q)})) for q in questions]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert found == alone


def test_a_body_that_is_too_large(server: Served) -> None:
    found = ask(server, messages=[{"role": "user", "content": "x" * 100_001}])
    assert (found.status_code, found.json()["error"]["code"]) == (413, "too_large")


def test_a_client_that_sends_slowly_is_dropped(hasty: Served) -> None:
    answer = hasty.raw(request(PATHS[0], b"{", more=10))
    assert answer.startswith(b"HTTP/1.1 408 ") and b"did not arrive in time" in answer


def test_a_client_that_does_not_read_is_dropped(hasty: Served) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", hasty.port))
        client.sendall(request(PATHS[0], json.dumps({**LONG, "logprobs": True, "top_logprobs": 20}).encode()))
        hasty.wait_until(lambda: "POST /v1/chat/completions 200" in "".join(hasty.log[-1:]))
        assert "client gone" in hasty.log[-1]


def test_a_connection_without_a_request_is_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.server.protocol.TimedProtocol.first_request_s", 0.2)
    with served(path) as found, socket.create_connection(("127.0.0.1", found.port), timeout=TIMEOUT_S) as client:
        client.sendall(b"GET /health HT")
        assert client.recv(10) == b""


def test_a_signal_while_a_line_of_the_log_is_written(path: Path) -> None:
    with served(path) as found:

        def interrupt(line: str) -> None:
            if "GET /health" in line:
                found.server.handle_exit(signal.SIGINT, None)

        found.on_line = interrupt
        assert httpx.get(f"{found.url}/health").status_code == 200
        found.wait_until(lambda: any(line.startswith("stopping") for line in found.log))
        assert found.server.should_exit and not found.server.force_exit


@pytest.mark.parametrize(
    ("method", "place", "status", "code"),
    [
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/nothing", 404, "not_found"),
        ("DELETE", "/health", 405, "method_not_allowed"),
    ],
)
def test_paths_that_there_are_none_of(server: Served, method: str, place: str, status: int, code: str) -> None:
    found = httpx.request(method, server.url + place)
    assert (found.status_code, found.json()["error"]["code"]) == (status, code)


def test_the_root_answers(server: Served) -> None:
    assert httpx.get(server.url).text == "edgellm is running"
    assert httpx.head(server.url).status_code == 200


@settings(max_examples=40, deadline=None)
@given(
    path=st.sampled_from(PATHS),
    body=st.binary(max_size=30)
    | st.sampled_from([b"[" * 50_000, b'{"a":NaN}', b'{"a":1e999}', b'"\\ud800"', b"9" * 5000]),
)
def test_no_body_fails_inside(server: Served, path: str, body: bytes) -> None:
    found = httpx.post(server.url + path, content=body)
    assert found.status_code == 400 and found.json()["error"]["message"]


@pytest.mark.parametrize(
    "body", [b"[" * 201, b'{"a":' * 300, b'["[[", ' + b"[" * 200], ids=["lists", "objects", "text"]
)
def test_levels_are_counted_before_any_is_read(server: Served, body: bytes) -> None:
    """A RecursionError would also be one of whatever Python collects as garbage at that moment."""
    found = httpx.post(server.url + PATHS[0], content=body)
    assert found.status_code == 400 and "more than 200 levels" in found.json()["error"]["message"]


@pytest.mark.parametrize("message", [{"role": "user", "content": "\ud800 w1"}, {"role": "user", "content": "\0"}])
def test_halves_of_characters_are_no_fault(server: Served, message: dict[str, str]) -> None:
    content = json.dumps({**SHORT, "messages": [message]}).encode()
    assert httpx.post(server.url + PATHS[0], content=content, timeout=TIMEOUT_S).status_code == 200
