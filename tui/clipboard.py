"""Copies texts, in all ways that there are here, and says which.

A terminal is asked by an escape sequence (OSC 52), and never tells whether it did it: many do not. So where there is a
program for the clipboard, that gets the text, too.
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

_PATIENCE_S = 2.0
_DEAF = ("linux", "vt220", "vt100", "dumb")
"""Terminals that are known to have no clipboard."""


class ClipboardProgram(NamedTuple):
    """A program that takes a text on stdin; `told` says where it is then."""

    command: Sequence[str]
    told: str


def ways(environ: Mapping[str, str], platform: str) -> Iterator[ClipboardProgram]:
    """The programs that may be here, the best first.

    Over SSH the clipboard of this machine is not the person's: there the terminal's is, and the buffer of tmux.
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
    """Copy a text, and tell of it as soon as that is known; in the app itself it can be inserted at once."""
    App.copy_to_clipboard(app, text)
    app.run_worker(lambda: _finish(app, text, what), thread=True, exit_on_error=False)


def _finish(app: App[Any], text: str, what: str) -> None:
    told, severity = outcome(text, what)
    with suppress(RuntimeError):  # it has ended meanwhile
        app.call_from_thread(app.notify, told, severity=severity, timeout=4)


def outcome(text: str, what: str) -> tuple[str, Any]:
    """Give a text to the first program that takes it; what to say of it, and how loud."""
    size = f"{what}, {counted(text.count(chr(10)) + 1, 'line')}" if what else counted(len(text), "character")
    if told := next((way.told for way in ways(os.environ, sys.platform) if _takes(way.command, text)), None):
        return f"copied {told} ({size})", "information"
    if os.environ.get("TERM") in _DEAF:
        return f"not copied: this terminal has no clipboard, and there is no wl-copy or xclip ({size})", "warning"
    return f"sent to the terminal's clipboard by OSC 52, which some terminals ignore ({size})", "information"


def _takes(command: Sequence[str], text: str) -> bool:
    """Whether a program is here and took the text. It may stay, to serve the text, but gets nothing else of ours."""
    if not (program := which(command[0])):
        return False
    quiet = subprocess.DEVNULL
    data = text.encode(errors="replace")
    try:
        done = subprocess.run(
            [program, *command[1:]], input=data, stdout=quiet, stderr=quiet, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
