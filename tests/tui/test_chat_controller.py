"""The desk: what is said becomes messages and versions of them, in chats that are kept."""

from pathlib import Path

import pytest

from edgellm.errors import EdgeLLMError
from support.chat_fakes import FakeModel
from support.desk_front import MakeFront
from tui.core.events import ReplyEnded
from tui.core.store import Chat
from tui.core.tree import Message, Tree


def test_what_is_said_and_replied_is_kept(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.say("hello there")
    assert front.texts == ["hello there", "You said: hello there"]
    (row,) = front.desk.chats()
    assert (row.title, row.model) == ("hello there", "fake")
    again = make_front()
    again.desk.open_chat(row.id)
    assert again.texts == front.texts
    assert again.desk.path[1].stats == front.desk.path[1].stats
    assert again.desk.running is None


def test_the_model_gets_the_system_prompt_and_the_path(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.desk.set_system("Be brief.")
    front.say("one")
    front.say("two")
    assert [m["content"] for m in front.backend.model.asked[1]] == ["Be brief.", "one", "You said: one", "two"]
    assert [m["role"] for m in front.backend.model.asked[1]] == ["system", "user", "assistant", "user"]


def test_editing_keeps_the_old_branch(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.say("one")
    front.say("two")
    first = front.desk.path[0].id
    front.desk.edit(first, "uno")
    front.until(ReplyEnded)
    assert front.texts == ["uno", "You said: uno"]
    front.desk.walk(front.desk.path[0].id, -1)
    assert front.texts == ["one", "You said: one", "two", "You said: two"]


def test_regenerating_makes_another_version_of_the_last_reply(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["first"], ["second"]]))
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


def test_nothing_is_sent_while_a_reply_is_written(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["one ", "two"]], hold=1))
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


def test_a_reply_ends_in_its_own_chat_when_another_was_opened(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["one ", "two"]], hold=1))
    front.open()
    front.desk.send("hello")
    assert front.backend.model.held.wait(20)
    old = front.desk.chat.id
    front.desk.new_chat()
    front.until(ReplyEnded)
    assert front.texts == []
    front.desk.open_chat(old)
    assert front.texts == ["hello", "one "]


def test_a_message_right_after_esc_follows_what_had_come(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["one ", "two"], ["fine"]], hold=1))
    front.open()
    front.desk.send("count")
    assert front.backend.model.held.wait(20)
    front.desk.stop()
    front.desk.send("go on")
    front.until(ReplyEnded)
    front.until(ReplyEnded)
    assert front.texts == ["count", "one ", "go on", "fine"]
    assert [m["content"] for m in front.backend.model.asked[1]] == ["count", "one ", "go on"]


def test_what_has_come_of_a_reply_is_exported_and_forked(make_front: MakeFront, tmp_path: Path) -> None:
    front = make_front(FakeModel(replies=[["one ", "two"]], hold=1))
    front.open()
    front.desk.send("count")
    assert front.backend.model.held.wait(20)
    front.desk.export(tmp_path / "chat.md")
    assert "one" in (tmp_path / "chat.md").read_text()
    front.desk.fork(front.desk.path[-1].id)
    assert front.texts == ["count", "one "]


def test_a_reply_whose_end_was_not_heard_yet_is_forked_and_stays(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.desk.send("hello")
    assert front.desk.worker.done().wait(20)  # written and saved; what was told lies in the queue
    first = front.desk.chat.id
    front.desk.fork(front.desk.path[-1].id)
    assert front.texts == ["hello", "You said: hello"]
    assert front.desk.path[-1].finish_reason == "eog"
    front.until(ReplyEnded)
    front.desk.open_chat(first)
    assert front.texts == ["hello", "You said: hello"]
    assert front.desk.path[-1].finish_reason == "eog"


def test_a_reply_whose_end_was_not_heard_yet_is_seen_by_the_next(make_front: MakeFront) -> None:
    front = make_front(FakeModel(replies=[["one ", "two"]], hold=1))
    front.open()
    front.desk.send("count")
    assert front.backend.model.held.wait(20)
    front.desk.stop()
    assert front.desk.worker.done().wait(20)
    front.desk.send("go on")
    front.until(ReplyEnded)
    front.until(ReplyEnded)
    assert [m["content"] for m in front.backend.model.asked[1]] == ["count", "one ", "go on"]
    assert front.texts == ["count", "one ", "go on", "You said: go on"]


def test_a_fork_has_all_up_to_a_message(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.say("one")
    front.say("two")
    front.desk.fork(front.desk.path[1].id)
    assert front.texts == ["one", "You said: one"]
    front.say("three")
    assert len(front.desk.chats()) == 2


def test_a_deleted_chat_comes_back(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.say("one")
    chat = front.desk.chat.id
    front.desk.delete_chat(chat)
    assert front.texts == []
    assert list(front.desk.chats()) == []
    front.desk.undelete_chat(chat)
    assert [row.id for row in front.desk.chats()] == [chat]


def test_a_draft_is_kept_before_and_after_the_first_message(make_front: MakeFront) -> None:
    front = make_front()
    front.desk.save_draft("half a thou")
    assert make_front().desk.draft().text == "half a thou"
    front.open()
    front.say("one")
    front.desk.save_draft("and then")
    again = make_front()
    again.desk.open_chat(front.desk.chat.id)
    assert again.desk.draft().text == "and then"


def test_who_has_not_looked_at_a_draft_does_not_send_it(make_front: MakeFront) -> None:
    """As `--plain` in a pipe, while a thought waits on the screen."""
    make_front().desk.save_draft("half a thou")
    other = make_front()
    other.open()
    other.say("one")
    assert make_front().desk.draft().text == "half a thou"
    reader = make_front()
    reader.open()
    assert reader.desk.draft().text == "half a thou"
    reader.say("half a thought")
    assert make_front().desk.draft().text == ""


def test_export_never_replaces_a_file(make_front: MakeFront, tmp_path: Path) -> None:
    front = make_front()
    front.open()
    front.say("one")
    front.desk.export(tmp_path / "chat.md")
    assert "You said: one" in (tmp_path / "chat.md").read_text()
    with pytest.raises(EdgeLLMError, match="another name"):
        front.desk.export(tmp_path / "chat.md")


def test_a_message_of_another_chat_is_not_edited_here(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.say("one")
    message = front.desk.path[0].id
    front.desk.new_chat()
    with pytest.raises(EdgeLLMError, match="another chat"):
        front.desk.edit(message, "two")


def test_a_chat_that_begins_with_an_empty_reply_goes_on(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.desk.set_system("Be brief.")
    chat = front.desk.store.put(Chat(0, "odd", "Be brief.", None, Tree([Message(1, None, "assistant", "", 0.0)], 1)))
    front.desk.open_chat(chat)
    front.say("hello")
    said = [("system", "Be brief."), ("user", "hello")]
    assert [(message["role"], message["content"]) for message in front.backend.model.asked[-1]] == said
