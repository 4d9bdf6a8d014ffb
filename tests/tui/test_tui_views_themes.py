"""Which theme the chat begins with, that it is kept, and that every word is readable."""

from pathlib import Path

import pytest
from textual.color import Color

from support.chat_app import Driven, chatting, run
from support.chat_fakes import FakeModel
from tui.views import themes
from tui.views.help import HelpScreen
from tui.views.settings import SettingsScreen
from tui.views.themes import first_theme

DARK, LIGHT = themes.DARK.name, themes.LIGHT.name


@pytest.mark.parametrize(
    ("kept", "terminal", "theme"),
    [
        (None, None, DARK),
        (None, "15;0", DARK),
        (None, "0;15", LIGHT),
        (None, "0;default;7", LIGHT),
        (None, "default;default", DARK),
        (None, "", DARK),
        (None, "7;8", DARK),
        ("nord", "0;15", "nord"),
        ("gone", "0;15", LIGHT),
        (["nord"], "0;15", LIGHT),
    ],
)
def test_the_first_theme(kept: object, terminal: str | None, theme: str) -> None:
    environ = {} if terminal is None else {"COLORFGBG": terminal}
    assert first_theme(kept, {DARK, LIGHT, "nord"}, environ) == theme


def test_a_chosen_theme_is_kept_and_the_first_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def begun(theme: str) -> None:
        async with chatting(tmp_path) as chat:
            assert chat.app.theme == theme

    async def choose() -> None:
        async with chatting(tmp_path) as chat:
            chat.app.theme = "nord"

    monkeypatch.setenv("COLORFGBG", "0;15")
    run(begun(LIGHT))
    monkeypatch.setenv("COLORFGBG", "15;0")
    run(begun(DARK))
    run(choose())
    run(begun("nord"))


def luminance(color: Color) -> float:
    """Relative luminance, 0 to 1. Source: WCAG 2.1."""
    linear = (c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color.rgb)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def unreadable(chat: Driven) -> list[str]:
    """Words on the screen with less contrast to their background than 2.5 to 1; frames and bars count for nothing."""
    found = []
    for strip in chat.app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if not any(map(str.isalnum, text)) or not style or not style.color or not style.bgcolor:
                continue
            if style.color.is_default or style.bgcolor.is_default:
                continue  # the terminal's own
            darker, lighter = sorted(luminance(Color.from_rich_color(c)) for c in (style.color, style.bgcolor))
            if (lighter + 0.05) / (darker + 0.05) < 2.5:
                found.append(text)
    return found


@pytest.mark.parametrize("theme", [DARK, LIGHT, "ansi-dark", "ansi-light", "solarized-light", "nord"])
def test_every_word_is_readable(tmp_path: Path, theme: str) -> None:
    async def test() -> None:
        async with chatting(tmp_path, FakeModel(defaults={"temp": 0.6}), (80, 24)) as chat:
            chat.app.theme = theme
            for screen in (HelpScreen(), SettingsScreen(chat.app.controller)):
                await chat.app.push_screen(screen)
                await chat.pilot.pause()
                await chat.press("h")
                assert unreadable(chat) == []
                await chat.press("escape")

    run(test())


def test_without_colour_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def test() -> None:
        async with chatting(tmp_path, size=(80, 24)) as chat:
            await chat.app.push_screen(SettingsScreen(chat.app.controller))
            await chat.pilot.pause()
            filters = [each for each in chat.app._filters if each.enabled]
            for strip in chat.app.screen._compositor.render_strips():
                for _, style, _ in strip.apply_filter(filters[-1], Color(0, 0, 0)):
                    for color in filter(None, style and (style.color, style.bgcolor)):
                        assert len(set(color.get_truecolor())) == 1

    run(test())
