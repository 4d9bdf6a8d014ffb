"""The list of completions: Enter never does more than what can be read on the screen, Tab completes, Esc closes."""

import pytest
from textual import events
from textual.pilot import Pilot

from support.composer_app import ComposerApp, drive, shown, type_text
from tui.composer import CompletionItem
from tui.composer.popup import Popup

COMMANDS = [
    CompletionItem("/clear", "begin anew"),
    CompletionItem("/model", "change the model"),
    CompletionItem("/save", "name the chat"),
    CompletionItem("/set ", "change a setting"),
    CompletionItem("/settings", "look at all of them"),
]
MODELS = [CompletionItem("builtin", "comes with it"), CompletionItem("qwen", "pulled")]


def complete(text: str, cursor: int) -> list[CompletionItem]:
    name, space, argument = text[:cursor].partition(" ")
    if not text.startswith("/"):
        return [CompletionItem("@everyone", "all")] if text[:cursor].endswith("@") else []
    if not space:
        return [each for each in COMMANDS if each.text.startswith(name)]
    return [each for each in MODELS if name == "/model" and each.text.startswith(argument)]


def selected(app: ComposerApp) -> str | None:
    chosen = app.query_one(Popup).selected
    return chosen.text if chosen else None


def names(app: ComposerApp) -> list[str]:
    popup = app.query_one(Popup)
    return [each.text for each in popup.completions] if popup.display else []


def press(*keys: str, typed: str = "") -> tuple[list[str], str]:
    """The commands that were run, and what is in the box after `typed` and the keys."""
    result: list[tuple[list[str], str]] = []

    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(complete)
        await type_text(pilot, typed)
        await pilot.press(*keys)
        result.append((app.commands(), app.box.text))

    drive(test)
    return result[0]


@pytest.mark.parametrize(
    ("typed", "keys", "commands", "left"),
    [
        ("/cl", ["enter"], ["/clear"], ""),  # the first one is selected, and complete
        ("/model", ["enter"], ["/model"], ""),
        ("/se", ["enter"], [], "/set "),  # asks for more
        ("/set", ["enter"], ["/set"], ""),  # says itself what it wants
        ("/set temp 1", ["enter"], ["/set temp 1"], ""),
        ("/settings", ["enter"], ["/settings"], ""),
        ("/s", ["down", "down", "enter"], ["/settings"], ""),
        ("/s", ["up", "enter"], ["/settings"], ""),  # round the end
        ("/cl", ["tab"], [], "/clear "),
        ("/cl", ["tab", "enter"], ["/clear"], ""),
        ("/se", ["tab"], [], "/set "),
        ("/model ", ["enter"], ["/model"], ""),  # nothing of the argument is typed: nothing is taken
        ("/model q", ["enter"], ["/model qwen"], ""),
        ("/model ", ["down", "enter"], ["/model builtin"], ""),
        ("/model ", ["tab", "enter"], ["/model builtin"], ""),
        ("/", ["down", "enter"], ["/clear"], ""),
        ("/nonsense", ["enter"], ["/nonsense"], ""),
        ("/cl", ["escape", "enter"], ["/cl"], ""),
    ],
)
def test_what_a_key_makes_of_a_command(typed: str, keys: list[str], commands: list[str], left: str) -> None:
    assert press(*keys, typed=typed) == (commands, left)


def test_a_slash_alone_is_no_message() -> None:
    assert press("enter", typed="/") == (["/"], "")


def test_a_path_begins_a_message() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(complete)
        for typed in ("/etc/hosts is what?", "/tmp/", "/a /b"):
            app.box.text = typed
            await pilot.press("enter")
        assert app.sent() == ["/etc/hosts is what?", "/tmp/"]
        assert app.commands() == ["/a /b"]

    drive(test)


def test_two_slashes_and_several_lines_are_a_message() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(complete)
        await type_text(pilot, "//set")
        assert names(app) == []
        await pilot.press("enter", *"/set", "ctrl+j", "x", "enter")
        assert app.sent() == ["/set", "/set\nx"]
        app.box.text = "// a comment\nint x;"
        await pilot.press("enter")
        assert app.sent()[-1] == "// a comment\nint x;"
        assert app.commands() == []

    drive(test)


def test_in_a_message_enter_sends_and_the_arrows_choose() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(complete)
        await type_text(pilot, "hi @")
        assert (names(app), selected(app)) == (["@everyone"], None)
        await pilot.press("down", "enter")
        assert app.box.text == "hi @everyone"
        await pilot.press("enter", "@", "enter")
        assert app.sent() == ["hi @everyone", "@"]

    drive(test)


