"""`edgellm chat --plain`: replies on stdout, all else on stderr, and no control characters."""

import json
import os
import subprocess
import sys
from codecs import BOM_UTF8
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from edgellm.terminal.streams import TerminalStream
from support import TESTS
from support.auxiliary_files import KINDS, auxiliary_file
from support.chat_fakes import FakeModel
from support.chat_model import write_chat_model
from support.local_models import Machine, machine
from support.plain_talk import Talk, talk_in_lines
from support.terminal import chat_in_terminal
from tui.commands import COMMANDS
from tui.core.controller import ChatController
from tui.core.edge_backend import EdgeBackend
from tui.core.store import Store
from tui.plain.output import PlainOutput
from tui.plain.views import VIEWS

__all__ = ["machine"]

TIMEOUT_S = 300
"""Ends a program that hangs; on a busy machine one that does not may take a minute."""


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Talk:
    return talk_in_lines(tmp_path, monkeypatch, capsys)


def test_replies_alone_go_to_stdout(talk: Talk) -> None:
    result = talk("one\n\ntwo\n/tokens a b c\n/stats\n")
    assert result.out == "You said: one\nYou said: two\n"
    assert result.code == 0
    assert result.err.count("TTFT 0.21 s · decode 45.3 t/s") == 3
    assert "3 tokens" in result.err
    assert "used" in result.err


def test_a_line_amid_a_reply_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = BytesIO()
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


def test_files_of_no_model_are_not_among_the_models(machine: Machine) -> None:
    machine.write("models/a.gguf")
    machine.write("models/broken.gguf", b"")
    for name in KINDS:
        machine.write(f"models/{name}.gguf", auxiliary_file(name))
    lines = list(VIEWS["models"](cast("ChatController", SimpleNamespace(model=SimpleNamespace(server=None)))))[1:]
    assert [line.split()[0] for line in lines] == ["a", "broken"]
    assert list(EdgeBackend().names()) == ["a", "broken"]


def test_a_message_of_several_lines_stands_between_quotes(talk: Talk) -> None:
    model = FakeModel()
    talk('"""\n/quit\n  two\n"""\nlast', model)
    assert [asked[-1]["content"] for asked in model.asked] == ["/quit\n  two", "last"]


def test_two_slashes_are_a_message_with_one(talk: Talk) -> None:
    assert talk("//etc/hosts\n").out == "You said: /etc/hosts\n"


def test_edit_regen_and_the_way_between_versions(talk: Talk) -> None:
    model = FakeModel(replies=[["to one"], ["to uno"], ["again to uno"]])
    result = talk("one\n/edit\nuno\n/regen\n/earlier\n/earlier\n", model)
    assert result.out == "to one\nto uno\nagain to uno\n"
    assert [asked[-1]["content"] for asked in model.asked] == ["one", "uno", "uno"]
    assert "instead of: one" in result.err
    assert "you (2 of 2): uno\nfake (1 of 2): to uno" in result.err


def test_other_words_may_stand_behind_edit(talk: Talk) -> None:
    model = FakeModel()
    talk("one\n/edit uno\n", model)
    assert [asked[-1]["content"] for asked in model.asked] == ["one", "uno"]


@pytest.mark.parametrize("line", ["", "   ", "/later"])
def test_an_empty_line_or_a_command_leaves_the_message_as_it_was(talk: Talk, line: str) -> None:
    model = FakeModel()
    result = talk(f"one\n/edit\n{line}\ntwo\n", model)
    assert "the message stays as it was" in result.err
    assert [asked[-1]["content"] for asked in model.asked] == ["one", "two"]


def test_chats_are_listed_opened_and_gone_on_with(talk: Talk, tmp_path: Path) -> None:
    talk("about apples\n/clear\nabout pears\n")
    listed = talk("/chats\n").err.splitlines()
    rows = [line.split() for line in listed if "about" in line]
    assert [row[-1] for row in rows] == ["pears", "apples"]
    model = FakeModel()
    result = talk(f"/chats {rows[1][0]}\nand more\n", model)
    assert "about apples, 2 messages\nyou: about apples\nfake: You said: about apples" in result.err
    assert [m["content"] for m in model.asked[0]] == ["about apples", "You said: about apples", "and more"]
    assert "about apples, 4 messages" in talk("", chat=int(rows[1][0])).err


