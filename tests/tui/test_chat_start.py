"""An error that keeps the chat from starting is one line, printed before the screen appears."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.terminal import chat_in_terminal
from tui.core.store.schema import APPLICATION


def damaged(home: Path) -> str:
    (home / "chats.db").write_bytes(b"no database" * 1000)
    return f"edgellm: {home}/chats.db: damaged, or no database; move it away"


def newer(home: Path) -> str:
    with sqlite3.connect(home / "chats.db") as db:
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute("PRAGMA user_version = 99")
    db.close()
    return f"edgellm: {home}/chats.db: has version 99, and this edgellm knows 3; update edgellm"


def unwritable(home: Path) -> str:
    (home / "chats.db").mkdir()
    return f"edgellm: {home}/chats.db: Is a directory; set EDGELLM_HOME to another folder"


@pytest.mark.parametrize("broken", [damaged, newer, unwritable])
@pytest.mark.parametrize("arguments", [(), ("--plain",)])
def test_chats_that_cannot_be_opened(broken: Callable[[Path], str], arguments: tuple[str, ...], tmp_path: Path) -> None:
    problem = broken(tmp_path)
    with chat_in_terminal(*arguments, home=tmp_path, columns=400) as chat:
        assert chat.wait() == 1
        assert chat.text.strip().startswith(problem)
        assert len(chat.text.strip().splitlines()) == 1
        assert b"\x1b[?1049h" not in chat.written


def test_a_terminal_that_shows_lines_only(tmp_path: Path) -> None:
    with chat_in_terminal(home=tmp_path, columns=400, TERM="dumb") as chat:
        assert chat.wait() == 2
        assert "--plain" in chat.text
        assert b"\x1b" not in chat.written


def test_no_terminal_at_all(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgellm", "chat"],
        env={**os.environ, "EDGELLM_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--plain reads lines from stdin" in done.stderr
    assert not (tmp_path / "chats.db").exists()


def test_a_model_that_is_not_there_leaves_the_chat_open(tmp_path: Path) -> None:
    """Typed text stays, and the list of models opens; without a choice the program ends with an error."""
    with chat_in_terminal("nowhere", home=tmp_path) as chat:
        chat.until("there is no file and no model named nowhere")
        chat.until("type to filter")
        chat.press("escape")
        chat.until("○ no model")
        chat.press("ctrl+q")
        assert chat.wait() == 1
