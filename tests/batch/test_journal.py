"""The journal: what a kill, a torn line or another job make of it."""

from pathlib import Path

import pytest

from edgellm.batch.journal import Journal
from edgellm.errors import EdgeLLMError

FACTS = {"input": "a", "model": "b", "options": "c"}
ANSWERS = {2: b'{"id":"2"}', 0: '{"id":"0","text":"ä"}'.encode(), 1: b'{"id":"1"}'}


def write(path: Path) -> bytes:
    with Journal(path, FACTS) as journal:
        for index, answer in ANSWERS.items():
            journal.append(index, 400 if index == 1 else 200, answer)
    return path.read_bytes()


def test_it_has_the_answers_in_the_order_of_their_requests(tmp_path: Path) -> None:
    write(tmp_path / "j")
    with Journal(tmp_path / "j", FACTS) as journal:
        assert list(journal.answers()) == [ANSWERS[index] for index in (0, 1, 2)]
        assert {index: entry.status for index, entry in journal.entries.items()} == {0: 200, 1: 400, 2: 200}


def test_cut_at_any_byte_it_keeps_the_whole_lines_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = write(path)
    ends = [at for at in range(len(whole) + 1) if whole[:at].endswith(b"\n")]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        with Journal(path, FACTS) as journal:
            kept = [index for index, end in zip(ANSWERS, ends[1:], strict=True) if end <= cut]
            assert list(journal.entries) == kept
            for index in list(ANSWERS)[len(kept) :]:
                journal.append(index, 400 if index == 1 else 200, ANSWERS[index])
        assert path.read_bytes() == whole


def test_a_changed_byte_drops_its_line_and_those_behind(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = write(path)
    lines = whole.splitlines(keepends=True)
    for at in range(len(lines[0]), len(lines[0] + lines[1])):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with Journal(path, FACTS) as journal:
            assert list(journal.entries) == []
            journal.append(2, 200, ANSWERS[2])


@pytest.mark.parametrize("fact", FACTS)
def test_a_journal_of_another_job_is_refused_and_stays(tmp_path: Path, fact: str) -> None:
    before = write(tmp_path / "j")
    with pytest.raises(EdgeLLMError, match=f"another {fact}.*--restart"):
        Journal(tmp_path / "j", FACTS | {fact: "x"})
    assert (tmp_path / "j").read_bytes() == before


@pytest.mark.parametrize("content", [b"a list\n", b"a list", b"[1]\n", b'{"edgellm batch": 0}\n'])
def test_another_file_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(EdgeLLMError, match="is not of this version"):
        Journal(tmp_path / "j", FACTS)
    assert (tmp_path / "j").read_bytes() == content


def test_a_journal_without_answers_is_removed(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", FACTS):
        assert (tmp_path / "j").exists()
    assert not (tmp_path / "j").exists()


def test_a_full_disk_is_one_line_that_says_how_to_go_on(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    with Journal(tmp_path / "j", FACTS) as journal, full.open("wb", buffering=0) as file:
        journal.append(0, 200, ANSWERS[0])
        own, journal._file = journal._file, file  # type: ignore[assignment]
        with pytest.raises(EdgeLLMError, match=r"No space left on device; .* the same command goes on"):
            journal.append(1, 200, ANSWERS[1])
        journal._file = own
        assert list(journal.entries) == [0]
