"""A hostile hub: whatever it sends, and however slowly, the request ends soon and takes little memory."""

import socket
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

from edgellm import hub as ours
from edgellm.errors import EdgeLLMError
from support.hub_pull import FILE, NAME, pull
from support.hub_server import Fault, Handler, Hub, breaks_off, drips_raw, hub, sends, serving, streams
from support.local_models import Machine, machine

__all__ = ["hub", "machine"]

MB = 1 << 20
ZEROS = bytes(MB)


PACKER = zlib.compressobj(level=1, wbits=31)
PACKED = b"".join([*(PACKER.compress(b" " * MB) for _ in range(100)), PACKER.flush()])
"""A hundred megabytes of spaces, which JSON allows, compressed to half a megabyte."""


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 64 * MB
    finally:
        tracemalloc.stop()


def leads_on(to: str) -> Fault:
    return lambda handler, content: handler.reply(302, b"", {"Location": to})


BODIES: dict[str, tuple[Fault, str]] = {
    "packed": (sends(PACKED, Content_Encoding="gzip"), "is compressed"),
    "packed twice": (sends(PACKED, Content_Encoding="gzip, gzip"), "is compressed"),
    "endless": (streams(ZEROS, 2000), "has more than 4.19 MB; check HF_ENDPOINT"),
    "endless JSON": (streams(b'{"a": 1},' * 100_000, 2000, begin=b"["), "has more than 4.19 MB; check HF_ENDPOINT"),
    "an endless page of an error": (streams(ZEROS, 2000, status=404), "does not exist"),
    "an endless page of a passing error": (streams(ZEROS, 2000, status=500), "answers 500"),
    "a packed page of an error": (sends(PACKED, 401, Content_Encoding="gzip"), "check the name"),
    "an endless redirect": (streams(ZEROS, 2000, status=302, Location="/api/models/a/b"), "more than 10 redirects"),
    "a packed redirect": (
        sends(PACKED, 302, Content_Encoding="gzip", Location="/api/models/a/b"),
        "more than 10 redirects",
    ),
    "a redirect to a file": (leads_on("file:///etc/passwd"), "redirects to an invalid address"),
    "a redirect to nothing": (leads_on("http://[::bad"), "redirects to an invalid address"),
    "a redirect with control characters": (leads_on("x\x1b]0;y://"), "redirects to an invalid address"),
    "a redirect without a location": (sends(b"", 302), "redirects to an invalid address [(]302[)]"),
}


@pytest.mark.parametrize("body", BODIES)
def test_a_listing_is_read_within_bounds(body: str, machine: Machine, hub: Hub) -> None:
    hub.lists, told = BODIES[body]
    client = ours.Hub()
    with little_memory(), pytest.raises(EdgeLLMError, match=told) as refused:
        client.repository("a/b")
    assert str(refused.value).isprintable()
    assert len(hub.asked) <= 11
    assert hub.sent < 200 * MB  # the buffers of the connection among them


@pytest.mark.parametrize("body", BODIES)
def test_a_file_is_read_within_bounds(body: str, machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [BODIES[body][0]] * 50
    with little_memory(), pytest.raises(EdgeLLMError) as refused:
        pull()
    assert str(refused.value).isprintable()
    assert len(hub.files_asked) <= 11
    assert hub.sent < 200 * MB


def counts_down(handler: Handler, content: bytes) -> None:
    """One redirect after the other, each to another address."""
    handler.reply(307, b"", {"Location": f"/api/models/a/b?n={len(handler.hub.asked)}"})


def test_redirects_are_limited(machine: Machine, hub: Hub) -> None:
    hub.lists = counts_down
    with pytest.raises(EdgeLLMError, match="more than 10 redirects"):
        ours.Hub().repository("a/b")
    assert len(hub.asked) == 11


def test_a_repository_that_has_moved_is_found(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("new/name", m__gguf=FILE)
    with serving(Hub(lists=leads_on(f"{hub.url}/api/models/new/name?blobs=true"))) as old:
        monkeypatch.setenv("HF_ENDPOINT", old.url)
        assert ours.Hub().repository("old/name").name == "new/name"


OK = b"HTTP/1.1 200 OK\r\n"
SLOW: dict[str, Fault] = {
    "a byte now and then": streams(b"x", 10**9, 0.01),
    "a byte now and then of many": streams(b"x", 10**9, 0.01, Content_Length=str(len(FILE))),
    "a byte of a header": drips_raw(OK + b"X-Long: ", b"x", 0.01),
    "headers": drips_raw(OK, b"X: y\r\n", 0.01),
    "early hints": drips_raw(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.01),
    "a byte of a chunk's head": drips_raw(OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x", 0.01),
    "a byte of a trailer": drips_raw(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ", b"x", 0.01),
}


def shorten_the_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.hub.watchdog.WINDOW_S", 0.03)


@pytest.mark.parametrize("slow", SLOW)
def test_a_listing_that_never_ends(slow: str, machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.lists = SLOW[slow]
    shorten_the_minute(monkeypatch)
    with pytest.raises(EdgeLLMError, match=r"less than 60 kB arrived in 0 s.*; check the network"):
        ours.Hub().repository("a/b")
    assert 1 <= len(hub.asked) <= 3  # on a busy machine a connection may be shut down before the hub has read of it


@pytest.mark.parametrize("slow", SLOW)
def test_a_file_that_never_ends(slow: str, machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [SLOW[slow]] * 50
    client = ours.Hub()
    repository = client.repository(NAME)
    shorten_the_minute(monkeypatch)
    with pytest.raises(EdgeLLMError, match="less than 60 kB arrived in 0 s"):
        ours.pull(client, repository, ours.gguf_choices(repository)[0])
    assert 1 <= len(hub.files_asked) <= 6


def test_a_file_of_which_each_attempt_brings_a_few_bytes(machine: Machine, hub: Hub) -> None:
    """Each attempt receives some bytes, but thousands of attempts would be needed."""
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(10)] * 1000
    with pytest.raises(EdgeLLMError, match="the connection to"):
        pull()
    assert len(hub.files_asked) == 6


def test_a_host_that_no_name_server_knows(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(EdgeLLMError, match=r": 127\.0\.0\.1 was not found \(.*not known\); check the network$"):
        pull()


def test_a_file_that_starts_over_for_ever(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(150_000), sends(b"", 416)] * 500
    with pytest.raises(EdgeLLMError):
        pull()
    assert len(hub.files_asked) < 10
