"""The chat controller: the part of a conversation that the model sees, and the rest of its context."""

import pytest

from edgellm.errors import EdgeLLMError
from support.chat_fakes import FakeModel
from support.headless_chat import MakeFrontend
from tui.core.events import AttachmentCounted, ConversationCounted, ModelOpened, ReplyEnded


def test_what_a_reply_did_not_see_is_known(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.say("one")
    frontend.backend.model.dropped = (1204, 2)
    frontend.say("two")
    assert frontend.controller.status.unseen() == {m.id for m in frontend.controller.conversation.path[:2]}
    assert frontend.controller.conversation.path[-1].dropped_tokens == 1204
    again = make_frontend()
    again.controller.chats.open(frontend.controller.conversation.chat.id)
    assert again.controller.status.unseen() == frontend.controller.status.unseen()


def test_what_is_dropped_is_read_while_it_happens_and_afterwards(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["one"], ["two ", "more"]]))
    frontend.open()
    frontend.controller.model.set("overflow", "drop")
    frontend.say("first")
    assert (frontend.controller.status.activity().overflow, frontend.controller.status.activity().dropped_tokens) == (
        "drop",
        0,
    )
    frontend.backend.model.dropped, frontend.backend.model.hold = (1204, 2), 1
    frontend.controller.sender.send("second")
    assert frontend.backend.model.held.wait(20)
    assert (
        frontend.controller.status.activity().dropped_tokens,
        frontend.controller.status.activity().dropped_messages,
    ) == (1204, 2)
    frontend.backend.model.go.set()
    frontend.until(ReplyEnded)
    again = make_frontend()
    again.controller.chats.open(frontend.controller.conversation.chat.id)
    assert (again.controller.status.activity().dropped_tokens, again.controller.status.activity().dropped_messages) == (
        1204,
        2,
    )


@pytest.mark.parametrize(
    ("ctx", "dropped", "used"),
    [
        (4096, 106, 2060),
        (2048, 106, 2048),
        (4097, 0, 2060 + 106),  # with what now has room again
    ],
)
def test_what_was_dropped_is_reported_until_a_larger_context_has_room_for_it(
    make_frontend: MakeFrontend, ctx: int, dropped: int, used: int
) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.say("one")
    frontend.backend.model.dropped = (106, 2)
    frontend.say("two")
    frontend.backend.model.ctx = ctx
    frontend.controller.model.set("ctx", str(ctx))
    frontend.until(ModelOpened)
    reading = frontend.controller.status.activity()
    assert (reading.dropped_tokens, reading.used) == (dropped, used)
    assert bool(reading.dropped_messages) == bool(frontend.controller.status.unseen()) == bool(dropped)
    again = make_frontend()
    again.backend.model.ctx = ctx
    again.controller.chats.open(frontend.controller.conversation.chat.id)
    again.open()
    assert (again.controller.status.activity().dropped_tokens, again.controller.status.activity().used) == (
        dropped,
        used,
    )


def test_the_tokens_of_a_conversation_are_counted_when_it_is_opened(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.say("three words here")
    first = frontend.controller.conversation.chat.id
    assert frontend.controller.status.activity().used == 2060  # of the session: 2,048 and the reply's
    frontend.controller.chats.new()
    assert frontend.controller.status.activity().used == 0
    frontend.open("other")  # other models have other tokens
    frontend.controller.chats.open(first)
    frontend.controller.chats.new()
    frontend.until(ConversationCounted)  # of a chat that was left
    assert frontend.controller.status.activity().used == 0
    again = make_frontend()
    again.open("other")
    again.controller.chats.open(first, own_model=False)
    again.until(ConversationCounted)
    assert (
        again.controller.status.activity().used == 8
    )  # words, in this model: "three words here You said: three words here"


def test_the_context_and_the_figures_of_a_reply_are_the_same_whenever_it_is_shown(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["first"], ["second, and more"]]))
    frontend.open()
    frontend.say("hello")
    before = frontend.controller.status.activity()
    assert before.live
    frontend.controller.sender.regenerate()
    frontend.until(ReplyEnded)
    frontend.controller.navigation.walk(None, -1)
    again = make_frontend()
    again.controller.resume(frontend.controller.conversation.chat.id)
    again.open()
    for reading in (frontend.controller.status.activity(), again.controller.status.activity()):
        assert reading.live
        assert (reading.used, reading.live.stats) == (before.used, before.live.stats)
    again.controller.set_system("be brief")  # which the reply has not seen
    again.until(ConversationCounted)
    assert again.controller.status.activity().used == 4


def test_a_model_that_cannot_count_is_no_problem(make_frontend: MakeFrontend, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(model: FakeModel, messages: object, options: object) -> int:
        raise EdgeLLMError("the template is broken")

    frontend = make_frontend()
    frontend.open()
    frontend.say("one")
    monkeypatch.setattr(FakeModel, "count", broken)
    again = make_frontend()
    again.controller.chats.open(frontend.controller.conversation.chat.id)
    again.open("other")
    again.until(ConversationCounted)
    assert (again.controller.status.activity().used, again.notices) == (0, [])


def test_what_a_reply_does_not_see_is_dimmed_while_it_is_written(make_frontend: MakeFrontend) -> None:
    model = FakeModel(replies=[[], ["two"], ["three"], ["four ", "more"]])
    frontend = make_frontend(model)
    frontend.open()
    for text in ("no reply", "second", "third"):
        frontend.say(text)
    shown = [message.id for message in frontend.controller.conversation.path]
    model.dropped, model.hold = (40, 2), 1
    frontend.controller.sender.send("fourth")
    assert model.held.wait(20)
    # The model gets no turn without a reply, so that the two it does not see are `second` and its reply.
    assert frontend.controller.status.unseen() == frozenset(shown[:4])
    model.go.set()
    frontend.until(ReplyEnded)
    assert frontend.controller.status.unseen() == frozenset(shown[:4])


def test_a_text_is_weighed_against_what_is_left_of_the_context(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(ctx=2100))
    frontend.controller.tokens.count_attachment("notes.md", "one two")  # no model yet: nothing follows
    frontend.open()
    frontend.controller.tokens.count_attachment("notes.md", "one two")
    assert frontend.until(AttachmentCounted) == AttachmentCounted(
        "notes.md", "one two", 5
    )  # words: its name, two fences, and these
    frontend.controller.tokens.count_attachment("", "one two")
    assert frontend.until(AttachmentCounted) == AttachmentCounted("", "one two", 2)
    assert frontend.controller.status.too_long(2099) == ""
    assert "the context has 2,100; send a part" in frontend.controller.status.too_long(2100)
    frontend.say("hello")  # 2,060 tokens
    assert frontend.controller.status.too_long(39) == ""
    assert "40 of the context are left; /clear begins a new chat" in frontend.controller.status.too_long(40)
    frontend.controller.model.set("overflow", "drop")
    assert frontend.controller.status.too_long(40) == ""
    assert frontend.controller.status.too_long(2100)