@pytest.mark.parametrize("name", ["chat.pdf", "chat.HTML", "chat.jsonl"])
def test_a_chat_is_written_as_what_it_is_called(talk: Talk, tmp_path: Path, name: str) -> None:
    done = talk(f"hello\n/export {tmp_path / name}\n")
    assert f"Markdown or JSON: {tmp_path}/chat.md or {tmp_path}/chat.json" in done.err
    assert not list(tmp_path.glob("chat.*"))


@pytest.mark.parametrize("name", ["chat", "chat.txt", "Dr. Smith", "chat 2026.01.02"])
def test_any_other_name_gets_markdown(talk: Talk, tmp_path: Path, name: str) -> None:
    talk(f"hello\n/export {tmp_path / name}\n")
    assert "You said: hello" in (tmp_path / name).read_text()


def test_a_folder_that_is_not_there_is_named(talk: Talk, tmp_path: Path) -> None:
    done = talk(f"hello\n/export {tmp_path}/none/dir/chat.md\n")
    assert f"there is no folder {tmp_path}/none/dir; give another one" in done.err


def test_export_and_import(talk: Talk, tmp_path: Path) -> None:
    assert talk(f"hello\n/export {tmp_path}/chat.json\n/export {tmp_path}/chat.md\n").code == 0
    assert json.loads((tmp_path / "chat.json").read_text())["messages"][1]["text"] == "You said: hello"
    assert "You said: hello" in (tmp_path / "chat.md").read_text()
    assert "hello, 2 messages" in talk(f"/import {tmp_path}/chat.json\n").err


def test_files_go_with_the_next_message_alone(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_bytes(BOM_UTF8 + b"# Notes\n")
    model = FakeModel()
    talk(f"\ufeff/file {tmp_path}/notes.md\nwhat is in it?\nand?\n", model)
    assert [asked[-1]["content"] for asked in model.asked] == ["notes.md:\n```\n# Notes\n```\n\nwhat is in it?", "and?"]


def test_inspect_shows_text_tokens_and_warnings(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(text="<s>user: hi\x1b[2J", ids=[1, 22, 333], warnings=["BOS is there twice"])
    monkeypatch.setattr(FakeModel, "inspect", lambda self, messages, options: found)
    result = talk("/inspect\n")
    assert "<s>user: hi␛[2J" in result.err
    assert "3 tokens: 1 22 333" in result.err
    assert "warning: BOS is there twice" in result.err


def test_every_command_works_here(talk: Talk, tmp_path: Path) -> None:
    """Every command works in this frontend or says what is wrong with its argument."""
    for name in COMMANDS:
        result = talk(f"hello\n/{name}\n")
        assert "Traceback" not in result.err
        assert "unexpected" not in result.err
        assert result.out.startswith("You said: hello\n")
    assert all(f"/{name}" in talk("/help\n").err for name in COMMANDS)


def test_settings_from_a_pipe_are_stored_only_by_save(talk: Talk, tmp_path: Path) -> None:
    kept = lambda: Store(tmp_path / "chats.db").preferences.settings("fake")  # noqa: E731
    model = FakeModel()
    assert "; for this run, /save keeps it" in talk("/set temp 0.5\nhello\n", model).err
    assert model.options == [{"temp": 0.5}]
    assert kept() == {}
    talk("/set temp 0.5\n/save\n/set top_k 3\n")
    assert kept() == {"temp": 0.5}
    model = FakeModel()
    talk("/set temp default\n/set stop \\n\nhello\n/reset\nhello\n", model)
    assert model.options == [{"stop": ("\n",)}, {}]
    assert kept() == {"temp": 0.5}


def test_save_in_an_empty_chat_says_what_it_saved(talk: Talk) -> None:
    assert (
        "; for this run, /save keeps it\nthe settings of this model are saved\n" in talk("/set temp 0.5\n/save\n").err
    )
    titled = talk("/set temp 0.6\n/save a title\n").err
    assert titled.endswith("the settings are saved; the chat gets a title when it has a message\n")
    assert "there is nothing yet to save" in talk("/save a title\n").err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/?", "choose a model; the chat goes on with it"),
        ("/set temperature 0.5", "temp: 0.5"),
        ("/set parameter num_ctx 512", "ctx: 512; the model is reloaded"),
        ("/temperature 0.5", "temp: 0.5"),
        ("/set system Be brief.", "system prompt: Be brief."),
        ("/load other", "other is ready"),
        ("/show info", "/set shows the settings"),
        ("/exprot x", "did you mean /export?"),
        ("/", "the name of a command follows the slash at once"),
        ("/ help", "the name of a command follows the slash at once"),
        ("/inspect now", "/inspect takes no argument"),
        ("/retry x", "/regen takes no argument"),
        ("/help", "/retry, /attach and /bye"),
        ("/nosuch", "/help lists all, and //nosuch sends it as a message"),
        ("/make", "/help lists all"),
        ("/no\x1b[2Jsuch", "there is no command /no\\x1b[2Jsuch"),
    ],
)
def test_words_of_other_programs_are_known_or_answered(talk: Talk, line: str, expected: str) -> None:
    assert expected in talk(f"{line}\n").err


