"""The settings panel by its keys."""

from pathlib import Path
from threading import Event

from textual.widgets import Label

from support.chat_app import Driven, chatting, run
from support.chat_fakes import FakeModel
from tui.core.settings import SETTINGS
from tui.core.store import Store
from tui.views.choice_field import ChoiceField
from tui.views.setting_row import SettingRow
from tui.views.settings import SettingsScreen

SIZE = (80, 24)


async def opened(chat: Driven) -> SettingsScreen:
    screen = SettingsScreen(chat.app.controller)
    await chat.app.push_screen(screen)
    await chat.pilot.pause()
    return screen


def line(chat: Driven, name: str) -> str:
    """The line of a setting, as it is on the screen."""
    found = next(line for line in chat.shown().splitlines() if line.startswith(f"│ {name} "))
    return " ".join(found.strip("│").split())


async def with_focus(chat: Driven, name: str) -> None:
    """Go to a setting."""
    row = next(row for row in chat.app.screen.query(SettingRow) if str(row.query_one(".name", Label).content) == name)
    row.query_one("Input, ChoiceField").focus()
    await chat.pilot.pause()


def test_each_setting_has_its_line_and_says_where_its_default_is_from(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(defaults={"temp": 0.6, "top_k": 20}), (100, 32)) as chat:
            chat.app.controller.model.set("top_k", "7")
            await opened(chat)
            assert line(chat, "temp") == "temp 0.6 default 0.6, from the model"
            assert line(chat, "top_k") == "top_k 7 default 20, from the model"
            assert line(chat, "min_p") == "min_p 0.05 default 0.05, edgellm's"
            assert line(chat, "ctx") == "ctx automatic default automatic, 4,096 now"
            assert line(chat, "draft") == "draft none default none, but those from the text"
            assert line(chat, "kv_type") == "kv_type ‹ f16 › default f16, edgellm's"
            assert all(f"│ {setting.name} " in chat.shown() for setting in SETTINGS)
            assert "Settings of fake" in chat.shown()

    run(test())


