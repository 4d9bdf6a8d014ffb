"""The files of a model are installed together, and only if there is room; other files are not overwritten."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.hub import download
from edgellm.models import find_models
from support import gguf_bytes as raw
from support.hub_pull import FILE, NAME, pull
from support.hub_server import Hub, breaks_off, hub, sends
from support.local_models import Machine, machine, model

__all__ = ["hub", "machine"]


def names_of_whole() -> list[str]:
    return [found.name for found in find_models() if not found.problem]


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


def test_parts_are_moved_to_their_place_when_all_are_complete(machine: Machine, hub: Hub) -> None:
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


def test_unchanged_parts_of_an_older_commit_are_reused(machine: Machine, hub: Hub) -> None:
    hub.repositories[NAME] = parts = split_model()
    hub.faults = [breaks_off(10**9), breaks_off(1000), sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        pull()
    last = "Q8_0/m-00003-of-00003.gguf"
    hub.repositories[NAME] = parts | {last: parts[last][:-4] + b"\0\0\0\0"}
    path = pull()
    assert path.with_name("m-00003-of-00003.gguf").read_bytes() == hub.repositories[NAME][last]
    assert [asked.range for asked in hub.files_asked][3:] == ["bytes=1000-", None]
    assert not (machine.own / "models/.incoming").exists()


def test_a_kill_between_the_moves_of_parts(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories[NAME] = parts = split_model()
    moves: list[Path] = []
    really = download._move

    def move(path: Path, target: Path) -> None:
        if ".incoming" not in target.parts:
            moves.append(target)
            if len(moves) == 2:
                raise KeyboardInterrupt
        really(path, target)

    monkeypatch.setattr(download, "_move", move)
    with pytest.raises(KeyboardInterrupt):
        pull()
    assert names_of_whole() == []
    monkeypatch.setattr(download, "_move", really)
    pull()
    assert names_of_whole() == ["m"]
    assert len(hub.files_asked) == len(parts)


def test_disk_space_is_checked_first(machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add(NAME, m__gguf=FILE)
    usage = hub_usage(100_000)
    monkeypatch.setattr("edgellm.hub.download.shutil.disk_usage", usage)
    with pytest.raises(EdgeLLMError, match=r"200 kB are missing, but 100 kB are free in .*own/models; make room"):
        pull()
    assert hub.files_asked == []
    assert find_models() == []


def hub_usage(free: int) -> Callable[[object], object]:
    return lambda path: SimpleNamespace(free=free)


def test_downloaded_bytes_are_subtracted_from_the_needed_space(
    machine: Machine, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.faults = [breaks_off(150_000), sends(b"", 404)]
    with pytest.raises(EdgeLLMError):
        pull()
    monkeypatch.setattr("edgellm.hub.download.shutil.disk_usage", hub_usage(100_000))
    assert pull().read_bytes() == FILE


def test_a_file_that_is_broken_on_the_hub_is_not_kept(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE[:-100])
    with pytest.raises(
        EdgeLLMError,
        match=r"m.gguf of org/name-GGUF has the hash that the hub lists, but is damaged: .*; nothing of it was kept",
    ):
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
    assert "50% of 200 kB are downloaded; `edgellm pull org/name-GGUF:Q8_0` resumes" in found.problem


def test_a_file_that_was_deleted_by_hand_is_downloaded_again(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    pull().unlink()
    assert find_models() == []
    assert pull().read_bytes() == FILE


def test_two_models_of_a_repository_can_be_pulled(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m_Q8_0__gguf=FILE, m_Q2_K__gguf=model(9).build())
    for quant in ("Q8_0", "Q2_K", "Q8_0"):
        pull(quant)
    assert names_of_whole() == ["m_Q2_K", "m_Q8_0"]
    assert len(hub.files_asked) == 2


def test_a_redirect_to_itself(machine: Machine, hub: Hub) -> None:
    hub.add(NAME, m__gguf=FILE)
    hub.cdn = hub.url
    with pytest.raises(EdgeLLMError, match="redirects"):
        pull()
