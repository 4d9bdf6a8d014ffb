"""A short soak test; `python -m support.soak_chat` is a long one with figures."""

import gc
from pathlib import Path

from textual.widget import Widget

from support.chat_app import chatting, run
from support.soak_chat import soak
from tui.core.store import Store


def test_many_turns_in_a_terminal_while_keys_are_pressed(tmp_path: Path) -> None:
    report, waits = soak(tmp_path, 11, 2000)
    assert "11 turns, 1,200 tokens" in report
    assert waits  # each of them was seen
    store = Store(tmp_path / "chats.db")
    messages = store.load(store.chats()[0].id).tree.path()
    store.close()
    assert [message.text for message in messages[::2]] == [f"message {turn}" for turn in range(1, 12)]
    assert all(reply.finish_reason == "eog" and reply.text for reply in messages[1::2])


def test_turns_leave_no_widgets_behind(tmp_path: Path) -> None:
    def widgets() -> int:
        gc.collect()
        # `isinstance` would ask the referent of a weak proxy, which may be gone.
        return sum(issubclass(type(each), Widget) for each in gc.get_objects())

    async def test() -> None:
        async with chatting(tmp_path) as chat:
            for turn in range(3):
                await chat.say(f"message {turn}")
            before = widgets()
            for turn in range(8):
                await chat.say(f"message {turn}")
            assert widgets() <= before

    run(test())
