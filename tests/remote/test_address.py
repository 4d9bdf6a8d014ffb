"""Addresses of servers as users give them, and to whom their keys go."""

from pathlib import Path

import pytest

from edgellm.errors import OptionError
from edgellm.remote.address import server_address
from edgellm.remote.key import server_key


@pytest.mark.parametrize(
    ("given", "url", "host"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1", "127.0.0.1:8080"),
        ("http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1", "127.0.0.1:8080"),
        ("HTTPS://API.OpenAI.com", "https://api.openai.com/v1", "api.openai.com"),
        ("localhost:8080", "http://localhost:8080/v1", "localhost:8080"),
        ("[::1]:8080", "http://[::1]:8080/v1", "[::1]:8080"),
        ("https://api.openai.com/v1", "https://api.openai.com/v1", "api.openai.com"),
        ("https://llm.example.org/ollama", "https://llm.example.org/ollama/v1", "llm.example.org"),
        ("https://ai.example.org/v1beta/openai/", "https://ai.example.org/v1beta/openai", "ai.example.org"),
    ],
)
def test_an_address_may_have_the_version_or_not(given: str, url: str, host: str) -> None:
    address = server_address(given)
    assert (address.url, address.host, address.socket) == (url, host, None)
    assert address.reference == f"{url}#"


@pytest.mark.parametrize("given", ["unix:/run/a b.sock", "unix:///run/a b.sock", "http+unix:///run/a b.sock"])
def test_a_unix_socket(given: str) -> None:
    address = server_address(given)
    assert (address.host, address.socket, address.is_local) == ("/run/a b.sock", "/run/a b.sock", True)


@pytest.mark.parametrize("given", ["unix:run.sock", "unix://run.sock"])
def test_a_unix_socket_in_the_current_folder(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert server_address(given).socket == str(tmp_path / "run.sock")


@pytest.mark.parametrize(
    "given",
    [
        *("", "ftp://host", "llm.example.org", "http://", "http://host:99999", "http://host:0", "http://host/?key=1"),
        *("http://a..b", f"http://{'a' * 64}.example", "unix:/a\0b", "unix:/\x1b[2J"),
        *("http://host/#x", "http://ho st", "http://host/\nx", "http://bücher.example", "unix:", "https:///v1"),
    ],
)
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(OptionError, match=r"option server is not the address of a server") as error:
        server_address(given)
    assert "\n" not in str(error.value)


def test_a_password_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(OptionError, match="EDGELLM_SERVER_KEY") as error:
        server_address("https://me:secret@host/v1")
    assert "secret" not in str(error.value)


def test_a_key_of_openai_goes_to_openai_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGELLM_SERVER_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    assert server_key(server_address("https://api.openai.com/v1"), None) == "sk-openai"
    for other in ("http://api.openai.com/v1", "https://api.openai.com.example.org/v1", "https://api.openai.com:444/v1"):
        assert server_key(server_address(other), None) is None


def test_a_key_that_is_given_goes_before_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELLM_SERVER_KEY", "from-environment")
    address = server_address("http://127.0.0.1:1")
    assert server_key(address, None) == "from-environment"
    assert server_key(address, "given") == "given"


def test_a_key_that_no_header_has_is_refused_and_not_shown() -> None:
    with pytest.raises(OptionError, match="server_key") as error:
        server_key(server_address("http://127.0.0.1:1"), "geheim\nX: y")
    assert "geheim" not in str(error.value)
