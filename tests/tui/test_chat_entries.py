"""The entries of the transcript: only changed messages get new entries."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.chat_app import chatting, run
from tui.chat.transcript_entries import TranscriptEntries
from tui.core.store.validation import ROLES


def test_only_what_has_changed_is_another_entry(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            await chat.say("two")
            entries = TranscriptEntries(chat.app.controller)
            before = entries.shown()
            assert [entry.text for entry in before] == ["one", "You said: one", "two", "You said: two"]
            assert all(new is old for new, old in zip(entries.shown(), before, strict=True))
            await chat.press("ctrl+r")
            await chat.until(lambda: chat.app.controller.replies.running is None)
            after = entries.shown()
            assert [new is old for new, old in zip(after, before, strict=True)] == [True, True, True, False]
            assert (after[-1].version, after[-1].versions) == (2, 2)
            chat.app.controller.navigation.walk(after[-1].key, -1)
            assert (entries.shown()[-1].version, entries.shown()[-1].versions) == (1, 2)
            assert "TTFT 0.21 s" in entries.shown()[-1].stats
            chat.app.controller.set_system("Be brief.")
            assert entries.shown()[0].role == "system"

    run(test())


def test_a_reply_that_the_program_was_killed_over_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            chat.app.controller.conversation.chat.tree.put(
                replace(chat.app.controller.conversation.path[-1], finish_reason=None, stats=None)
            )
            assert TranscriptEntries(chat.app.controller).shown()[-1].stats == "not finished"

    run(test())


def test_a_reply_that_waits_for_a_stopped_one_is_not_over(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            controller = chat.app.controller
            controller.sender.send("two")
            controller.replies.stop()
            controller.sender.send("three")
            shown = TranscriptEntries(controller).shown()
            assert (shown[-1].role, shown[-1].stats) == ("assistant", "")
            await chat.until(lambda: controller.replies.running is None)

    run(test())


@pytest.mark.parametrize("role", ROLES)
def test_all_roles_of_an_imported_chat_are_shown(tmp_path: Path, role: str) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            controller = chat.app.controller
            controller.conversation.chat.tree.put(
                replace(controller.conversation.path[-1], role=role, text="what they said")
            )
            chat.transcript.show(TranscriptEntries(controller).shown())
            await chat.pilot.pause()
            assert "what they said" in chat.shown()

    run(test())


def test_tool_messages_of_an_imported_chat_have_no_end_reason(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.say("one")
            chat.app.controller.conversation.chat.tree.put(
                replace(chat.app.controller.conversation.path[-1], role="tool", finish_reason=None, stats=None)
            )
            assert TranscriptEntries(chat.app.controller).shown()[-1].stats == ""

    run(test())
