"""The desk: what a front asks for becomes messages, versions, settings and chats that are kept."""

from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from threading import Event as Flag

import pytest
from chat_fakes import FakeBackend, FakeModel

from edgellm.errors import EdgeLLMError, OptionError
from tui.core.desk import Desk
from tui.core.events import Counted, Event, ModelFailed, ModelOpened, Notice, ReplyEnded, Weighed
from tui.core.store import Chat, Store
from tui.core.tree import Message, Tree
from tui.core.worker import Worker


class Front:
    """A desk, and somebody who passes on to it what its worker tells."""

    def __init__(self, path: Path, model: FakeModel | None = None) -> None:
        self.told: Queue[Event] = Queue()
        self.notices: list[str] = []
        self.backend = FakeBackend(model or FakeModel())
        self.desk = Desk(Store(path), self.backend, self.told.put)

    def until(self, kind: type[Event]) -> Event:
        while True:
            event = self.told.get(timeout=20)
            self.desk.heard(event)
            if isinstance(event, Notice):
                self.notices.append(event.text)
            if isinstance(event, kind):
                return event

    def open(self, name: str = "fake") -> None:
        self.desk.open_model(name)
        self.until(ModelOpened)

    def say(self, text: str) -> None:
        self.desk.send(text)
        self.until(ReplyEnded)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.desk.path]


Make = Callable[..., Front]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Front] = []

    def build(model: FakeModel | None = None) -> Front:
        made.append(Front(tmp_path / "chats.db", model))
        return made[-1]

    yield build
    for front in made:
        front.desk.close()


def test_what_is_said_and_replied_is_kept(make: Make) -> None:
    front = make()
    front.open()
    front.say("hello there")
    assert front.texts == ["hello there", "You said: hello there"]
    (row,) = front.desk.chats()
    assert (row.title, row.model) == ("hello there", "fake")
    again = make()
    again.desk.open_chat(row.id)
    assert again.texts == front.texts
    assert again.desk.path[1].stats == front.desk.path[1].stats
    assert again.desk.running is None


def test_the_model_gets_the_system_prompt_and_the_path(make: Make) -> None:
    front = make()
    front.open()
    front.desk.set_system("Be brief.")
    front.say("one")
    front.say("two")
    assert [m["content"] for m in front.backend.model.asked[1]] == ["Be brief.", "one", "You said: one", "two"]
    assert [m["role"] for m in front.backend.model.asked[1]] == ["system", "user", "assistant", "user"]


def test_editing_keeps_the_old_branch(make: Make) -> None:
    front = make()
    front.open()
    front.say("one")
    front.say("two")
    first = front.desk.path[0].id
    front.desk.edit(first, "uno")
    front.until(ReplyEnded)
    assert front.texts == ["uno", "You said: uno"]
    front.desk.walk(front.desk.path[0].id, -1)
    assert front.texts == ["one", "You said: one", "two", "You said: two"]


def test_regenerating_makes_another_version_of_the_last_reply(make: Make) -> None:
    front = make(FakeModel(replies=[["first"], ["second"]]))
    front.open()
    front.say("hello")
    front.desk.regenerate()
    front.until(ReplyEnded)
    assert front.texts == ["hello", "second"]
    reply = front.desk.path[1].id
    assert len(front.desk.chat.tree.versions(reply)) == 2
    front.desk.walk(reply, -1)
    assert front.texts == ["hello", "first"]
    assert [m["content"] for m in front.backend.model.asked[1]] == ["hello"]


def test_nothing_is_sent_while_a_reply_is_written(make: Make) -> None:
    front = make(FakeModel(replies=[["one ", "two"]], hold=1))
    front.open()
    front.desk.send("hello")
    assert front.backend.model.held.wait(20)
    assert front.desk.running == front.desk.path[1].id
    with pytest.raises(EdgeLLMError, match="Esc stops it"):
        front.desk.send("more")
    front.desk.stop()
    ended = front.until(ReplyEnded)
    assert isinstance(ended, ReplyEnded)
    assert ended.finish_reason == "cancelled"
    assert front.texts == ["hello", "one "]
    assert front.desk.running is None


