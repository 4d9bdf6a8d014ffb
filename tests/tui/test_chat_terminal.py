"""The chat in a real terminal, with the real engine and a tiny model, from its start to all kinds of ends."""

import json
import re
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import uniform

import pytest

from support.chat_model import write_chat_model
from support.terminal import Terminal, chat_in_terminal

pytestmark = pytest.mark.slow

_MODES = {7, 25}  # lines wrap, and the cursor is seen: all that a terminal has set by itself


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("one", "two")):
        write_chat_model(folder / f"{name}.gguf", seed=seed)
    return folder


@pytest.fixture
def home(models: Path, tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/models").symlink_to(models)
    return tmp_path / "home"


@pytest.fixture
def chat(home: Path) -> Iterator[Terminal]:
    with chat_in_terminal("one", home=home) as terminal:
        terminal.until("● ready")
        yield terminal


def restored(terminal: Terminal) -> bool:
    """Whether the modes, attributes and cursor of the terminal are as they were before the program."""
    return terminal.modes == _MODES and terminal.attributes == terminal.sane and not terminal.screen.cursor.hidden


def stored(home: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(home / "chats.db") as db:
        return db.execute("SELECT role, text FROM messages ORDER BY id").fetchall()


def test_what_is_typed_before_the_screen_stands_is_sent_by_enter(home: Path) -> None:
    with chat_in_terminal("one", home=home) as chat:
        chat.type("early\rand mo")  # Python has not even started
        chat.until("▼ writing")
        chat.type("re")
        chat.until("and more")
        chat.press("ctrl+q")
        chat.wait()
        assert restored(chat)
    assert stored(home)[0] == ("user", "early")


def test_the_main_path(home: Path, tmp_path: Path) -> None:
    """Open, chat, stop, edit, walk between the versions, switch the model, quit, go on, export."""
    with chat_in_terminal("one", home=home) as chat:
        chat.until("context")  # as long as the model may take to load, what is sent waits for it
        chat.say("a long one")
        chat.until("▼ writing")
        chat.press("escape")
        chat.until("stopped by you")
        chat.say("/set max_tokens 5")
        chat.until("max_tokens: 5")
        chat.press("f2")
        chat.until(lambda: "a long one" in bottom(chat))
        chat.type("\x15")
        chat.say("a short one")
        chat.until("5 generated")
        chat.until("2/2")
        chat.press("alt+left")
        chat.until("stopped by you")
        chat.press("alt+right")
        chat.until("cut off at the token limit")
        chat.say("/model two")
        chat.until(lambda: "two" in bottom(chat) and "● ready" in bottom(chat))
        chat.say("/set max_tokens 150")  # settings are the model's
        chat.until("max_tokens: 150")
        chat.say("and you?")
        chat.until("150 generated")
        chat.type("half a thou")
        chat.press("ctrl+q")
        assert chat.wait() == 0
        assert restored(chat)
        assert chat.text.strip() == ""
    with chat_in_terminal("--continue", home=home) as chat:
        chat.until("● ready")
        for words in ("a short one", "and you?", "half a thou", "two"):
            assert words in chat.text
        chat.type("\x15")
        chat.say(f"/export {tmp_path}/chat.json")
        chat.until("written to")
        chat.press("ctrl+q")
        assert chat.wait() == 0
    exported = json.loads((tmp_path / "chat.json").read_text())
    assert [m["text"] for m in exported["messages"] if m["role"] == "user"] == ["a long one", "a short one", "and you?"]
    assert [m["model"] for m in exported["messages"] if m["role"] == "assistant"] == ["one", "one", "two"]


def bottom(terminal: Terminal) -> str:
    """The input box and what is below it."""
    return "\n".join(terminal.text.splitlines()[-4:])


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)]
)
def test_a_signal_ends_it_and_the_reply_is_kept(chat: Terminal, home: Path, number: int, code: int) -> None:
    chat.say("hello")
    chat.until("▼ writing")
    chat.signal(number)
    assert chat.wait() == code
    assert restored(chat)
    assert [role for role, text in stored(home) if text] == ["user", "assistant"]


def test_a_window_that_is_closed_ends_it(chat: Terminal, home: Path) -> None:
    chat.say("hello")
    chat.until("▼ writing")
    chat.hang_up()
    assert chat.process.wait(20) == -signal.SIGHUP
    assert [role for role, text in stored(home) if text] == ["user", "assistant"]


def test_a_terminal_that_goes_without_a_signal_ends_it(home: Path) -> None:
    with chat_in_terminal("one", home=home, controls=False) as chat:
        chat.until("● ready")
        chat.say("hello")
        chat.until("▼ writing")
        chat.type("half a thou")
        chat.until("half a thou")
        chat.hang_up()
        assert chat.process.wait(20) == 0
    assert [role for role, text in stored(home) if text] == ["user", "assistant"]
    with chat_in_terminal("one", "--continue", home=home) as chat:
        chat.until("half a thou")


def test_lines_end_where_their_terminal_goes_without_a_signal(home: Path) -> None:
    with chat_in_terminal("--plain", "one", home=home, controls=False) as chat:
        chat.until("is ready")
        chat.say("hello")
        chat.until(" w")
        chat.hang_up()
        chat.process.wait(20)
    assert [role for role, text in stored(home) if text] == ["user", "assistant"]


def test_it_can_be_put_aside_and_taken_up_again(chat: Terminal) -> None:
    chat.say("hello")
    chat.until("▼ writing")
    chat.signal(signal.SIGTSTP)
    chat.until(lambda: restored(chat))
    chat.signal(signal.SIGCONT)
    chat.until("▼ writing")
    chat.press("escape")
    chat.until("stopped by you")