def test_a_reply_is_gone_on_with(talk: Talk) -> None:
    result = talk("count\n/continue\n", FakeModel(replies=[["One,"], [" two"]]))
    assert result.out == "One,\nOne, two\n"


def test_a_reply_that_is_complete_is_not_printed_again(talk: Talk) -> None:
    result = talk("count\n/continue\n", FakeModel(replies=[["One, two"], []]))
    assert result.out == "One, two\n"
    assert result.err.count("45.3 t/s") == 1
    assert result.err.endswith("the reply is complete: the model adds nothing to it\n")


def test_what_is_found_is_printed(talk: Talk) -> None:
    result = talk("about apples\nabout pears\n/find apples\n/find apples\n/find plums\n")
    assert "1 of 2 with these words" in result.err
    assert "fake: You said: about apples" in result.err.partition("1 of 2")[2]
    assert "you: about apples" in result.err.partition("2 of 2")[2]
    assert "no message of this chat has the words plums" in result.err


def test_quit_leaves_what_follows_unread(talk: Talk) -> None:
    assert talk("/quit\nhello\n").out == ""


def test_a_name_that_no_file_can_have_is_one_line(talk: Talk) -> None:
    result = talk(f"/file {'x' * 300}\nhello\n")
    assert "xxx: File name too long; give a text file" in result.err
    assert result.out == "You said: hello\n"


def test_what_failed_on_the_way_shows_in_the_exit_code(talk: Talk) -> None:
    result = talk("/nope\nhello\n")
    assert (result.code, result.out) == (1, "You said: hello\n")
    assert "edgellm: there is no command /nope" in result.err
    broken = talk("hello\nagain\n", FakeModel(replies=[["some ", "BREAK"], ["fine"]]))
    assert (broken.code, broken.out) == (1, "some \nfine\n")
    assert "edgellm: the engine broke" in broken.err


def test_a_model_that_cannot_be_opened_is_one_line(talk: Talk) -> None:
    result = talk("hello\n", name="missing")
    assert (result.code, result.out) == (1, "")
    assert [line for line in result.err.splitlines() if "missing: there is no such model" in line] == [
        "edgellm: missing: there is no such model; `edgellm list` shows all"
    ]


def test_what_is_no_text_is_refused(talk: Talk) -> None:
    with pytest.raises(Exception, match="stdin: byte 2 is not UTF-8"):
        talk(b"hi\xff\n")


# Real ends: a terminal, a pipe that breaks, signals


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


def environment(home: Path) -> Mapping[str, str]:
    return {**os.environ, "EDGELLM_HOME": str(home)}


def test_a_broken_pipe_ends_it_silently(tiny: Path, tmp_path: Path) -> None:
    script = f'"{sys.executable}" -m edgellm chat --plain "{tiny}" | head -c 20; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", script],
        input=b"hello\n",
        capture_output=True,
        env=environment(tmp_path),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.stdout.endswith(b"141\n")
    assert done.stderr.splitlines()[-1].endswith(b"/help shows the commands")


def test_a_message_that_does_not_fit_is_reported_once_in_the_words_of_the_chat(tiny: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgellm", "chat", "--plain", str(tiny)],
        input=b"z" * 40_000,
        capture_output=True,
        env=environment(tmp_path),
        timeout=TIMEOUT_S,
        check=False,
    )
    (line,) = done.stderr.decode().rpartition("/help shows the commands\n")[2].splitlines()
    assert "too long for the context of" in line and "(/set ctx)" in line and "(/set overflow drop or window)" in line
    assert done.returncode == 1