def test_a_reply_ends_in_its_own_chat_when_another_was_opened(make: Make) -> None:
    front = make(FakeModel(replies=[["one ", "two"]], hold=1))
    front.open()
    front.desk.send("hello")
    assert front.backend.model.held.wait(20)
    old = front.desk.chat.id
    front.desk.new_chat()
    front.until(ReplyEnded)
    assert front.texts == []
    front.desk.open_chat(old)
    assert front.texts == ["hello", "one "]


def test_settings_are_kept_for_each_model(make: Make) -> None:
    front = make()
    front.open()
    front.desk.set("temp", "0.5")
    front.desk.set("overflow", "drop")
    front.say("hello")
    assert front.backend.model.options == [{"temp": 0.5, "overflow": "drop"}]
    front.open("other")
    assert front.desk.tuning.values == {}
    front.open("fake")
    assert front.desk.tuning.values == {"temp": 0.5, "overflow": "drop"}
    front.desk.set("temp", "")
    assert front.desk.tuning.values == {"overflow": "drop"}
    front.desk.reset()
    assert make().desk.store.settings("fake") == {}


def test_a_wrong_value_is_refused_and_changes_nothing(make: Make) -> None:
    front = make()
    front.open()
    for name, value in (("temp", "hot"), ("top_k", "-3"), ("overflow", "maybe"), ("nonsense", "1")):
        with pytest.raises(OptionError):
            front.desk.set(name, value)
    assert front.desk.tuning.values == {}


def test_a_setting_of_loading_opens_the_model_anew(make: Make) -> None:
    front = make()
    front.open()
    front.desk.set("ctx", "1024")
    front.until(ModelOpened)
    assert front.backend.opened == [("fake", {}), ("fake", {"ctx": 1024})]


def test_thinking_is_switched_where_the_template_can(make: Make) -> None:
    front = make()
    with pytest.raises(EdgeLLMError, match="no switch"):
        front.desk.switch_thinking()
    front.open()
    assert front.desk.switch_thinking() is False
    front.say("hello")
    assert front.backend.model.options == [{"template_args": {"enable_thinking": False}}]
    assert front.desk.switch_thinking() is True


def test_what_a_reply_did_not_see_is_known(make: Make) -> None:
    front = make()
    front.open()
    front.say("one")
    front.backend.model.dropped = (1204, 2)
    front.say("two")
    assert front.desk.unseen() == {m.id for m in front.desk.path[:2]}
    assert front.desk.path[-1].dropped_tokens == 1204
    again = make()
    again.desk.open_chat(front.desk.chat.id)
    assert again.desk.unseen() == front.desk.unseen()


def test_what_is_dropped_is_read_while_it_happens_and_afterwards(make: Make) -> None:
    front = make(FakeModel(replies=[["one"], ["two ", "more"]]))
    front.open()
    front.desk.set("overflow", "drop")
    front.say("first")
    assert (front.desk.reading().overflow, front.desk.reading().dropped_tokens) == ("drop", 0)
    front.backend.model.dropped, front.backend.model.hold = (1204, 2), 1
    front.desk.send("second")
    assert front.backend.model.held.wait(20)
    assert (front.desk.reading().dropped_tokens, front.desk.reading().dropped_messages) == (1204, 2)
    front.backend.model.go.set()
    front.until(ReplyEnded)
    again = make()
    again.desk.open_chat(front.desk.chat.id)
    assert (again.desk.reading().dropped_tokens, again.desk.reading().dropped_messages) == (1204, 2)


