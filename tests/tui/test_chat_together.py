"""Several programs with the same chats: each notices the others, and drafts never mix."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import with_support
from support.headless_chat import HeadlessFrontend
from tui.core.events import Notice

_OTHER = """
import sys
from pathlib import Path
from support.chat_fakes import FakeBackend
from tui.core.controller import ChatController
from tui.core.store import Store
controller = ChatController(Store(Path(sys.argv[1])), FakeBackend(), lambda event: None)
if chat := int(sys.argv[2]):
    controller.chats.open(chat)
controller.conversation.save_draft(sys.argv[3])
print("ready", flush=True)
sys.stdin.read()
"""

Other = Callable[[int, str], "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


@pytest.fixture
def other(path: Path) -> Iterator[Other]:
    """Starts another program, which opens a chat (0: none), saves a draft in it, and keeps running."""
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
def make(path: Path) -> Iterator[Callable[[], HeadlessFrontend]]:
    made: list[HeadlessFrontend] = []

    def build() -> HeadlessFrontend:
        made.append(HeadlessFrontend(path))
        return made[-1]

    yield build
    for frontend in made:
        frontend.controller.close()


def told(frontend: HeadlessFrontend) -> list[str]:
    """The notices in the queue of events."""
    events = [frontend.events.get() for _ in range(frontend.events.qsize())]
    return [event.text for event in events if isinstance(event, Notice)]


def test_a_chat_that_is_open_elsewhere_says_so_until_that_program_is_gone(
    make: Callable[[], HeadlessFrontend], other: Other
) -> None:
    frontend = make()
    frontend.open()
    frontend.say("one")
    chat = frontend.controller.conversation.chat.id
    frontend.controller.chats.new()
    elsewhere = other(chat, "theirs")
    told(frontend)
    frontend.controller.chats.open(chat)
    assert ["open in another program" in line for line in told(frontend)] == [True]
    assert frontend.controller.conversation.draft().text == ""
    frontend.controller.conversation.save_draft("mine")
    assert frontend.controller.store.load(chat).draft == "theirs"
    frontend.controller.chats.new()
    assert frontend.controller.conversation.draft().text == "mine"
    elsewhere.kill()
    elsewhere.wait()
    frontend.controller.chats.open(chat)
    assert told(frontend) == []
    assert frontend.controller.conversation.draft().text == "theirs"


def test_each_program_has_its_own_draft_and_finds_those_of_programs_that_are_gone(
    make: Callable[[], HeadlessFrontend], other: Other
) -> None:
    elsewhere = other(0, "theirs")
    frontend = make()
    assert frontend.controller.conversation.draft().text == ""
    frontend.controller.conversation.save_draft("mine")
    assert make().controller.conversation.draft().text == "mine"
    elsewhere.kill()
    elsewhere.wait()
    frontend.controller.conversation.save_draft("")
    assert make().controller.conversation.draft().text == "theirs"


def test_what_another_program_says_in_a_chat_becomes_other_versions(make: Callable[[], HeadlessFrontend]) -> None:
    one, two = make(), make()
    for frontend in (one, two):
        frontend.open()
    one.say("hello")
    two.controller.chats.open(one.controller.conversation.chat.id)
    one.say("from one")
    two.say("from two")
    assert two.texts[2:] == ["from two", "You said: from two"]
    assert any("as other versions" in line for line in two.notices)
    two.controller.navigation.walk(two.controller.conversation.path[2].id, -1)
    assert two.texts[2:] == ["from one", "You said: from one"]
    one.say("more")
    two.say("more")
    assert len({message.id for message in two.controller.conversation.chat.tree.messages.values()}) == 10


def test_settings_of_one_model_from_two_programs_are_all_kept(make: Callable[[], HeadlessFrontend]) -> None:
    one, two = make(), make()
    for frontend in (one, two):
        frontend.open()
    one.controller.model.set("temp", "0.5")
    two.controller.model.set("top_k", "30")
    two.controller.model.think(False)
    three = make()
    three.open()
    assert three.controller.settings.values == {"temp": 0.5, "top_k": 30}
    assert three.controller.settings.thinking is False
    one.controller.model.set("temp", "")
    three.open()
    assert three.controller.settings.values == {"top_k": 30}
