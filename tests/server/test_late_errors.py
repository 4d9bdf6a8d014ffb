"""Errors that come when an answer has begun, or that nobody foresaw: told in the dialect of the route, and once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from edgellm.errors import NoMemoryError
from support.chat_model import write_chat_model
from support.served import BODIES, TIMEOUT_S, Served, served

TELL = "edgellm.server.generating._ReplyTeller.tell"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path: Path = write_chat_model(tmp_path_factory.mktemp("served") / "m.gguf", 512)
    with served(path) as found:
        yield found


def fail_with(patch: pytest.MonkeyPatch, error: Exception) -> None:
    def tell(self: object) -> None:
        raise error

    patch.setattr(TELL, tell)


def ask(server: Served, path: str, stream: bool) -> httpx.Response:
    return httpx.post(server.url + path, json={**BODIES[path], "stream": stream}, timeout=TIMEOUT_S)


def message_of(value: dict[str, Any]) -> str:
    error = value["error"]
    return str(error if isinstance(error, str) else error["message"])


@pytest.mark.parametrize("path", BODIES)
def test_an_error_amid_a_stream_is_its_last_part(server: Served, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, NoMemoryError("no memory is left: close other programs"))
    answer = ask(server, path, stream=True)
    assert answer.status_code == 200
    last = answer.text.strip().splitlines()[-1].removeprefix("data: ")
    assert message_of(json.loads(last)) == "no memory is left: close other programs"
    assert "[DONE]" not in answer.text


@pytest.mark.parametrize("path", BODIES)
def test_an_error_before_an_answer_has_a_status(server: Served, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, NoMemoryError("no memory is left: close other programs"))
    answer = ask(server, path, stream=False)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    assert message_of(answer.json()).startswith("no memory is left")


@pytest.mark.parametrize("path", BODIES)
def test_what_nobody_foresaw_is_one_line(server: Served, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, KeyError("lost\nTraceback"))
    answer = ask(server, path, stream=False)
    assert answer.status_code == 500 and answer.headers["content-type"] == "application/json"
    assert "\n" not in message_of(answer.json()) and "KeyError" in message_of(answer.json())
    monkeypatch.undo()
    server.wait_until_idle()
    assert ask(server, path, stream=False).status_code == 200
