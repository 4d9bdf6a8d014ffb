"""Who may use a server: the headers Host, Origin and Authorization, and where it may listen."""

import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from edgellm import EdgeLLMError, OptionError
from edgellm.server.listen import check_settings, listening
from edgellm.server.settings import ServeSettings
from support.chat_model import write_chat_model
from support.served import Served, served

PAGE = "https://page.example"
BODY = {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("served") / "m.gguf", 512)


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Served]:
    with served(path) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(path: Path) -> Iterator[Served]:
    with served(path, api_key="secret", origins=(PAGE,)) as found:
        yield found


def get(server: Served, path: str = "/v1/models", **headers: str) -> httpx.Response:
    return httpx.get(server.url + path, headers={name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("LocalHost:8080", 200),
        ("[::1]:80", 200),
        ("me.localhost.", 200),
        ("192.168.0.7", 200),
        ("rebound.example", 403),
        ("localhost.example:8080", 403),
        ("127.0.0.1.example", 403),
        ("", 403),
    ],
)
def test_a_name_of_a_page_is_no_name_of_this_machine(server: Served, host: str, status: int) -> None:
    found = get(server, host=host)
    assert found.status_code == status
    if status == 403:
        assert found.json()["error"]["code"] == "forbidden_host"


def test_pages_are_refused(server: Served) -> None:
    for origin in (PAGE, "null", "http://127.0.0.1:1", "file://"):
        found = httpx.post(f"{server.url}/v1/chat/completions", json=BODY, headers={"origin": origin})
        assert (found.status_code, found.json()["error"]["code"]) == (403, "forbidden_origin")
        assert "access-control-allow-origin" not in found.headers
    assert get(server, origin=server.url).status_code == 200  # a page of the server itself


def test_a_page_that_is_allowed(guarded: Served) -> None:
    asked = httpx.options(
        f"{guarded.url}/v1/chat/completions",
        headers={"origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": "x-a"},
    )
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, PAGE)
    assert (
        asked.headers["access-control-allow-headers"] == "x-a"
        and "POST" in asked.headers["access-control-allow-methods"]
    )
    found = get(guarded, origin=PAGE, authorization="Bearer secret")
    assert (found.status_code, found.headers["access-control-allow-origin"]) == (200, PAGE)
    assert "origin" in found.headers["vary"].lower()
    assert get(guarded, origin="https://other.example", authorization="Bearer secret").status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer other"}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": "Basic secret"}, 401),
        ({"authorization": "bearer  secret"}, 200),
        ({"x_api_key": "secret"}, 200),
        ({"authorization": "Bearer secret", "host": "machine.example"}, 200),
    ],
)
def test_the_key(guarded: Served, headers: dict[str, str], status: int) -> None:
    found = get(guarded, **headers)
    assert found.status_code == status
    assert status == 200 or found.json()["error"]["type"] == "authentication_error"
    assert get(guarded, "/health").status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "machine.example"])
def test_others_are_let_in_with_a_key_only(host: str) -> None:
    with pytest.raises(OptionError, match="api-key"):
        check_settings(ServeSettings(host=host))
    check_settings(ServeSettings(host=host, api_key="k"))


@pytest.mark.parametrize("settings", [ServeSettings(), ServeSettings(host="::1"), ServeSettings(host="localhost")])
def test_this_machine_needs_no_key(settings: ServeSettings) -> None:
    check_settings(settings)


def test_a_port_that_is_taken(server: Served) -> None:
    with pytest.raises(EdgeLLMError, match="--port"), listening(ServeSettings(port=server.port)):
        pass
    with pytest.raises(EdgeLLMError, match="--host"), listening(ServeSettings(host="no such host")):
        pass


def test_a_unix_socket_is_for_its_user_alone(path: Path, tmp_path: Path) -> None:
    place = tmp_path / "socket"
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(place))
    stale.close()  # as a server leaves it that was killed
    with served(path, unix=str(place)) as found:
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(place)), base_url="http://any.example") as client:
            answer = client.post("/v1/chat/completions", json=BODY)
        assert json.loads(answer.text)["usage"]["completion_tokens"] == 1
        found.wait_until(lambda: bool(found.log))  # the line comes behind the answer
        assert found.url == f"unix:{place}" and found.log[-1].startswith("unix POST")
        with pytest.raises(EdgeLLMError, match="a server listens there"), listening(ServeSettings(unix=str(place))):
            pass
    assert not place.exists()


def test_a_file_is_no_place_for_a_socket(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("kept")
    with pytest.raises(EdgeLLMError, match="choose a path"), listening(ServeSettings(unix=str(place))):
        pass
    assert place.read_text() == "kept"
