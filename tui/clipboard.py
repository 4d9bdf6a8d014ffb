"""Copies texts to the clipboard, and says how.

A terminal takes a text by an escape sequence (OSC 52) but never confirms it, and many terminals ignore it. So a
clipboard program gets the text, too, if there is one.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from shutil import which
from typing import Any, NamedTuple

from textual.app import App

from edgellm.fmt import counted

_TIMEOUT_S = 2.0
_WITHOUT_CLIPBOARD = ("linux", "vt220", "vt100", "dumb")
"""Values of TERM whose terminals have no clipboard."""


class ClipboardProgram(NamedTuple):
    """A program that copies its stdin; `notice` says where the text is then."""

    command: Sequence[str]
    notice: str


def clipboard_programs(environ: Mapping[str, str], platform: str) -> Iterator[ClipboardProgram]:
    """The programs to try, the best one first.

    Over SSH the clipboard of this machine is not the user's, so that only the buffer of tmux is left.
    """
    if not (environ.get("SSH_CONNECTION") or environ.get("SSH_TTY")):
        if platform == "darwin":
            yield ClipboardProgram(["pbcopy"], "with pbcopy")
        if environ.get("WAYLAND_DISPLAY"):
            yield ClipboardProgram(["wl-copy"], "with wl-copy")
        if environ.get("DISPLAY"):
            yield ClipboardProgram(["xclip", "-selection", "clipboard"], "with xclip")
    if environ.get("TMUX"):  # since tmux 3.2 it also passes the text on to the terminal around it
        yield ClipboardProgram(["tmux", "load-buffer", "-w", "-"], "to tmux: its key ] inserts it")
        yield ClipboardProgram(["tmux", "load-buffer", "-"], "to tmux: its key ] inserts it")


def copy(app: App[Any], text: str, what: str) -> None:
    """Copy a text in a thread and show a notice of the outcome. The app itself can paste the text at once."""
    App.copy_to_clipboard(app, text)
    app.run_worker(lambda: _finish(app, text, what), thread=True, exit_on_error=False)


def _finish(app: App[Any], text: str, what: str) -> None:
    notice, severity = outcome(text, what)
    with suppress(RuntimeError):  # the app has ended
        app.call_from_thread(app.notify, notice, severity=severity, timeout=4)


def outcome(text: str, what: str) -> tuple[str, Any]:
    """Copy a text with the first program that works. Returns a notice and its severity; `what` names the text."""
    size = f"{what}, {counted(text.count(chr(10)) + 1, 'line')}" if what else counted(len(text), "character")
    if notice := next(
        (program.notice for program in clipboard_programs(os.environ, sys.platform) if _run(program.command, text)),
        None,
    ):
        return f"copied {notice} ({size})", "information"
    if os.environ.get("TERM") in _WITHOUT_CLIPBOARD:
        return f"not copied: this terminal has no clipboard, and there is no wl-copy or xclip ({size})", "warning"
    return f"sent to the terminal's clipboard by OSC 52, which some terminals ignore ({size})", "information"


def _run(command: Sequence[str], text: str) -> bool:
    """Whether a program exists and copied the text. It may stay in the background to serve the text."""
    if not (program := which(command[0])):
        return False
    quiet = subprocess.DEVNULL
    data = text.encode(errors="replace")
    try:
        done = subprocess.run(
            [program, *command[1:]], input=data, stdout=quiet, stderr=quiet, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