def test_the_list_follows_what_is_typed() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(complete)
        await pilot.press("/", "s")
        assert (names(app), selected(app)) == (["/save", "/set ", "/settings"], "/save")
        await pilot.press("e", "t")
        assert (names(app), selected(app)) == (["/set ", "/settings"], "/set ")
        await pilot.press("t")
        assert selected(app) == "/settings"
        await pilot.press("backspace", "backspace", "backspace", "backspace", "backspace")
        assert names(app) == []

    drive(test)


def test_escape_closes_it_until_another_word_is_begun() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(complete)
        await pilot.press("/", "escape", "m")
        assert (names(app), app.left) == ([], [])
        await pilot.press(*"odel ")
        assert names(app) == ["builtin", "qwen"]
        await pilot.press("escape", "escape")
        assert app.left == ["escape"]
        await pilot.press("ctrl+u", "/")
        assert len(names(app)) == len(COMMANDS)

    drive(test)


def test_it_lies_over_what_is_above_and_shows_help() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        above = app.query_one("#above").region
        app.box.set_completer(lambda text, cursor: [CompletionItem(f"/c{n}", f"help {n}") for n in range(20)])
        await pilot.press("/")
        await pilot.pause()
        rows = shown(app)
        assert [row.split()[:3] for row in rows[13:21]] == [[f"/c{n}", "help", f"{n}"] for n in range(8)]
        assert rows[22].split() == ["│", "/", "│"]
        assert app.query_one("#above").region == above
        await pilot.press("up")
        await pilot.pause()
        assert shown(app)[20].split()[0] == "/c19"

    drive(test)


def test_it_stays_on_a_small_screen() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(lambda text, cursor: [CompletionItem(f"/c{n}", "long help " * 9) for n in range(20)])
        await pilot.press("/")
        await pilot.pause()
        rows = shown(app)
        assert rows[4].split() == ["│", "/", "│"]
        assert [row.split()[0] for row in rows[:3]] == [f"/c{n}" for n in range(3)]

    drive(test, size=(20, 6))


def test_a_command_that_is_recalled_opens_no_list() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(complete)
        app.box.form.set_history(["first", "/s", "/m"])
        await pilot.press("up", "up", "up")
        assert (app.box.text, names(app)) == ("first", [])
        await pilot.press("down", "enter")
        assert app.commands() == ["/s"]

    drive(test)


def test_a_list_opens_for_what_is_typed_alone() -> None:
    """A draft that comes back, also after an edit, is no beginning of a word until something is typed."""

    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(complete)
        app.box.begin("/s")
        await pilot.pause()
        assert names(app) == []
        app.box.edit("/se", 1)
        await pilot.pause()
        assert names(app) == []
        await pilot.press("escape")
        await pilot.press("left", "right")
        assert (app.box.text, names(app)) == ("/s", [])
        await pilot.press("e")
        assert names(app)[0] == "/set "
        await pilot.press("backspace")
        assert "/save" in names(app)
        app.box.begin("/s")
        await pilot.pause()
        assert names(app) == []

    drive(test)


def test_a_click_takes_one() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(complete)
        await pilot.press("/")
        await pilot.pause()
        await pilot.click(Popup, offset=(2, 1))
        assert app.box.text == "/model"
        assert app.editor.has_focus

    drive(test)


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
@pytest.mark.parametrize("colors", [True, False])
def test_what_is_selected_is_seen(theme: str, colors: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not colors:
        monkeypatch.setenv("NO_COLOR", "1")

    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.theme = theme
        app.box.set_completer(complete)
        await pilot.press("/", "s")
        await pilot.pause()
        styles = {}
        for strip in app.screen._compositor.render_strips():
            for part in strip.apply_filter(app._filters[-1], app.screen.styles.background) if app._filters else strip:
                styles.setdefault(part.text.split(" ")[0], part.style)
        assert styles["/save"].bgcolor != styles["/set"].bgcolor
        assert styles["/save"].color != styles["/save"].bgcolor

    drive(test)


@pytest.mark.parametrize(
    ("keys", "commands", "left"),
    [
        (["/", "c", "l", "enter", "h", "i"], ["/clear"], "hi"),
        (["/", "m", "o", "tab", "q", "enter", "h", "i"], ["/model qwen"], "hi"),
        (["/", "s", "down", "down", "enter", "h", "i"], ["/settings"], "hi"),
        (["/", "s", "escape", "a", "enter"], ["/sa"], ""),
    ],
)
def test_keys_that_come_in_a_bunch_find_the_list(keys: list[str], commands: list[str], left: str) -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.set_completer(complete)
        for key in keys:
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause()
        await pilot.pause()
        assert (app.commands(), app.box.text, app.left) == (commands, left, [])

    drive(test)