_CHANGING = """
from tui.app import ChatApp
begin = ChatApp.on_mount
def on_mount(self):
    begin(self)
    self.set_interval(0.1, lambda: [hidden.refresh() for hidden in self.screen.query("ToastRack")])
    self.screen_change_signal.subscribe(self, lambda _: self.set_timer(1, lambda: self.notify("You are elsewhere")))
ChatApp.on_mount = on_mount
from edgellm.entry import main
main()
"""


@pytest.mark.parametrize(("key", "notice"), [("ctrl+c", "Ctrl+Q leaves the chat"), ("f1", "You are elsewhere")])
def test_a_notice_leaves_nothing_behind_while_hidden_widgets_change(home: Path, key: str, notice: str) -> None:
    with chat_in_terminal("one", home=home, program=("-c", _CHANGING)) as chat:
        chat.until("● ready")
        chat.press(key)
        chat.until(notice)
        chat.until(lambda: notice not in chat.text, 20)


def test_it_follows_the_size_of_the_terminal(chat: Terminal) -> None:
    for columns, rows in ((20, 5), (140, 40), (1, 1), (80, 24)):
        chat.resize(columns, rows)
        chat.read(0.5)
        assert chat.process.poll() is None
    chat.until("● ready")
    assert "Say something" in bottom(chat)


def test_it_opens_in_a_tiny_terminal(home: Path) -> None:
    with chat_in_terminal("one", home=home, columns=20, rows=5) as chat:
        chat.until("Say something")
        chat.say("hello")
        chat.until(lambda: stored(home))
        chat.press("ctrl+q")
        assert chat.wait() == 0


_BREAKING = """
from tui.instruments.status_line import StatusLine
def breaks(self):
    secret = "not for the screen"
    raise ValueError("a widget broke")
StatusLine.on_click = breaks
from edgellm.entry import main
main()
"""


def test_an_error_in_a_widget_is_one_line_and_the_rest_is_in_the_log(home: Path) -> None:
    with chat_in_terminal("one", home=home, program=("-c", _BREAKING)) as chat:
        chat.until("● ready")
        chat.say("hello")
        chat.until("▼ writing")
        chat.type("\x1b[<0;3;29M\x1b[<0;3;29m")  # a click on the status line
        assert chat.wait() == 1
        assert restored(chat)
        shown = " ".join(chat.text.split())
        assert shown.startswith("edgellm: the screen broke (ValueError: a widget broke)")
        assert "Traceback" not in shown
        assert "secret" not in shown
        assert "Traceback" in (home / "chat.log").read_text()
    assert [role for role, text in stored(home) if text] == ["user", "assistant"]


def test_a_model_that_was_not_opened_is_reported_at_the_end_as_well(home: Path, tmp_path: Path) -> None:
    broken, problem = tmp_path / "broken.gguf", "broken.gguf: is GGUF version 0"
    broken.write_bytes(b"GGUF" + bytes(60))
    with chat_in_terminal(str(broken), home=home) as chat:
        chat.until("is GGUF version 0")
        chat.press("ctrl+q")
        assert chat.wait() == 1
        assert restored(chat)
        assert "".join(problem.split()) in "".join(chat.text.split())  # wherever its lines are broken
    with chat_in_terminal(str(broken), home=home) as chat:
        chat.until("is GGUF version 0")
        chat.press("escape")
        chat.type("/model one\r")
        chat.until("● ready")
        chat.press("ctrl+q")
        assert chat.wait() == 0
        assert restored(chat)
        assert problem not in " ".join(chat.text.split())


_PRINTING = """
import ctypes, os, sys
from tui.core.edge_backend import EdgeBackend, EdgeModel
def noisily(act):
    def run(*args):
        os.write(1, b"NOISE of a library\\n")
        ctypes.CDLL(None).write(2, b"NOISE of another\\n", 17)
        print("NOISE of Python", flush=True)
        print("NOISE of its errors", file=sys.stderr, flush=True)
        return act(*args)
    return run
EdgeBackend.open, EdgeModel.reply = noisily(EdgeBackend.open), noisily(EdgeModel.reply)
from edgellm.entry import main
main()
"""


def test_what_libraries_print_is_never_on_the_screen(home: Path) -> None:
    with chat_in_terminal("one", home=home, program=("-c", _PRINTING)) as chat:
        chat.until("● ready")
        chat.say("/set max_tokens 5")
        chat.say("hello")
        chat.until("5 generated")
        chat.press("ctrl+q")
        assert chat.wait() == 0
        assert b"NOISE" not in chat.written
    log = (home / "chat.log").read_text()
    assert log.count("NOISE of a library") == 2
    assert log.count("NOISE of another") == 2


def words(terminal: Terminal) -> list[str]:
    """The words of a reply below the place of notices."""
    return re.findall(r"w\d+", "\n".join(terminal.screen.display[6:]))


@pytest.mark.parametrize("attempt", [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(1, 3))])
def test_a_kill_takes_nothing_but_the_last_second(home: Path, attempt: int) -> None:
    """The moments are random, so that different ones are tested over time."""
    with chat_in_terminal("one", home=home) as chat:
        chat.until("● ready")
        chat.say("hello")
        chat.until("▼ writing")
        chat.type("half a thou")
        chat.until(lambda: len(words(chat)) > 1)
        chat.read(uniform(0, 1))
        shown = words(chat)
        chat.read(1)
        chat.signal(signal.SIGKILL)
        assert chat.process.wait() == -signal.SIGKILL
    reply = stored(home)[-1][1].split()
    assert " ".join(shown[:-1]) in " ".join(reply)  # the last one may have been cut by the edge of the screen
    with chat_in_terminal("--continue", home=home) as chat:
        chat.until("● ready")
        chat.until(reply[-1])
        assert "half a thou" in bottom(chat)
