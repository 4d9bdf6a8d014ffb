"""The chat controller: messages, their versions, and stored chats."""

from pathlib import Path

import pytest

from edgellm.errors import EdgeLLMError
from support.chat_fakes import FakeModel
from support.headless_chat import MakeFrontend
from tui.core.events import ReplyEnded
from tui.core.store import SavedChat
from tui.core.tree import Message, Tree


def test_messages_and_replies_are_saved(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.say("hello there")
    assert frontend.texts == ["hello there", "You said: hello there"]
    (row,) = frontend.controller.chats.list()
    assert (row.title, row.model) == ("hello there", "fake")
    again = make_frontend()
    again.controller.chats.open(row.id)
    assert again.texts == frontend.texts
    assert again.controller.conversation.path[1].stats == frontend.controller.conversation.path[1].stats
    assert again.controller.replies.running is None


def test_the_model_gets_the_system_prompt_and_the_path(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.controller.set_system("Be brief.")
    frontend.say("one")
    frontend.say("two")
    assert [m["content"] for m in frontend.backend.model.asked[1]] == ["Be brief.", "one", "You said: one", "two"]
    assert [m["role"] for m in frontend.backend.model.asked[1]] == ["system", "user", "assistant", "user"]


def test_editing_keeps_the_old_branch(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.say("one")
    frontend.say("two")
    first = frontend.controller.conversation.path[0].id
    frontend.controller.sender.edit(first, "uno")
    frontend.until(ReplyEnded)
    assert frontend.texts == ["uno", "You said: uno"]
    frontend.controller.navigation.walk(frontend.controller.conversation.path[0].id, -1)
    assert frontend.texts == ["one", "You said: one", "two", "You said: two"]


def test_regenerating_makes_another_version_of_the_last_reply(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["first"], ["second"]]))
    frontend.open()
    frontend.say("hello")
    frontend.controller.sender.regenerate()
    frontend.until(ReplyEnded)
    assert frontend.texts == ["hello", "second"]
    reply = frontend.controller.conversation.path[1].id
    assert len(frontend.controller.conversation.chat.tree.versions(reply)) == 2
    frontend.controller.navigation.walk(reply, -1)
    assert frontend.texts == ["hello", "first"]
    assert [m["content"] for m in frontend.backend.model.asked[1]] == ["hello"]


def test_nothing_is_sent_while_a_reply_is_written(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["one ", "two"]], hold=1))
    frontend.open()
    frontend.controller.sender.send("hello")
    assert frontend.backend.model.held.wait(20)
    assert frontend.controller.replies.running == frontend.controller.conversation.path[1].id
    with pytest.raises(EdgeLLMError, match="Esc stops it"):
        frontend.controller.sender.send("more")
    frontend.controller.replies.stop()
    ended = frontend.until(ReplyEnded)
    assert isinstance(ended, ReplyEnded)
    assert ended.finish_reason == "cancelled"
    assert frontend.texts == ["hello", "one "]
    assert frontend.controller.replies.running is None


def test_a_reply_ends_in_its_own_chat_when_another_was_opened(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["one ", "two"]], hold=1))
    frontend.open()
    frontend.controller.sender.send("hello")
    assert frontend.backend.model.held.wait(20)
    old = frontend.controller.conversation.chat.id
    frontend.controller.chats.new()
    frontend.until(ReplyEnded)
    assert frontend.texts == []
    frontend.controller.chats.open(old)
    assert frontend.texts == ["hello", "one "]


def test_a_message_right_after_esc_follows_what_had_come(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["one ", "two"], ["fine"]], hold=1))
    frontend.open()
    frontend.controller.sender.send("count")
    assert frontend.backend.model.held.wait(20)
    frontend.controller.replies.stop()
    frontend.controller.sender.send("go on")
    frontend.until(ReplyEnded)
    frontend.until(ReplyEnded)
    assert frontend.texts == ["count", "one ", "go on", "fine"]
    assert [m["content"] for m in frontend.backend.model.asked[1]] == ["count", "one ", "go on"]


def test_what_has_come_of_a_reply_is_exported_and_forked(make_frontend: MakeFrontend, tmp_path: Path) -> None:
    frontend = make_frontend(FakeModel(replies=[["one ", "two"]], hold=1))
    frontend.open()
    frontend.controller.sender.send("count")
    assert frontend.backend.model.held.wait(20)
    frontend.controller.chats.export(tmp_path / "chat.md")
    assert "one" in (tmp_path / "chat.md").read_text()
    frontend.controller.chats.fork(frontend.controller.conversation.path[-1].id)
    assert frontend.texts == ["count", "one "]


