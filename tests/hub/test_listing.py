"""The listing of a repository is not trusted, and errors of a hub are one line."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm import hub as ours
from edgellm.errors import EdgeLLMError
from edgellm.hub.listing import is_safe, parse_listing
from support.hub_pull import FILE, NAME, pull
from support.hub_server import PAGE, Hub, hub, sends
from support.local_models import Machine, machine

__all__ = ["hub", "machine"]


@pytest.mark.parametrize(
    "lie",
    [
        {"rfilename": "../../evil.gguf"},
        {"rfilename": "/etc/evil.gguf"},
        {"rfilename": "..\\evil.gguf"},
        {"rfilename": ".hidden.gguf"},
        {"size": -1, "lfs": None},
        {"lfs": {"sha256": "../evil", "size": 5, "pointerSize": 1}},
        {"lfs": {"sha256": "0" * 64, "size": "5", "pointerSize": 1}},
    ],
)
def test_a_listing_is_not_trusted(lie: dict[str, object], machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.lies["m.gguf"] = lie
    assert ours.Hub().repository(NAME).files == ()


ATOM = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["org/name", "0" * 40])
KEYS = st.sampled_from(
    ["id", "sha", "siblings", "gguf", "rfilename", "size", "lfs", "sha256", "blobId", "architecture"]
)
JSON = st.recursive(ATOM, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5))


@settings(max_examples=50)
@given(JSON, st.fixed_dictionaries({"siblings": st.lists(st.dictionaries(KEYS, JSON, max_size=5), max_size=4)}) | JSON)
def test_any_answer_is_a_repository_or_one_line(about: object, more: object) -> None:
    for answer in (about, {"id": "org/name", "sha": "0" * 40, **(more if isinstance(more, dict) else {})}):
        try:
            found = parse_listing(json.dumps(answer).encode(), "org/name")
        except EdgeLLMError as error:
            assert str(error).isprintable()
        else:
            assert all(is_safe(file.name) and file.bytes >= 0 for file in found.files)


@given(st.binary(max_size=60))
def test_invalid_listings(body: bytes) -> None:
    with pytest.raises(EdgeLLMError, match="names no repository and commit"):
        parse_listing(body, "org/name")


def test_too_many_requests(machine: Machine, hub: Hub) -> None:
    waits: list[float] = []

    class Patient(ours.DownloadObserver):
        def retrying(self, reason: str, seconds: float) -> None:
            waits.append(seconds)

    hub.add(NAME, m__gguf=FILE)
    hub.status, hub.headers, hub.refusals = 429, {"Retry-After": "7"}, 1
    pull(observer=Patient())
    assert waits == [7.0]
    hub.headers, hub.refusals = {"Retry-After": "3600"}, 1 << 30
    with pytest.raises(EdgeLLMError, match=r"too many requests from here .* in 3600 seconds; with a token"):
        pull()


@pytest.mark.parametrize(
    ("status", "headers", "told"),
    [
        (
            401,
            {"X-Error-Code": "RepoNotFound"},
            "is not on http.*, or is private .401.; check the name, or give a token",
        ),
        (404, {"X-Error-Code": "RepoNotFound"}, "does not exist on http"),
        (403, {"X-Error-Code": "GatedRepo"}, "is gated: ask for access"),
        (403, {}, "refuses it .403."),
        (500, {}, "answers 500"),
    ],
)
def test_error_statuses_of_a_repository(
    status: int, headers: dict[str, str], told: str, machine: Machine, hub: Hub
) -> None:
    hub.status, hub.headers = status, headers
    with pytest.raises(EdgeLLMError, match=told) as refused:
        pull()
    assert "\n" not in str(refused.value)


def test_a_gated_repository_with_a_token(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [sends(b"", 403, X_Error_Code="GatedRepo")]
    with pytest.raises(EdgeLLMError, match="your token has no access to it; ask for access at") as refused:
        pull()
    assert "hf_secret" not in str(refused.value)


@pytest.mark.parametrize(
    "answer", [PAGE, b"[]", b'{"id": "a/b"}', b'{"id": "../..", "sha": "x"}', b'{"siblings": 3}', b"[" * 200_000]
)
def test_a_response_that_is_no_http(answer: bytes, machine: Machine, hub: Hub) -> None:
    hub.answer = answer
    with pytest.raises(EdgeLLMError) as refused:
        pull()
    assert "\n" not in str(refused.value)


def test_no_hub_there(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(EdgeLLMError, match="check the network"):
        pull()


@pytest.mark.parametrize(
    "endpoint",
    [
        *("nonsense", "ftp://x", "http://[::bad", "http://", "http://x:99999", "http://x?y", "http://x#", "http:x"),
        *("http://x\x1b[2J/", "http://x\x9b2J/", "http://\u202ex", "http://x\udcff", "http://x\ny", "\x07"),
    ],
)
def test_an_invalid_endpoint(endpoint: str, machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(EdgeLLMError) as refused:
        pull()
    assert str(refused.value).startswith("HF_ENDPOINT is not the address of a hub: ")
    assert str(refused.value).isprintable()
    assert hub.asked == []


def test_an_endpoint_is_shown_without_password_and_control_characters(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://me:secret@example.com/\u202emirror/")
    assert str(ours.Hub().endpoint) == "https://example.com/%E2%80%AEmirror"
    monkeypatch.setenv("HF_ENDPOINT", " ")
    assert str(ours.Hub().endpoint) == "https://huggingface.co"


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("HF_TOKEN", "hf_é", "the token has characters that no token has; check HF_TOKEN"),
        ("HF_TOKEN", "hf_\x1b[2J", "the token has characters that no token has; check HF_TOKEN"),
        ("HTTP_PROXY", "nonsense://x", "the network cannot be used as the environment says .*; check HTTPS_PROXY"),
        ("ALL_PROXY", "socks5://x:1", "the network cannot be used as the environment says .*; check HTTPS_PROXY"),
        ("SSL_CERT_FILE", "/none", "the network cannot be used as the environment says .*; check HTTPS_PROXY"),
    ],
)
def test_an_invalid_environment_is_an_error_of_one_line(
    variable: str, value: str, told: str, machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(EdgeLLMError, match=told) as refused:
        pull()
    assert str(refused.value).isprintable()


def test_an_invalid_environment_of_huggingface_hub(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "soon")
    code = "import edgellm.cli, sys; sys.argv = ['edgellm', 'pull', 'a/b']; sys.exit(edgellm.cli.run())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "a variable that begins with HF_ has an impossible value" in done.stderr
