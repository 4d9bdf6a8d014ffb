"""Copying, and the notices about it."""

import os
import stat
import sys
from pathlib import Path

import pytest

from tui import clipboard
from tui.clipboard import clipboard_programs, outcome

SCREEN = ("TMUX", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of fake clipboard programs, the only ones in PATH."""
    for name in SCREEN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(stat.S_IRWXU)


def test_a_program_of_the_desktop_gets_the_text(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(here, "xclip", f'echo "$@" > {here}/arguments; /bin/cat > {here}/taken')
    monkeypatch.setenv("DISPLAY", ":0")
    assert outcome("ä\nb", "code 1 of 2") == ("copied with xclip (code 1 of 2, 2 lines)", "information")
    assert (here / "taken").read_text() == "ä\nb"
    assert (here / "arguments").read_text() == "-selection clipboard\n"


def test_a_program_that_fails_or_hangs_has_copied_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(here, "wl-copy", "exit 1")
    program(here, "xclip", "exec /bin/sleep 60")
    monkeypatch.setattr(clipboard, "_TIMEOUT_S", 0.1)
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.setenv("DISPLAY", ":0")
    notice, _ = outcome("text", "the message")
    assert notice.startswith("sent to the terminal's clipboard by OSC 52, which some terminals ignore")


def test_tmux_keeps_it_where_there_is_nothing_else(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(here, "tmux", f'[ "$2" = -w ] && exit 1; /bin/cat > {here}/taken')  # one before tmux 3.2
    monkeypatch.setenv("TMUX", "/tmp/socket,1,0")
    assert outcome("text", "")[0] == "copied to tmux: its key ] inserts it (4 characters)"
    assert (here / "taken").read_text() == "text"


def test_a_terminal_without_a_clipboard_gets_a_warning(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "linux")
    notice, severity = outcome("text", "the message")
    assert (notice.split(":")[0], severity) == ("not copied", "warning")


def test_over_ssh_the_clipboard_of_the_far_machine_is_left_alone() -> None:
    far = {"SSH_TTY": "/dev/pts/1", "DISPLAY": ":10", "WAYLAND_DISPLAY": "wayland-0"}
    assert list(clipboard_programs(far, "darwin")) == []
    assert [way.command[0] for way in clipboard_programs(far | {"TMUX": "x"}, "linux")] == ["tmux", "tmux"]
    assert [way.command[0] for way in clipboard_programs({}, "darwin")] == ["pbcopy"]


def test_it_is_run_without_a_shell(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(here, "xclip", f"/bin/cat > {here}/taken")
    monkeypatch.setenv("DISPLAY", ":0")
    text = "'; rm -rf $HOME `x`\x00\ud800"
    outcome(text, "")
    assert (here / "taken").read_bytes() == text.encode(errors="replace")
    assert sys.platform == "win32" or os.environ["PATH"] == str(here)
