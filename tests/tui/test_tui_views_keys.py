"""Keys: from the config file to the screen, and all of them on the help screen; the command palette."""

import inspect
from codecs import BOM_UTF8
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from textual.binding import Binding
from textual.command import CommandPalette
from textual.dom import DOMNode
from textual.widgets import Input

import tui
from support.chat_app import Driven, chatting, run
from tui.commands import COMMANDS
from tui.views.help import HelpScreen
from tui.views.keymap import bindings, read_keys, remarks
from tui.views.lines import Lines
from tui.views.settings import SettingsScreen


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The config file of a home of its own."""
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    return tmp_path / "config.toml"


def test_every_binding_with_an_id_is_known() -> None:
    found = set()
    for info in walk_packages(tui.__path__, "tui."):
        for _, kind in inspect.getmembers(import_module(info.name), inspect.isclass):
            if issubclass(kind, DOMNode) and kind.__module__.startswith("tui."):
                declared = vars(kind).get("BINDINGS", ())
                found |= {binding.id for binding in declared if isinstance(binding, Binding) and binding.id}
    known = [binding.id for _, declared in bindings() for binding in declared]
    assert sorted(known) == sorted(found)
    assert len(set(known)) == len(known)


def test_keys_are_read_with_quotes_or_without(config: Path) -> None:
    keys = '[keys]\n"chat.stop" = "escape, f8"\nchat.new = "ctrl+g"\n"log.copy" = "?"\n'
    config.write_bytes(BOM_UTF8 + keys.encode())  # as some editors write it
    assert read_keys(config) == ({"chat.stop": "escape,f8", "chat.new": "ctrl+g", "log.copy": "?"}, [])


def test_no_file_is_no_problem(config: Path) -> None:
    assert read_keys(config) == ({}, [])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[keys\n", "the default keys are used"),
        (b"\xff", "the default keys are used"),
        (b"a=" + b"[" * 100_000, "the default keys are used"),
        (b"keys = 3", "give a key"),
        (b"[keys]\n'chat.stop' = 3", "chat.stop = 3: give a key"),
        (b"[keys]\n'chat.stop' = ''", "give a key"),
        (b"[keys]\n'chat.stop' = 'strg+x'", "give a key"),
        (b"[keys]\n'chat.stop' = 'f8,'", "give a key"),
        (b"[key]\n'chat.stop' = 'f8'", "key is unknown; only [keys] is read"),
    ],
)
def test_what_cannot_be_used_is_one_line(config: Path, content: bytes, problem: str) -> None:
    config.write_bytes(content)
    keys, (line,) = read_keys(config)
    assert keys == {}
    assert problem in line
    assert str(config) in line
    assert "\n" not in line


def test_a_wrong_line_leaves_the_others(config: Path) -> None:
    config.write_text('[keys]\n"chat.stop" = 1\n"chat.new" = "ctrl+g"\n')
    keys, problems = read_keys(config)
    assert keys == {"chat.new": "ctrl+g"}
    assert len(problems) == 1


def test_unknown_names_and_keys_given_twice_are_reported() -> None:
    assert list(remarks({})) == []
    assert list(remarks({"chat.stop": "f8"})) == []
    (line,) = remarks({"chat.stopp": "f8"})
    assert "did you mean chat.stop?" in line
    (line,) = remarks({"chat.new": "escape"})
    assert "escape is the key of chat.stop and of chat.new" in line
    assert len(list(remarks({"chat.new": "escape", "chat.stop": "f8"}))) == 1  # it is chat.back's, too
    assert list(remarks({"chat.stop": "escape,f8"})) == []  # these two were made to share it


def test_keys_of_the_file_work_and_what_is_wrong_in_it_is_a_notice(config: Path, tmp_path: Path) -> None:
    config.write_text('[keys]\n"chat.settings" = "f9"\n"chat.stopp" = "f8"\n"view.close" = "f10"\nchat.new = 7\n')

    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.until(lambda: len(chat.notices) == 2)
            assert any("chat.new = 7" in notice for notice in chat.notices)
            assert any("did you mean chat.stop?" in notice for notice in chat.notices)
            await chat.press("f4")
            assert chat.app.screen is chat.screen
            await chat.press("f9")
            assert isinstance(chat.app.screen, SettingsScreen)
            await chat.press("f10")
            assert chat.app.screen is chat.screen

    run(test())


def test_help_has_every_key_as_it_is_now_and_every_command(config: Path, tmp_path: Path) -> None:
    config.write_text('[keys]\n"chat.stop" = "f8"\n')

    async def test() -> None:
        async with chatting(tmp_path, size=(100, 30)) as chat:
            await chat.press("f1")
            assert isinstance(chat.app.screen, HelpScreen)
            lines = chat.app.screen.query_one(Lines)._lines
            shown = ["".join(text for text, _ in line).strip() for line in lines]
            for command in COMMANDS:
                assert any(row.startswith(f"/{command} ") for row in shown), command
            for _, declared in bindings():
                for binding in declared:
                    name = "transcript.code_1 …" if binding.key in "23456789" else binding.id
                    assert any(row.removesuffix(" …").endswith(f" {name}".removesuffix(" …")) for row in shown), name
                    assert binding.tooltip
            (stop,) = (row for row in shown if row.endswith(" chat.stop"))
            assert stop.split(maxsplit=1)[0] == "f8"
            assert "Stop the reply" in stop
            assert f"under [keys] in {config}" in " ".join(shown[: shown.index("")])

    run(test())


def test_help_fits_a_small_screen(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path, size=(80, 24)) as chat:
            await chat.app.push_screen(HelpScreen({"chat.stop": "ctrl+alt+shift+f8,ctrl+alt+shift+f9"}))
            await chat.until(lambda: "ctrl+alt+shift+f8, ctrl+alt+shift+f9" in chat.shown())
            await chat.press("end")
            await chat.until(lambda: "Read the log again" in chat.shown())

    run(test())


async def palette(chat: Driven, words: str) -> list[str]:
    """Open the palette, type, and see what it has."""
    await chat.press("ctrl+p")
    await chat.until(lambda: isinstance(chat.app.screen, CommandPalette))
    chat.app.screen.query_one(Input).value = words
    await chat.until(lambda: not chat.app.screen.has_class("-searching") and chat.app.screen.query("CommandList"))
    await chat.pilot.pause(0.2)
    options = chat.app.screen.query_one("CommandList")
    return [str(options.get_option_at_index(i).hit.text) for i in range(options.option_count)]


def test_the_palette_finds_commands_by_what_they_do(config: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            assert "/inspect" in await palette(chat, "the prompt as the model gets it")
            await chat.press("escape")
            found = await palette(chat, "/set")
            assert found[0] == "/set"
            await chat.press("enter")
            await chat.until(lambda: isinstance(chat.app.screen, SettingsScreen))

    run(test())


def test_commands_that_need_an_argument_are_begun_in_the_box(config: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await palette(chat, "/export")
            await chat.press("enter")
            await chat.until(lambda: chat.composer.text == "/export ")
            assert chat.composer.has_focus_within
            chat.composer.text = "do not lose this"
            await palette(chat, "/import")
            await chat.press("enter")
            await chat.until(lambda: chat.notices)
            assert chat.composer.text == "do not lose this"

    run(test())


def test_the_palette_has_themes_and_the_keys_of_the_screen(config: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            assert await palette(chat, "theme") == ["Theme"]
            await chat.press("escape")
            assert (await palette(chat, "Figures"))[0] == "Figures"
            await chat.press("enter")
            await chat.until(lambda: chat.screen.query_one("Panel").has_class("shown"))

    run(test())
