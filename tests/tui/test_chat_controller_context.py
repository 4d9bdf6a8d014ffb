"""The desk: what a model sees of a conversation, and what is left of its context."""

import pytest

from edgellm.errors import EdgeLLMError
from support.chat_fakes import FakeModel
from support.desk_front import MakeFront
from tui.core.chats import Chats
from tui.core.events import Counted, ModelOpened, ReplyEnded, Weighed


def test_what_a_reply_did_not_see_is_known(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.say("one")
    front.backend.model.dropped = (1204, 2)
    front.say("two")
    assert front.desk.unseen() == {m.id for m in front.desk.path[:2]}
    assert front.desk.path[-1].dropped_tokens == 1204
    again = make_front()
    again.desk.open_chat(front.desk.chat.id)
    assert again.desk.unseen() == front.desk.unseen()


def test_what_is_dropped_is_read_while_it_happens_and_afterwards(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["one"], ["two ", "more"]]))
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
    again = make_front()
    again.desk.open_chat(front.desk.chat.id)
    assert (again.desk.reading().dropped_tokens, again.desk.reading().dropped_messages) == (1204, 2)


@pytest.mark.parametrize(
    ("ctx", "dropped", "used"),
    [
        (4096, 106, 2060),
        (2048, 106, 2048),
        (4097, 0, 2060 + 106),  # with what now has room again
    ],
)
def test_what_was_dropped_is_told_until_a_larger_context_has_room_for_it(
    make_front: MakeFront, ctx: int, dropped: int, used: int
) -> None:
    front = make_front()
    front.open()
    front.say("one")
    front.backend.model.dropped = (106, 2)
    front.say("two")
    front.backend.model.ctx = ctx
    front.desk.set("ctx", str(ctx))
    front.until(ModelOpened)
    reading = front.desk.reading()
    assert (reading.dropped_tokens, reading.used) == (dropped, used)
    assert bool(reading.dropped_messages) == bool(front.desk.unseen()) == bool(dropped)
    again = make_front()
    again.backend.model.ctx = ctx
    again.desk.open_chat(front.desk.chat.id)
    again.open()
    assert (again.desk.reading().dropped_tokens, again.desk.reading().used) == (dropped, used)


def test_the_tokens_of_a_conversation_are_counted_when_it_is_opened(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.say("three words here")
    first = front.desk.chat.id
    assert front.desk.reading().used == 2060  # of the session: 2,048 and the reply's
    front.desk.new_chat()
    assert front.desk.reading().used == 0
    front.open("other")  # other models have other tokens
    front.desk.open_chat(first)
    front.desk.new_chat()
    front.until(Counted)  # of a chat that was left
    assert front.desk.reading().used == 0
    again = make_front()
    again.open("other")
    Chats.open_chat(again.desk, first)  # with the model that is open
    again.until(Counted)
    assert again.desk.reading().used == 8  # words, in this model: "three words here You said: three words here"


def test_the_context_and_the_figures_of_a_reply_are_the_same_whenever_it_is_shown(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["first"], ["second, and more"]]))
    front.open()
    front.say("hello")
    before = front.desk.reading()
    assert before.live
    front.desk.regenerate()
    front.until(ReplyEnded)
    front.desk.walk(None, -1)
    again = make_front()
    again.desk.go_on_with(front.desk.chat.id)
    again.open()
    for reading in (front.desk.reading(), again.desk.reading()):
        assert reading.live
        assert (reading.used, reading.live.stats) == (before.used, before.live.stats)
    again.desk.set_system("be brief")  # which the reply has not seen
    again.until(Counted)
    assert again.desk.reading().used == 4


def test_a_model_that_cannot_count_is_no_problem(make_front: MakeFront, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: FakeModel, messages: object, options: object) -> int:
        raise EdgeLLMError("the template is broken")

    front = make_front()
    front.open()
    front.say("one")
    monkeypatch.setattr(FakeModel, "count", broken)
    again = make_front()
    again.desk.open_chat(front.desk.chat.id)
    again.open("other")
    again.until(Counted)
    assert (again.desk.reading().used, again.notices) == (0, [])


def test_what_a_reply_does_not_see_is_dimmed_while_it_is_written(make_front: MakeFront) -> None:
    model = FakeModel(replies=[[], ["two"], ["three"], ["four ", "more"]])
    front = make_front(model)
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


def test_a_text_is_weighed_against_what_is_left_of_the_context(make_front: MakeFront) -> None:
    front = make_front(FakeModel(ctx=2100))
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
