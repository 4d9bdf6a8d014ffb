"""Warnings of models in the chat: each is a line once, and the log has them, too."""

import io
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

from edgellm.errors import EdgeLLMWarning
from edgellm.terminal.streams import TerminalStream
from support.chat_app import chatting, run
from support.chat_model import write_chat_model
from tui.core.model_warnings import warnings_to
from tui.plain.output import PlainOutput


def test_warnings_of_edgellm_are_said_once_and_all_go_where_they_went() -> None:
    said = list[str]()
    with warnings.catch_warnings(record=True) as logged:
        warnings.simplefilter("always")
        with warnings_to(said.append):
            for text, category in (("a\n\x1b[2J", EdgeLLMWarning), ("b", UserWarning), ("a\n\x1b[2J", EdgeLLMWarning)):
                warnings.warn(text, category, stacklevel=1)
        warnings.warn("c", EdgeLLMWarning, stacklevel=1)
    assert said == [r"a\n\x1b[2J"]
    assert [str(each.message) for each in logged] == ["a\n\x1b[2J", "b", "a\n\x1b[2J", "c"]


def test_a_line_amid_a_reply_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.BytesIO()
    stream = TerminalStream(terminal, "utf-8", "replace")  # type: ignore[arg-type]
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    output = PlainOutput()
    output.say("ready")
    output.reply("so far")
    output.say("a note", "warning")
    output.say("another", "warning")
    output.reply("so far and more")
    output.end("so far and more")
    output.say("figures")
    assert terminal.getvalue().decode() == "ready\nso far\na note\nanother\n and more\nfigures\n"


def test_the_chat_in_lines_says_what_the_model_warns_of(tmp_path: Path) -> None:
    """The file is checked before it is opened, which warns, too."""
    model = tmp_path / "m.gguf"
    write_chat_model(model)
    home = tmp_path / "home"
    done = subprocess.run(
        [sys.executable, "-m", "edgellm", "chat", "--plain", str(model), "--draft", "auto"],
        input="/set ctx 512\n",
        capture_output=True,
        text=True,
        env={**os.environ, "EDGELLM_HOME": str(home), "HOME": str(home)},
        cwd=tmp_path,
        timeout=300,
        check=True,
    )
    told = f"{model}: no model on this machine can draft for it: "
    assert [line.startswith(told) for line in done.stderr.splitlines() if "draft for" in line] == [True]
    assert told in (home / "chat.log").read_text()


def test_the_screen_shows_them_as_notices(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            thread = threading.Thread(target=lambda: chat.app.controller.warn("no drafts"))  # as from a worker
            thread.start()
            await chat.until(lambda: "no drafts" in chat.notices)
            (notice,) = (each for each in chat.app._notifications if each.message == "no drafts")
            assert notice.severity == "warning"

    run(test())
