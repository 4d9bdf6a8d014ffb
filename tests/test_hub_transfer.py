"""Files come whole, or not at all, from a hub that fails in every way that networks do."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import gguf_bytes as raw
import pytest
from hub_server import PAGE, Fault, Hub, breaks_off, hub, ignores_ranges, sends, sends_without_length, serving
from local_models import Machine, machine, model

from edgellm import hub as ours
from edgellm.errors import EdgeLLMError
from edgellm.hub import bring
from edgellm.models import find_models

__all__ = ["hub", "machine"]

FILE = model(50_000).build()
NAME = "org/name-GGUF"


def pull(wanted: str = "", watcher: ours.Watcher | None = None) -> Path:
    client = ours.Hub(watcher)
    repository = client.repository(NAME)
    found = ours.candidates(repository)
    return ours.pull(client, repository, ours.choose(NAME, found, wanted, lambda nbytes: True))


def partial(machine: Machine) -> Path:
    (found,) = machine.own.glob("models/.incoming/org/name-GGUF/*/*.part")
    return found


def names_of_whole() -> list[str]:
    return [found.name for found in find_models() if not found.problem]


def test_a_file_comes_and_is_listed(machine: Machine, hub: Hub) -> None:
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
def test_what_may_pass_is_waited_for(fault: str, machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = list(RECOVERS[fault])
    assert pull().read_bytes() == FILE
    assert not hub.faults


def test_what_came_is_not_asked_for_again(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(70_000), breaks_off(60_000)]
    pull()
    assert [asked.range for asked in hub.files_asked] == [None, "bytes=70000-", "bytes=130000-"]


REFUSED: dict[str, tuple[Fault, str]] = {
    "a page": (sends(PAGE, Content_Type="text/html; charset=utf-8"), "comes as a web page"),
    "a wrong length": (sends(FILE[:5000]), "by the listing, but 5 kB come"),
    "more than there is": (sends_without_length(FILE + b"x"), "but more come"),
    "a wrong hash": (sends(FILE[:-1] + b"\x01"), "their hash is another"),
    "a range of another file": (
        sends(FILE[10:], 206, Content_Range=f"bytes 10-{len(FILE) - 1}/{len(FILE)}"),
        "comes from elsewhere",
    ),
    "not found": (sends(b"", 404, X_Error_Code="EntryNotFound"), "no such thing .* [(]404[)]"),
    "gated": (sends(b"", 403, X_Error_Code="GatedRepo"), "is gated: ask for access at http://.*/org/name-GGUF, "),
    "unauthorized": (sends(b"", 401), "or is private [(]401[)]; "),
    "forbidden": (sends(b"", 403), "refuses it [(]403[)]; check what your token"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_will_not_pass_is_one_line(fault: str, machine: Machine, hub: Hub) -> None:
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
def test_a_refusal_leaves_what_came_before(fault: str, machine: Machine, hub: Hub) -> None:
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


def test_kept_bytes_that_are_damaged_come_again(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(70_000), sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        pull()
    partial(machine).write_bytes(bytes(80_000))
    assert pull().read_bytes() == FILE
    assert [asked.range for asked in hub.files_asked][-2:] == ["bytes=80000-", None]


@pytest.mark.parametrize("kept", [FILE, FILE + b"and more"], ids=["all", "too much"])
def test_kept_bytes_may_be_all_or_too_many(kept: bytes, machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(70_000), sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        pull()
    partial(machine).write_bytes(kept)
    assert pull().read_bytes() == FILE
    assert len(hub.files_asked) == (2 if kept == FILE else 3)


def test_bytes_of_an_older_file_are_not_gone_on_with(machine: Machine, hub: Hub) -> None:
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


def test_a_file_is_gone_on_with_at_another_host(machine: Machine, hub: Hub) -> None:
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


def split_model() -> dict[str, bytes]:
    """A model in three parts, of one tensor each."""
    files = {}
    for number in range(3):
        pairs = (
            raw.pair("split.no", raw.U16, raw.number(raw.U16, number)),
            raw.pair("split.count", raw.U16, raw.number(raw.U16, 3)),
            raw.pair("split.tensors.count", raw.I32, raw.number(raw.I32, 3)),
        )
        about = (raw.string_pair("general.architecture", "llama"),) if number == 0 else ()
        part = raw.RawGGUF(about + pairs, (raw.f32_tensor(f"t{number}", (9000,), 0, [0.5] * 9000),))
        files[f"Q8_0/m-0000{number + 1}-of-00003.gguf"] = part.build()
    return files


def test_all_parts_come_before_any_has_its_name(machine: Machine, hub: Hub) -> None:
    hub.repositories[NAME] = parts = split_model()
    hub.faults = [breaks_off(10**9), breaks_off(1000), sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        pull()
    assert names_of_whole() == []
    path = pull()
    assert {file.name: file.read_bytes() for file in path.parent.glob("*")} == {
        name.rpartition("/")[2]: content for name, content in parts.items()
    }
    assert names_of_whole() == ["m"]
    assert [asked.range for asked in hub.files_asked] == [None, None, "bytes=1000-", "bytes=1000-", None]


def test_a_kill_between_the_moves_of_parts(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories[NAME] = parts = split_model()
    moves: list[Path] = []
    really = bring._move

    def move(path: Path, target: Path) -> None:
        if ".incoming" not in target.parts:
            moves.append(target)
            if len(moves) == 2:
                raise KeyboardInterrupt
        really(path, target)

    monkeypatch.setattr(bring, "_move", move)
    with pytest.raises(KeyboardInterrupt):
        pull()
    assert names_of_whole() == []
    monkeypatch.setattr(bring, "_move", really)
    pull()
    assert names_of_whole() == ["m"]
    assert len(hub.files_asked) == len(parts)


def test_disk_space_comes_first(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(NAME, m__gguf=FILE)
    usage = hub_usage(100_000)
    monkeypatch.setattr("edgellm.hub.bring.shutil.disk_usage", usage)
    with pytest.raises(EdgeLLMError, match=r"200 kB are to come, but 100 kB are free in .*own/models; make room"):
        pull()
    assert hub.files_asked == []
    assert find_models() == []


def hub_usage(free: int) -> Callable[[object], object]:
    return lambda path: SimpleNamespace(free=free)


def test_what_came_counts_as_space(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(150_000), sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        pull()
    monkeypatch.setattr("edgellm.hub.bring.shutil.disk_usage", hub_usage(100_000))
    assert pull().read_bytes() == FILE


def test_a_file_that_is_broken_on_the_hub_is_not_kept(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE[:-100])
    with pytest.raises(EdgeLLMError, match=r"m.gguf of org/name-GGUF is not whole: .*; so the hub has it"):
        pull()
    assert find_models() == []
    assert not (machine.own / "models/.incoming").exists()


def test_unfinished_downloads_are_listed_as_such(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, big_q8_0__gguf=FILE)
    hub.faults = [breaks_off(100_000), sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        pull()
    (found,) = find_models()
    assert (found.name, found.source, found.bytes) == (NAME, "edgellm", 100_000)
    assert found.problem
    assert "50% of 200 kB have come; `edgellm pull org/name-GGUF:Q8_0` goes on" in found.problem


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
def test_a_listing_is_trusted_in_nothing(lie: dict[str, object], machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.lies["m.gguf"] = lie
    assert ours.Hub().repository(NAME).files == ()


def test_more_requests_than_the_hub_likes(machine: Machine, hub: Hub) -> None:
    waits: list[float] = []

    class Patient(ours.Watcher):
        def waiting(self, why: str, seconds: float) -> None:
            waits.append(seconds)

    hub.add(NAME, m__gguf=FILE)
    hub.status, hub.headers, hub.refusals = 429, {"Retry-After": "7"}, 1
    pull(watcher=Patient())
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
        (404, {"X-Error-Code": "RepoNotFound"}, "no such thing on http"),
        (403, {"X-Error-Code": "GatedRepo"}, "is gated: ask for access"),
        (403, {}, "refuses it .403."),
        (500, {}, "answers 500"),
    ],
)
def test_a_repository_that_is_refused(
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


@pytest.mark.parametrize("answer", [PAGE, b"[]", b'{"id": "a/b"}', b'{"id": "../..", "sha": "x"}', b'{"siblings": 3}'])
def test_an_answer_that_is_none(answer: bytes, machine: Machine, hub: Hub) -> None:
    hub.answer = answer
    with pytest.raises(EdgeLLMError) as refused:
        pull()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "nonsense", "ftp://x", "http://[::bad"])
def test_no_hub_there(endpoint: str, machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(EdgeLLMError, match=r"check (the network|HF_ENDPOINT)"):
        pull()
