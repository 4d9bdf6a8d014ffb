"""Completion of file names, against a folder that is made for it."""

import os
import shlex
from pathlib import Path

import pytest

from tui.composer import CompletionItem
from tui.composer.completion import word_start
from tui.composer.paths import complete_path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("home/notes", "My Notes", ".hidden"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("alpha.txt", "Beta.md", "home/a.txt", "My Notes/it's.txt", ".profile", "bad\x1bname"):
        (tmp_path / name).write_text("1,234 bytes?")
    return tmp_path


def texts(typed: str) -> list[str]:
    return [each.text for each in complete_path(typed)]


def test_files_and_folders_by_name(folder: Path) -> None:
    assert texts("") == ["alpha.txt", "Beta.md", "home/", r"My\ Notes/"]
    assert complete_path("a") == [CompletionItem("alpha.txt", "12 bytes", "alpha.txt")]
    assert complete_path("h") == [CompletionItem("home/", "folder", "home/")]


def test_case_does_not_matter_and_what_is_typed_before_the_name_stays(folder: Path) -> None:
    assert texts("b") == ["Beta.md"]
    assert texts("./home/A") == ["./home/a.txt"]
    assert texts(f"{folder}/al") == [f"{folder}/alpha.txt"]


def test_hidden_files_only_after_a_dot(folder: Path) -> None:
    assert texts(".") == [".hidden/", ".profile"]
    assert texts(".p") == [".profile"]


def test_home_is_a_tilde(folder: Path) -> None:
    assert texts("~") == ["~/"]
    assert texts("~/") == ["~/a.txt", "~/notes/"]
    assert texts("~nobody-of-this-name/") == []


def test_what_is_taken_is_one_word_of_a_shell(folder: Path) -> None:
    assert texts(r"My\ N") == [r"My\ Notes/"]
    assert texts(r"My\ Notes/") == [r"My\ Notes/it\'s.txt"]
    assert texts("'my") == [r"My\ Notes/"]
    [taken] = texts(r"My\ Notes/it")
    assert shlex.split(taken) == ["My Notes/it's.txt"]


@pytest.mark.parametrize("typed", ["nothing", "no/such/folder/", "alpha.txt/", "\0", "/\udc80", "x" * 5000])
def test_what_is_not_there_is_silent(folder: Path, typed: str) -> None:
    assert complete_path(typed) == []


def test_a_folder_that_cannot_be_read_is_silent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> list[str]:
        raise PermissionError(13, "no", str(path))

    monkeypatch.setattr("os.listdir", refuse)
    assert complete_path("home/") == []


def test_a_large_folder_gives_the_first_fifty(tmp_path: Path) -> None:
    for number in range(500):
        (tmp_path / f"{number:03}").touch()
    assert [Path(text).name for text in texts(f"{tmp_path}/")] == [f"{number:03}" for number in range(50)]
    (tmp_path / "0").touch()
    os.utime(tmp_path, (1, 1))  # a clock that is read every few milliseconds may not have moved
    assert [Path(text).name for text in texts(f"{tmp_path}/")][:2] == ["0", "000"]


@pytest.mark.parametrize(
    ("text", "cursor", "word"),
    [
        ("/file al", 8, "al"),
        ("/file al", 7, "a"),
        ("/file ", 6, ""),
        (r"/file a.txt My\ No", 18, r"My\ No"),
        ("/file C:\\dir x", 14, "x"),
        ("/mod", 4, "/mod"),
        ("one\ntwo", 7, "two"),
        ("", 0, ""),
    ],
)
def test_the_word_at_the_cursor(text: str, cursor: int, word: str) -> None:
    assert text[word_start(text, cursor) : cursor] == word