def test_the_tokens_of_a_conversation_are_counted_when_it_is_opened(make: Make) -> None:
    front = make()
    front.open()
    front.say("three words here")
    first = front.desk.chat.id
    assert front.desk.reading().used == 2060  # of the session: 2,048 and the reply's
    front.desk.new_chat()
    assert front.desk.reading().used == 0
    front.desk.open_chat(first)
    front.desk.new_chat()
    front.until(Counted)  # of a chat that was left
    assert front.desk.reading().used == 0
    again = make()
    again.desk.open_chat(first)
    again.open()
    again.until(Counted)
    assert again.desk.reading().used == 8  # words, in this model: "three words here You said: three words here"
    assert again.desk.reading().live is None


def test_a_model_that_cannot_count_is_no_problem(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: FakeModel, messages: object, options: object) -> int:
        raise EdgeLLMError("the template is broken")

    front = make()
    front.open()
    front.say("one")
    monkeypatch.setattr(FakeModel, "count", broken)
    again = make()
    again.desk.open_chat(front.desk.chat.id)
    again.open()
    again.until(Counted)
    assert (again.desk.reading().used, again.notices) == (0, [])


def test_a_message_right_after_esc_follows_what_had_come(make: Make) -> None:
    front = make(FakeModel(replies=[["one ", "two"], ["fine"]], hold=1))
    front.open()
    front.desk.send("count")
    assert front.backend.model.held.wait(20)
    front.desk.stop()
    front.desk.send("go on")
    front.until(ReplyEnded)
    front.until(ReplyEnded)
    assert front.texts == ["count", "one ", "go on", "fine"]
    assert [m["content"] for m in front.backend.model.asked[1]] == ["count", "one ", "go on"]


def test_what_has_come_of_a_reply_is_exported_and_forked(make: Make, tmp_path: Path) -> None:
    front = make(FakeModel(replies=[["one ", "two"]], hold=1))
    front.open()
    front.desk.send("count")
    assert front.backend.model.held.wait(20)
    front.desk.export(tmp_path / "chat.md")
    assert "one" in (tmp_path / "chat.md").read_text()
    front.desk.fork(front.desk.path[-1].id)
    assert front.texts == ["count", "one "]


def test_a_fork_has_all_up_to_a_message(make: Make) -> None:
    front = make()
    front.open()
    front.say("one")
    front.say("two")
    front.desk.fork(front.desk.path[1].id)
    assert front.texts == ["one", "You said: one"]
    front.say("three")
    assert len(front.desk.chats()) == 2


def test_a_deleted_chat_comes_back(make: Make) -> None:
    front = make()
    front.open()
    front.say("one")
    chat = front.desk.chat.id
    front.desk.delete_chat(chat)
    assert front.texts == []
    assert list(front.desk.chats()) == []
    front.desk.undelete_chat(chat)
    assert [row.id for row in front.desk.chats()] == [chat]


def test_a_draft_is_kept_before_and_after_the_first_message(make: Make) -> None:
    front = make()
    front.desk.save_draft("half a thou")
    assert make().desk.draft() == "half a thou"
    front.open()
    front.say("one")
    front.desk.save_draft("and then")
    again = make()
    again.desk.open_chat(front.desk.chat.id)
    assert again.desk.draft() == "and then"


def test_export_never_replaces_a_file(make: Make, tmp_path: Path) -> None:
    front = make()
    front.open()
    front.say("one")
    front.desk.export(tmp_path / "chat.md")
    assert "You said: one" in (tmp_path / "chat.md").read_text()
    with pytest.raises(EdgeLLMError, match="another name"):
        front.desk.export(tmp_path / "chat.md")


def test_a_model_that_fails_is_a_notice(make: Make) -> None:
    front = make()
    front.desk.open_model("missing")
    front.say("hello")
    front.until(Notice)
    assert "there is no such model" in front.notices[0]
    assert front.desk.path[0].text == "hello"