def test_the_focused_setting_is_explained(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            await opened(chat)
            await with_focus(chat, "seed")
            assert "the same seed gives the same text" in chat.shown()
            await with_focus(chat, "gpu_layers")
            assert "reloads the model" in " ".join(chat.shown().replace("│", "").split())

    run(test())


def test_on_a_high_screen_each_setting_is_explained(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=(120, 50)) as chat:
            await opened(chat)
            await chat.pilot.pause()
            assert [setting.name for setting in SETTINGS if setting.help not in chat.shown()] == []

    run(test())


def test_a_value_is_kept_when_its_row_is_left(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            await opened(chat)
            await with_focus(chat, "temp")
            await chat.press(*"0.25")
            assert chat.app.controller.settings.values == {}
            await chat.press("enter")
            assert chat.app.controller.settings.values == {"temp": 0.25}
            await chat.press("3", "0", "escape")
            assert not isinstance(chat.app.screen, SettingsScreen)
            assert Store(tmp_path / "chats.db").preferences.settings("fake") == {"temp": 0.25, "top_k": 30}

    run(test())


def test_a_wrong_value_is_reported_at_its_row_and_nothing_is_lost(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            chat.app.controller.model.set("top_k", "30")
            await opened(chat)
            await with_focus(chat, "top_k")
            await chat.press(*"hot")
            rows = chat.shown().splitlines()
            (place,) = (place for place, row in enumerate(rows) if "│ top_k " in row)
            assert "cannot be 'hot'" in rows[place + 1]
            await chat.press("down")
            assert "hot" in chat.shown().splitlines()[place]
            assert chat.app.controller.settings.values == {"top_k": 30}
            await chat.press("up", *"45")
            assert "cannot be" not in chat.shown()
            await chat.press("escape")
            assert chat.app.controller.settings.values == {"top_k": 45}

    run(test())


def test_closing_leaves_out_what_is_wrong(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            chat.app.controller.model.set("top_p", "0.5")
            await opened(chat)
            await with_focus(chat, "top_p")
            await chat.press("7", "escape")
            assert not isinstance(chat.app.screen, SettingsScreen)
            assert chat.app.controller.settings.values == {"top_p": 0.5}

    run(test())


def test_settings_of_loading_open_the_model_anew_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            backend = chat.app.controller.worker._loader._backend
            await opened(chat)
            await with_focus(chat, "ctx")
            await chat.press(*"1024", "down")
            await with_focus(chat, "kv_type")
            await chat.press("right", "right", "right")
            assert chat.app.controller.settings.values == {"ctx": 1024, "kv_type": "q8_0"}
            assert len(backend.opened) == 1
            await chat.press("escape")
            await chat.until(lambda: chat.app.controller.model.opened)
            assert backend.opened[1:] == [("fake", {"ctx": 1024, "kv_type": "q8_0"})]

    run(test())


def test_what_is_set_back_opens_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            await opened(chat)
            await with_focus(chat, "kv_type")
            await chat.press("right", "left")
            await with_focus(chat, "temp")
            await chat.press(*"0.5", "escape")
            assert chat.app.controller.model.opened
            assert len(chat.app.controller.worker._loader._backend.opened) == 1

    run(test())


def test_defaults_come_back_by_keys(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            for name, value in (("temp", "0.5"), ("top_k", "9"), ("overflow", "drop")):
                chat.app.controller.model.set(name, value)
            chat.app.controller.set_system("Be brief.")
            await opened(chat)
            await with_focus(chat, "temp")
            await chat.press("ctrl+r")
            assert chat.app.controller.settings.values == {"top_k": 9, "overflow": "drop"}
            assert line(chat, "temp") == "temp 0.8 default 0.8, edgellm's"
            chat.app.controller.model.think(False)
            await with_focus(chat, "thinking")
            await chat.press("ctrl+t")
            assert chat.app.controller.settings.values == {}
            assert chat.app.controller.settings.thinking is None
            assert line(chat, "thinking") == "thinking ‹ automatic › default automatic, by the template"
            assert line(chat, "overflow") == "overflow ‹ stop › default stop, edgellm's"
            assert chat.app.controller.conversation.chat.system == "Be brief."

    run(test())


def test_the_system_prompt_may_have_lines(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            chat.app.controller.set_system("Be brief.")
            screen = await opened(chat)
            assert "system prompt       Be brief." in chat.shown()
            screen.query_one("TextArea").focus()
            await chat.pilot.pause()
            await chat.press("end", "enter", *"No", "tab")
            assert chat.app.controller.conversation.chat.system == "Be brief.\nNo"

    run(test())


def test_the_effort_is_chosen_where_the_template_takes_one(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(thinking=False, effort=True), SIZE) as chat:
            await opened(chat)
            await with_focus(chat, "effort")
            await chat.press("left")
            assert chat.app.controller.settings.effort == "high"
            await chat.press("ctrl+r")
            assert chat.app.controller.settings.effort is None
            await chat.press("left", "escape")
            assert chat.app.controller.settings.for_replies() == {"template_args": {"reasoning_effort": "high"}}

    async def without() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            await opened(chat)
            assert "effort" not in chat.shown()

    run(test())
    run(without())


def test_thinking_is_switched_where_the_template_can(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            await opened(chat)
            await with_focus(chat, "thinking")
            await chat.press("left")
            assert chat.app.controller.settings.thinking is False
            await chat.press("right", "right")
            assert chat.app.controller.settings.thinking is True
            await chat.press("ctrl+r")
            assert chat.app.controller.settings.thinking is None

    async def without() -> None:
        async with chatting(tmp_path, FakeModel(thinking=False), SIZE) as chat:
            await opened(chat)
            assert "thinking" not in chat.shown()
            await chat.press("escape")
            assert not chat.notices

    run(test())
    run(without())


def test_a_click_steps_through_choices(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            screen = await opened(chat)
            choice = next(
                row for row in screen.query(SettingRow) if "overflow" in str(row.query_one(".name", Label).content)
            ).query_one(ChoiceField)
            await chat.pilot.click(choice, offset=(5, 0))
            await chat.pilot.click(choice, offset=(5, 0))
            assert chat.app.controller.settings.values == {"overflow": "drop"}
            await chat.pilot.click(choice, offset=(0, 0))
            assert chat.app.controller.settings.values == {"overflow": "stop"}

    run(test())


def test_defaults_of_a_model_that_is_still_loading_come_later(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(defaults={"temp": 0.6}), SIZE) as chat:
            backend = chat.app.controller.worker._loader._backend
            backend.wait = Event()
            chat.app.controller.model.open("fake")
            await opened(chat)
            assert line(chat, "temp") == "temp 0.8 default 0.8, edgellm's"
            backend.wait.set()
            await chat.until(lambda: chat.app.controller.model.opened)
            assert line(chat, "temp") == "temp 0.6 default 0.6, from the model"

    run(test())


def test_a_name_with_markup_is_only_a_name(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            chat.app.controller.model.open("[/b]x[red]")
            await chat.until(lambda: chat.app.controller.model.opened)
            await opened(chat)
            assert "Settings of [/b]x[red]" in chat.shown()

    run(test())


def test_what_is_set_shows_in_the_row_that_has_the_focus_and_stays_when_it_is_left_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=SIZE) as chat:
            chat.app.controller.model.set("temp", "1.5")
            for _ in range(2):
                await chat.press("f4")
                assert line(chat, "temp") == "temp 1.5 default 0.8, edgellm's"
                await chat.press("escape")
                assert chat.app.controller.settings.values == {"temp": 1.5}

    run(test())
