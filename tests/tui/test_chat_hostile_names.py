"""Hostile names of files, models and chats: they are shown as text, wherever they appear."""

import unicodedata
from pathlib import Path

import pytest

from support.chat_app import Driven, chatting, driving, run
from support.chat_fakes import FakeModel
from support.headless_chat import MakeFrontend
from support.tui_models_app import settled
from tui.core.store import Store
from tui.core.titles import one_line, with_joiners
from tui.models.row import ModelRow
from tui.models.screen import ModelsScreen
from tui.sidebar import Sidebar

HOSTILE = "a\x1b]52;c;aGk=\x07\x1b[2J\x9b2J[red]b[/]\u202ec\u2066\x7f"
_HARMLESS = ("\n",)


def harmful(chat: Driven) -> list[str]:
    """The control characters, and those that change the direction of text, on the screen."""
    return [c for c in chat.shown() if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in _HARMLESS]


def test_models_in_the_picker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [ModelRow(HOSTILE, HOSTILE, 1, HOSTILE, 1, 1, "fits", note=HOSTILE), ModelRow(HOSTILE, "", problem=HOSTILE)]
    monkeypatch.setattr("tui.models.catalog.local_rows", lambda: iter(rows))
    monkeypatch.setattr("tui.models.catalog.offered_rows", lambda: iter([ModelRow(HOSTILE, "", offered=True)]))

    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.press("f3")
            assert isinstance(chat.app.screen, ModelsScreen)
            await settled(chat.app.screen, chat.pilot)
            for _ in range(3):
                await chat.press("down")
                assert "[red]b[/]" in chat.shown()
                assert harmful(chat) == []
            chat.app.screen._welcome(rows[1])
            await chat.pilot.pause()
            assert harmful(chat) == []

    run(test())


def test_chats_models_and_files_around_the_conversation(tmp_path: Path) -> None:
    async def test() -> None:
        store = Store(tmp_path / "chats.db")
        number = store.new_chat(HOSTILE, None, HOSTILE, HOSTILE)
        store.add(number, None, "user", HOSTILE)
        async with driving(store, FakeModel(), HOSTILE, number, (120, 40), lambda: [HOSTILE.replace(" ", "")]) as chat:
            chat.composer.form.attach(HOSTILE, "text")
            await chat.press("ctrl+l", "ctrl+t")
            assert harmful(chat) == []
            await chat.press("f2")  # the title, to be changed
            assert chat.screen.query_one(Sidebar)._renaming
            assert harmful(chat) == []
            await chat.press("escape", "escape", "f4")
            assert "[red]b[/]" in chat.shown()
            assert harmful(chat) == []
            await chat.press("escape")
            await chat.until(lambda: chat.app.controller.model_names.names)
            await chat.press(*"/model a")
            assert "[red]b[/]" in chat.shown()
            assert harmful(chat) == []

    run(test())


FAMILY = "👨‍👩‍👧 and ❤️ 👍🏽"


def test_titles_keep_what_joins_emoji(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.say(f"{FAMILY} in   a\nphoto")
    assert frontend.controller.conversation.chat.title == f"{FAMILY} in a photo"
    assert one_line(frontend.controller.conversation.chat.title) == f"{FAMILY} in a photo"
    assert with_joiners(f"{FAMILY}\x1b\u202e") == f"{FAMILY}␛"
    assert one_line("👨‍👩‍👧" * 9, 3) == "👨…"