def test_a_slip_of_the_pen_leaves_the_model_open(make: Make) -> None:
    front = make()
    front.open("one")
    front.desk.set("temp", "0.5")
    front.desk.open_model("no-such")
    front.desk.send("hello")  # goes to the model that is open in the end
    front.until(ReplyEnded)
    if not front.notices:  # which of the two comes first is open
        front.until(Notice)
    assert (front.texts[-1], front.backend.model.closed) == ("You said: hello", False)
    assert (front.desk.model, front.desk.opened and front.desk.opened.name) == ("one", "one")
    assert front.desk.tuning.values == {"temp": 0.5}
    assert ["there is no such model" in line for line in front.notices] == [True]
    front.open("two")
    front.desk.open_model("no-such")
    front.desk.open_model("three")
    front.until(ModelOpened)
    assert front.desk.model == "three"


def test_a_model_is_not_lost_to_a_setting_that_it_cannot_be_opened_with(make: Make) -> None:
    front = make()
    front.open()
    front.desk.set("ctx", "512")
    front.until(ModelOpened)
    front.desk.set("temp", "0.5")
    front.desk.set("ctx", "99999")
    front.until(ModelFailed)
    assert front.desk.tuning.values == {"ctx": 512, "temp": 0.5}
    front.say("hello")
    assert front.texts == ["hello", "You said: hello"]
    again = make()
    again.open()
    assert again.backend.opened == [("fake", {"ctx": 512})]


def test_a_model_asked_for_while_another_loads_is_the_one_in_the_end(make: Make) -> None:
    front = make()
    front.open("first")
    front.desk.set("ctx", "1024")  # so that settings of the two differ
    front.until(ModelOpened)
    front.open("second")
    front.desk.open_model("first")
    front.desk.open_model("second")
    while front.desk.opened is None:
        front.until(ModelOpened)
    front.desk.worker.close()
    front.desk.worker = Worker(front.backend, front.told.put)  # the fixture closes one
    assert front.desk.model == front.desk.opened.name == "second"
    assert front.backend.opened[-1] == ("second", {})
    assert not [event for event in front.told.queue if isinstance(event, ModelOpened)]


def test_a_model_by_its_path_is_opened_once_with_the_settings_of_its_name(make: Make) -> None:
    front = make()
    front.desk.store.save_settings("model", {"ctx": 512, "temp": 0.5})
    front.backend.named["/there/model.gguf"] = "model"
    front.desk.open_model("/there/model.gguf")
    front.desk.send("typed while it loads")
    front.until(ReplyEnded)
    assert front.backend.opened == [("model", {"ctx": 512})]
    assert (front.desk.model, front.desk.tuning.values) == ("model", {"ctx": 512, "temp": 0.5})
    assert front.texts == ["typed while it loads", "You said: typed while it loads"]


def test_a_message_that_waits_for_a_model_is_for_the_one_chosen_in_its_place(make: Make) -> None:
    front = make()
    front.backend.wait = Flag()
    front.desk.open_model("first")
    front.desk.send("hello")
    front.desk.open_model("second")
    front.backend.wait.set()
    front.until(ReplyEnded)
    assert front.texts == ["hello", "You said: hello"]
    assert front.desk.model == "second"


