"""Files are downloaded completely, or not at all, from a hub that fails in every way that networks do."""

from pathlib import Path

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.models import find_models
from support.hub_pull import FILE, NAME, pull
from support.hub_server import PAGE, Fault, Hub, breaks_off, hub, ignores_ranges, sends, sends_without_length, serving
from support.local_models import Machine, machine, model

__all__ = ["hub", "machine"]


def partial(machine: Machine) -> Path:
    (found,) = machine.own.glob("models/.incoming/org/name-GGUF/*/*.part")
    return found


def names_of_whole() -> list[str]:
    return [found.name for found in find_models() if not found.problem]


def test_a_downloaded_file_is_listed(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m_Q8_0__gguf=FILE)
    path = pull()
    assert path == machine.own / "models/org/name-GGUF/m_Q8_0.gguf"
    assert path.read_bytes() == FILE
    assert names_of_whole() == ["m_Q8_0"]
    assert not (machine.own / "models/.incoming").exists()
    assert pull() == path
    assert len(hub.files_asked) == 1


RECOVERS: dict[str, list[Fault]] = {
    "breaks off": [breaks_off(70_000), breaks_off(60_000)],
    "breaks off at once": [breaks_off(0), breaks_off(0)],
    "breaks off, then cannot begin elsewhere": [breaks_off(70_000), ignores_ranges],
    "breaks off, then knows no such range": [breaks_off(70_000), sends(b"", 416)],
    "ends early and does not know": [sends_without_length(FILE[:999])],
    "has too many requests": [sends(b"", 429, Retry_After="2"), sends(b"", 503)],
    "a gateway fails": [sends(PAGE, 502), breaks_off(1000), sends(PAGE, 504)],
}


@pytest.mark.parametrize("fault", RECOVERS)
def test_transient_failures_are_retried(fault: str, machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = list(RECOVERS[fault])
    assert pull().read_bytes() == FILE
    assert not hub.faults


def test_downloaded_bytes_are_not_requested_again(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(70_000), breaks_off(60_000)]
    pull()
    assert [asked.range for asked in hub.files_asked] == [None, "bytes=70000-", "bytes=130000-"]


REFUSED: dict[str, tuple[Fault, str]] = {
    "a page": (sends(PAGE, Content_Type="text/html; charset=utf-8"), "comes as a web page"),
    "a wrong length": (sends(FILE[:5000]), "in the listing, but the server sends 5 kB"),
    "more than there is": (sends_without_length(FILE + b"x"), "but the server sends more"),
    "a wrong hash": (sends(FILE[:-1] + b"\x01"), "have another hash than the hub lists"),
    "a range of another file": (
        sends(FILE[10:], 206, Content_Range=f"bytes 10-{len(FILE) - 1}/{len(FILE)}"),
        "another range comes",
    ),
    "a range of no numbers": (sends(FILE, 206, Content_Range=f"bytes 0-1/{'9' * 5000}"), "another range comes"),
    "not found": (sends(b"", 404, X_Error_Code="EntryNotFound"), "does not exist .* [(]404[)]"),
    "gated": (sends(b"", 403, X_Error_Code="GatedRepo"), "is gated: ask for access at http://.*/org/name-GGUF, "),
    "unauthorized": (sends(b"", 401), "or is private [(]401[)]; "),
    "forbidden": (sends(b"", 403), "refuses it [(]403[)]; check what your token"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_permanent_failures_are_one_line(fault: str, machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    answer, told = REFUSED[fault]
    hub.faults = [answer]
    with pytest.raises(EdgeLLMError, match=told) as refused:
        pull()
    assert "\n" not in str(refused.value)
    assert len(hub.files_asked) == 1
    assert find_models() == []
    assert pull().read_bytes() == FILE


@pytest.mark.parametrize("fault", ["a page", "a wrong length", "a range of another file", "not found"])
def test_a_permanent_failure_keeps_the_downloaded_bytes(fault: str, machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(70_000), REFUSED[fault][0]]
    with pytest.raises(EdgeLLMError):
        pull()
    assert partial(machine).read_bytes() == FILE[:70_000]
    assert names_of_whole() == []
    pull()
    assert hub.files_asked[-1].range == "bytes=70000-"


def test_a_hub_that_always_fails_is_given_up(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(1000), *[sends(b"", 500)] * 100]
    with pytest.raises(EdgeLLMError, match="answers 500"):
        pull()
    assert len(hub.files_asked) < 10
    assert partial(machine).read_bytes() == FILE[:1000]


def test_damaged_partial_files_are_downloaded_again(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(70_000), sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        pull()
    partial(machine).write_bytes(bytes(80_000))
    assert pull().read_bytes() == FILE
    assert [asked.range for asked in hub.files_asked][-2:] == ["bytes=80000-", None]


@pytest.mark.parametrize("kept", [FILE, FILE + b"and more"], ids=["all", "too much"])
def test_a_partial_file_may_be_complete_or_too_long(kept: bytes, machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(70_000), sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        pull()
    partial(machine).write_bytes(kept)
    assert pull().read_bytes() == FILE
    assert len(hub.files_asked) == (2 if kept == FILE else 3)


def test_a_partial_file_of_an_older_version_is_not_resumed(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(70_000), sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        pull()
    newer = model(60_000).build()
    hub.add(NAME, m__gguf=newer)
    assert pull().read_bytes() == newer
    assert hub.files_asked[-1].range is None
    assert not (machine.own / "models/.incoming").exists()


def test_a_newer_file_replaces_one_that_was_pulled(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    first = pull()
    newer = model(60_000).build()
    hub.add(NAME, m__gguf=newer)
    assert pull() == first
    assert first.read_bytes() == newer


def test_a_file_that_the_user_put_there_is_not_replaced(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    mine = machine.write(machine.own / "models/org/name-GGUF/m.gguf", b"mine")
    with pytest.raises(EdgeLLMError, match="is there already, and was not pulled"):
        pull()
    assert mine.read_bytes() == b"mine"


def test_the_token_does_not_go_to_another_host(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.add(NAME, m__gguf=FILE)
    with serving(Hub(hub.repositories)) as cdn:
        hub.cdn = cdn.url
        assert pull().read_bytes() == FILE
    assert {asked.token for asked in hub.asked} == {"Bearer hf_secret"}
    assert [asked.token for asked in cdn.asked] == [None]


def test_a_download_is_resumed_after_a_redirect_to_another_host(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    with serving(Hub(hub.repositories, [breaks_off(70_000)])) as cdn:
        hub.cdn = cdn.url
        assert pull().read_bytes() == FILE
    assert [asked.range for asked in cdn.asked] == [None, "bytes=70000-"]


def test_no_token_no_header_and_no_other_requests(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    pull()
    assert {asked.token for asked in hub.asked} == {None}
    assert [asked.path.split("/")[1] for asked in hub.asked] == ["api", "org"]
