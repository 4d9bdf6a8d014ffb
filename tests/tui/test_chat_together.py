"""Several programs with the same chats: each says what the others do, none takes another's words."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import with_support
from support.headless_chat import Frontend
from tui.core.events import Notice

_OTHER = """
import sys
from pathlib import Path
from support.chat_fakes import FakeBackend
from tui.core.controller import ChatController
from tui.core.store import Store
desk = ChatController(Store(Path(sys.argv[1])), FakeBackend(), lambda event: None)
if chat := int(sys.argv[2]):
    desk.open_chat(chat)
desk.save_draft(sys.argv[3])
print("ready", flush=True)
sys.stdin.read()
"""

Other = Callable[[int, str], "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


@pytest.fixture
def other(path: Path) -> Iterator[Other]:
    """Starts another program, which opens a chat (0: none), types a draft in it, and stays there."""
    started: list[subprocess.Popen[str]] = []

    def start(chat: int, draft: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", _OTHER, str(path), str(chat), draft]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=with_support())
        started.append(process)
        assert process.stdout and process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def make(path: Path) -> Iterator[Callable[[], Frontend]]:
    made: list[Frontend] = []

    def build() -> Frontend:
        made.append(Frontend(path))
        return made[-1]

    yield build
    for frontend in made:
        frontend.desk.close()


def told(frontend: Frontend) -> list[str]:
    """The notices that wait."""
    events = [frontend.told.get() for _ in range(frontend.told.qsize())]
    return [event.text for event in events if isinstance(event, Notice)]


def test_a_chat_that_is_open_elsewhere_says_so_until_that_program_is_gone(
    make: Callable[[], Frontend], other: Other
) -> None:
    frontend = make()
    frontend.open()
    frontend.say("one")
    chat = frontend.desk.chat.id
    frontend.desk.new_chat()
    elsewhere = other(chat, "theirs")
    told(frontend)
    frontend.desk.open_chat(chat)
    assert ["open elsewhere" in line for line in told(frontend)] == [True]
    assert frontend.desk.draft().text == ""
    frontend.desk.save_draft("mine")
    assert frontend.desk.store.load(chat).draft == "theirs"
    frontend.desk.new_chat()
    assert frontend.desk.draft().text == "mine"
    elsewhere.kill()
    elsewhere.wait()
    frontend.desk.open_chat(chat)
    assert told(frontend) == []
    assert frontend.desk.draft().text == "theirs"


def test_each_program_has_its_own_draft_and_finds_those_of_programs_that_are_gone(
    make: Callable[[], Frontend], other: Other
) -> None:
    elsewhere = other(0, "theirs")
    frontend = make()
    assert frontend.desk.draft().text == ""
    frontend.desk.save_draft("mine")
    assert make().desk.draft().text == "mine"
    elsewhere.kill()
    elsewhere.wait()
    frontend.desk.save_draft("")
    assert make().desk.draft().text == "theirs"


def test_what_another_program_says_in_a_chat_becomes_other_versions(make: Callable[[], Frontend]) -> None:
    one, two = make(), make()
    for frontend in (one, two):
        frontend.open()
    one.say("hello")
    two.desk.open_chat(one.desk.chat.id)
    one.say("from one")
    two.say("from two")
    assert two.texts[2:] == ["from two", "You said: from two"]
    assert any("as other versions" in line for line in two.notices)
    two.desk.walk(two.desk.path[2].id, -1)
    assert two.texts[2:] == ["from one", "You said: from one"]
    one.say("more")
    two.say("more")
    assert len({message.id for message in two.desk.chat.tree.messages.values()}) == 10


def test_settings_of_one_model_from_two_programs_are_all_kept(make: Callable[[], Frontend]) -> None:
    one, two = make(), make()
    for frontend in (one, two):
        frontend.open()
    one.desk.set("temp", "0.5")
    two.desk.set("top_k", "30")
    two.desk.think(False)
    three = make()
    three.open()
    assert three.desk.tuning.values == {"temp": 0.5, "top_k": 30}
    assert three.desk.tuning.thinking is False
    one.desk.set("temp", "")
    three.open()
    assert three.desk.tuning.values == {"top_k": 30}