@pytest.mark.parametrize(
    "call", ["remember", "show", "set_model", "set_preference", "preference", "settings", "update"]
)
def test_whatever_the_store_refuses_the_chat_goes_on(make: Make, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refuses(*_: object) -> None:
        raise EdgeLLMError(f"{call}: the disk is full")

    front = make()
    front.open()
    monkeypatch.setattr(front.desk.store, call, refuses)
    front.say("hello")
    assert front.texts == ["hello", "You said: hello"]
    front.desk.heard(ModelOpened("fake", 4096, True, asked="fake"))
    front.desk.walk(front.desk.path[0].id, 1)
    front.desk.new_chat()
    assert front.desk.draft() == ""
    while not front.told.empty():
        if isinstance(event := front.told.get(), Notice):
            front.notices.append(event.text)
    assert any(f"{call}: the disk is full" in notice for notice in front.notices)
    front.say("again")
    assert front.texts == ["again", "You said: again"]


@pytest.mark.parametrize("call", ["new_chat", "add"])
def test_what_cannot_be_stored_is_not_half_sent(make: Make, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refuses(*_: object) -> None:
        raise EdgeLLMError(f"{call}: the disk is full")

    front = make()
    front.open()
    with monkeypatch.context() as broken:
        broken.setattr(front.desk.store, call, refuses)
        with pytest.raises(EdgeLLMError, match="the disk is full"):
            front.desk.send("hello")
        assert front.desk.running is None
    front.say("hello")
    assert front.texts == ["hello", "You said: hello"]


def test_a_message_of_another_chat_is_not_edited_here(make: Make) -> None:
    front = make()
    front.open()
    front.say("one")
    message = front.desk.path[0].id
    front.desk.new_chat()
    with pytest.raises(EdgeLLMError, match="another chat"):
        front.desk.edit(message, "two")


def test_a_chat_that_begins_with_an_empty_reply_goes_on(make: Make) -> None:
    front = make()
    front.open()
    front.desk.set_system("Be brief.")
    chat = front.desk.store.put(Chat(0, "odd", "Be brief.", None, Tree([Message(1, None, "assistant", "", 0.0)], 1)))
    front.desk.open_chat(chat)
    front.say("hello")
    said = [("system", "Be brief."), ("user", "hello")]
    assert [(message["role"], message["content"]) for message in front.backend.model.asked[-1]] == said


def test_what_a_reply_does_not_see_is_dimmed_while_it_is_written(make: Make) -> None:
    model = FakeModel(replies=[[], ["two"], ["three"], ["four ", "more"]])
    front = make(model)
    front.open()
    for text in ("no reply", "second", "third"):
        front.say(text)
    shown = [message.id for message in front.desk.path]
    model.dropped, model.hold = (40, 2), 1
    front.desk.send("fourth")
    assert model.held.wait(20)
    # The model gets no turn without a reply, so that the two it does not see are `second` and its reply.
    assert front.desk.unseen() == frozenset(shown[:4])
    model.go.set()
    front.until(ReplyEnded)
    assert front.desk.unseen() == frozenset(shown[:4])


def test_a_text_is_weighed_against_what_is_left_of_the_context(make: Make) -> None:
    front = make(FakeModel(ctx=2100))
    front.desk.weigh("notes.md", "one two")  # no model yet: nothing follows
    front.open()
    front.desk.weigh("notes.md", "one two")
    assert front.until(Weighed) == Weighed("notes.md", "one two", 5)  # words: its name, two fences, and these
    front.desk.weigh("", "one two")
    assert front.until(Weighed) == Weighed("", "one two", 2)
    assert front.desk.too_long(2099) == ""
    assert "the context has 2,100; send a part" in front.desk.too_long(2100)
    front.say("hello")  # 2,060 tokens
    assert front.desk.too_long(39) == ""
    assert "40 of the context are left; /clear begins a new chat" in front.desk.too_long(40)
    front.desk.set("overflow", "drop")
    assert front.desk.too_long(40) == ""
    assert front.desk.too_long(2100)


def test_without_a_model_nothing_is_sent(make: Make) -> None:
    front = make()
    for said in (lambda: front.desk.send("hello"), front.desk.regenerate):
        with pytest.raises(EdgeLLMError, match="no model is open"):
            said()
    assert front.desk.chats() == []
    front.desk.open_model("fake")
    front.desk.send("hello")  # waits for it
    front.until(ReplyEnded)
    assert front.texts == ["hello", "You said: hello"]
    front.desk.open_model("missing")
    front.until(ModelFailed)
    with pytest.raises(EdgeLLMError, match="no model is open"):
        front.desk.edit(front.desk.path[0].id, "hi")