def test_a_reply_whose_end_was_not_handled_yet_is_forked_and_stays(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.controller.sender.send("hello")
    assert frontend.controller.worker.done().wait(20)  # written and saved; what was told lies in the queue
    first = frontend.controller.conversation.chat.id
    frontend.controller.chats.fork(frontend.controller.conversation.path[-1].id)
    assert frontend.texts == ["hello", "You said: hello"]
    assert frontend.controller.conversation.path[-1].finish_reason == "eog"
    frontend.until(ReplyEnded)
    frontend.controller.chats.open(first)
    assert frontend.texts == ["hello", "You said: hello"]
    assert frontend.controller.conversation.path[-1].finish_reason == "eog"


def test_a_reply_whose_end_was_not_handled_yet_is_seen_by_the_next(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(replies=[["one ", "two"]], hold=1))
    frontend.open()
    frontend.controller.sender.send("count")
    assert frontend.backend.model.held.wait(20)
    frontend.controller.replies.stop()
    assert frontend.controller.worker.done().wait(20)
    frontend.controller.sender.send("go on")
    frontend.until(ReplyEnded)
    frontend.until(ReplyEnded)
    assert [m["content"] for m in frontend.backend.model.asked[1]] == ["count", "one ", "go on"]
    assert frontend.texts == ["count", "one ", "go on", "You said: go on"]


def test_a_fork_has_all_up_to_a_message(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.say("one")
    frontend.say("two")
    frontend.controller.chats.fork(frontend.controller.conversation.path[1].id)
    assert frontend.texts == ["one", "You said: one"]
    frontend.say("three")
    assert len(frontend.controller.chats.list()) == 2


def test_a_deleted_chat_comes_back(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.say("one")
    chat = frontend.controller.conversation.chat.id
    frontend.controller.chats.delete(chat)
    assert frontend.texts == []
    assert list(frontend.controller.chats.list()) == []
    frontend.controller.chats.undelete(chat)
    assert [row.id for row in frontend.controller.chats.list()] == [chat]


def test_a_draft_is_kept_before_and_after_the_first_message(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.controller.conversation.save_draft("half a thou")
    assert make_frontend().controller.conversation.draft().text == "half a thou"
    frontend.open()
    frontend.say("one")
    frontend.controller.conversation.save_draft("and then")
    again = make_frontend()
    again.controller.chats.open(frontend.controller.conversation.chat.id)
    assert again.controller.conversation.draft().text == "and then"


def test_who_has_not_looked_at_a_draft_does_not_send_it(make_frontend: MakeFrontend) -> None:
    """As `--plain` in a pipe, while the screen has a draft."""
    make_frontend().controller.conversation.save_draft("half a thou")
    other = make_frontend()
    other.open()
    other.say("one")
    assert make_frontend().controller.conversation.draft().text == "half a thou"
    reader = make_frontend()
    reader.open()
    assert reader.controller.conversation.draft().text == "half a thou"
    reader.say("half a thought")
    assert make_frontend().controller.conversation.draft().text == ""


def test_export_never_replaces_a_file(make_frontend: MakeFrontend, tmp_path: Path) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.say("one")
    frontend.controller.chats.export(tmp_path / "chat.md")
    assert "You said: one" in (tmp_path / "chat.md").read_text()
    with pytest.raises(EdgeLLMError, match="another name"):
        frontend.controller.chats.export(tmp_path / "chat.md")


def test_a_message_of_another_chat_is_not_edited_here(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.say("one")
    message = frontend.controller.conversation.path[0].id
    frontend.controller.chats.new()
    with pytest.raises(EdgeLLMError, match="another chat"):
        frontend.controller.sender.edit(message, "two")


def test_a_chat_that_begins_with_an_empty_reply_goes_on(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.controller.set_system("Be brief.")
    chat = frontend.controller.store.put(
        SavedChat(0, "odd", "Be brief.", None, Tree([Message(1, None, "assistant", "", 0.0)], 1))
    )
    frontend.controller.chats.open(chat)
    frontend.say("hello")
    sent = [("system", "Be brief."), ("user", "hello")]
    assert [(message["role"], message["content"]) for message in frontend.backend.model.asked[-1]] == sent