def test_without_stdin_there_is_nothing_to_reply_to(tiny: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -m edgellm chat --plain "{tiny}" <&-'],
        capture_output=True,
        env=environment(tmp_path),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")


def test_ctrl_c_stops_a_reply_and_at_the_prompt_leaves(tiny: Path, tmp_path: Path) -> None:
    with chat_in_terminal("--plain", tiny, home=tmp_path) as terminal:
        terminal.until("is ready")
        terminal.say("hello")
        terminal.until(" w")
        terminal.type("\x03")
        terminal.until("stopped by you")
        terminal.until(lambda: terminal.text.rstrip().endswith(">"))
        terminal.type("\x03")
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.text


def test_ctrl_c_drops_what_was_typed_and_stays(tiny: Path, tmp_path: Path) -> None:
    pytest.importorskip("readline")
    with chat_in_terminal("--plain", tiny, home=tmp_path) as terminal:
        terminal.until("is ready")
        for begun, shown in (("half", "> half"), ('"""\rone\r', ". one\n."), ('"""\rtwo\rthr', ". two\n. thr")):
            terminal.type(begun)
            terminal.until(lambda shown=shown: terminal.text.rstrip().endswith(shown))
            terminal.type("\x03")
            terminal.until(lambda: terminal.text.rstrip().endswith("\n>"))
        terminal.type("\x03")
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.text
    store = Store(tmp_path / "chats.db")
    assert not store.chats("")
    store.close()


@pytest.mark.parametrize("typed", ["", "other wor"])
def test_ctrl_c_leaves_a_message_that_is_edited_as_it_was(tiny: Path, tmp_path: Path, typed: str) -> None:
    pytest.importorskip("readline")
    with chat_in_terminal("--plain", tiny, home=tmp_path) as terminal:
        terminal.until("is ready")
        terminal.say("/set max_tokens 3")
        terminal.say("hello")
        terminal.until("TTFT")
        terminal.say("/edit")
        terminal.until(lambda: terminal.text.rstrip().endswith("instead of: hello\n>"))
        terminal.type(typed)
        terminal.until(lambda: terminal.text.rstrip().endswith(f"> {typed}".rstrip()))
        terminal.type("\x03")
        terminal.until("\nthe message stays as it was")
        terminal.say("/quit")
        assert terminal.wait() == 0


def test_stored_text_cannot_act_on_the_terminal(tiny: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    chat = store.new_chat("\x1b]0;title\x07", None, None)
    store.show(chat, store.add(chat, None, "user", "red \x1b[31m bell \x07 home \x1b[H\x9b2J").id)
    store.close()
    with chat_in_terminal("--plain", "--continue", tiny, home=tmp_path) as terminal:
        terminal.until("you: red ␛[31m bell ␇ home ␛[H\ufffd2J")
        assert "␛]0;title␇" in terminal.text


def test_lines_are_edited_and_recalled(tiny: Path, tmp_path: Path) -> None:
    pytest.importorskip("readline")
    with chat_in_terminal("--plain", tiny, home=tmp_path) as terminal:
        terminal.until("is ready")
        terminal.say("/set max_tokens 3")
        terminal.until("max_tokens: 3")
        terminal.say("helo\x1b[Dl")  # Left, then the letter
        terminal.until("3 generated")
        terminal.type("\x1b[A")
        terminal.until("> hello")
        terminal.type("\x15\x04")
        assert terminal.wait() == 0


_FAKED = """
import sys
sys.path.insert(0, {tests!r})
import tui.start
from support.chat_fakes import FakeBackend, FakeModel
reply = ["red \\x1b[31m bell \\x07", " home \\x1b[H", "\\x9b2J end"]
tui.start.EdgeBackend = lambda: FakeBackend(FakeModel(replies=[reply]))
from edgellm.entry import main
main()
"""


def test_generated_text_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    program = ("-c", _FAKED.format(tests=str(TESTS)))
    with chat_in_terminal("--plain", home=tmp_path, program=program) as terminal:
        terminal.until("is ready")
        terminal.say("hello")
        terminal.until("red ␛[31m bell ␇ home ␛[H\ufffd2J end")
