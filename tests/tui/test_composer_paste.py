"""What is pasted: it never sends, brings nothing harmful in, and a long one is one attachment."""

from collections.abc import Iterable

import pytest
from textual import events
from textual.pilot import Pilot

from support.composer_app import ComposerApp, drive, shown, type_text
from tui.composer.message_sent import MessageSent
from tui.composer.paste import EDITABLE, harmless
from tui.composer.terminal import TerminalInput, use_terminal_input


async def paste(app: ComposerApp, pilot: Pilot[None], text: str) -> None:
    app.post_message(events.Paste(text))
    await pilot.pause()
    await pilot.pause()


@pytest.mark.parametrize(
    ("pasted", "text"),
    [
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("a\vb\fc\x85d\u2028e\u2029f", "a\nb\nc\nd\ne\nf"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", "ab"),
        ("\x1bPq#0\x1b\\a\x1bcb\x1b(Bc", "abc"),
        ("\x9b31m", "31m"),
        ("a\x00b\x08c\x07d\x7f\x1b", "abcd"),
        ("\ta\n", "\ta\n"),
        ("日本 é 👨\u200d👩 \u200c", "日本 é 👨\u200d👩 \u200c"),
    ],
)
def test_escapes_and_control_characters_are_taken_out(pasted: str, text: str) -> None:
    assert harmless(pasted) == text


def test_no_control_character_is_left_of_any() -> None:
    every = "".join(chr(code) + "[" + chr(code) + "]x" for code in range(0x100))
    left = harmless(every)
    assert {character for character in left if not character.isprintable()} <= {"\t", "\n", "\xa0", "\xad"}


def test_a_short_text_goes_in_as_it_is_and_does_not_send() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await type_text(pilot, "ab")
        await pilot.press("left")
        await paste(app, pilot, "1\r\x1b[1m2\r")
        assert (app.box.text, app.posted) == ("a1\n2\nb", [])
        await pilot.press("x", "ctrl+z", "ctrl+z")
        assert app.box.text == "ab"

    drive(test)


@pytest.mark.parametrize(("text", "chip"), [("line\n" * 19, ""), ("line\n" * 20, "pasted text, 20 lines")])
def test_from_twenty_lines_it_is_an_attachment(text: str, chip: str) -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await paste(app, pilot, text)
        assert any("pasted text" in row for row in shown(app)) == bool(chip)
        assert any(chip in row for row in shown(app))
        assert app.editor.text == ("" if chip else text)
        assert app.box.text == text

    drive(test)


def test_a_key_that_comes_at_once_after_a_paste_finds_it_there() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.post_message(events.Paste("a" * 3000))
        app.post_message(events.Key("enter", "\r"))
        await pilot.pause()
        await pilot.pause()
        assert app.sent() == ["a" * 3000]

    drive(test)


def test_attachments_of_pasted_texts_are_joined_into_what_is_sent() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        first, second = "a" * 2001, "\n".join(["line"] * 1234)
        await paste(app, pilot, first)
        await type_text(pilot, "why?")
        await paste(app, pilot, second)
        assert any("pasted text, 1 line" in row and "pasted text, 1,234 lines" in row for row in shown(app))
        await pilot.press("enter")
        assert app.posted == [MessageSent(f"why?\n\n{first}\n\n{second}", None, ())]
        assert not any("pasted" in row for row in shown(app))

    drive(test)


def test_an_attachment_is_part_of_the_draft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.composer.composer._SAVE_AFTER_S", 0.01)

    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await paste(app, pilot, "a" * 2001)
        await pilot.pause(0.1)
        assert app.drafts[-1] == "a" * 2001
        await pilot.press("backspace")
        await pilot.pause(0.1)
        assert app.drafts[-1] == ""

    drive(test)


def test_an_attachment_is_removed_by_backspace_and_opened_by_a_key() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        text = "\n".join(["line"] * 30)
        await paste(app, pilot, text)
        await paste(app, pilot, "b" * 3000)
        await pilot.press("backspace", "x", "ctrl+o")
        assert app.editor.text == "x" + text
        await pilot.press("enter")
        assert app.sent() == ["x" + text]

    drive(test)


def test_a_text_that_is_too_long_to_be_edited_is_kept_as_an_attachment() -> None:
    text = "word " * (EDITABLE // 5 + 1)

    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app.box.text = text
        app.box.form.set_history(["short", text])
        await pilot.press("ctrl+o", "up")
        assert app.editor.text == "short"
        assert app.box.text == "short\n\n" + text
        app.box.text = "replaced"
        assert app.box.text == "replaced"

    drive(test)


def test_a_megabyte_of_lines_is_pasted_and_sent_whole() -> None:
    lines = [f"line {number:12}" for number in range(50_000)]

    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        await paste(app, pilot, "\r".join(lines))
        assert any("pasted text, 50,000 lines" in row for row in shown(app))
        await pilot.press("enter")
        assert app.sent() == ["\n".join(lines)]

    drive(test)


def test_what_was_copied_in_the_app_is_made_harmless_too() -> None:
    async def test(app: ComposerApp, pilot: Pilot[None]) -> None:
        app._clipboard = "\x1b[1mbold"
        await pilot.press("ctrl+v")
        assert app.box.text == "bold"

    drive(test)


def read(*pieces: str) -> list[tuple[str, str | None]]:
    """The events of a terminal that sends these pieces: keys by name, pastes by their text."""
    terminal = TerminalInput()
    found = [event for piece in pieces for event in terminal.feed(piece)]
    return [("paste", event.text) if isinstance(event, events.Paste) else ("key", event.key) for event in found]


@pytest.mark.parametrize("cut", range(1, 40))
def test_nothing_in_a_paste_is_a_key(cut: int) -> None:
    pasted = "a\x1b[31mb\r\x1bc\x1b[Ad"
    sent = f"\x1b[200~{pasted}\x1b[201~x"
    if cut < len("\x1b[200~") or cut > len(sent):
        return
    assert read(sent[:cut], sent[cut:]) == [("paste", pasted), ("key", "x")]


def test_a_paste_may_come_in_any_pieces_and_beside_keys() -> None:
    assert read("k\x1b[200~", *"one\x1b[201~", "l\x1b[200~two\x1b[201~\x1b[200~\x1b[201~m") == [
        ("key", "k"), ("paste", "one"), ("key", "l"), ("paste", "two"), ("paste", ""), ("key", "m"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("\r", "enter"),
        ("\n", "ctrl+j"),
        ("\x1b\r", "alt+enter"),  # most terminals
        ("\x1b[13;2u", "shift+enter"),  # kitty's protocol
        ("\x1b[13;3u", "alt+enter"),
        ("\x1b[27;2;13~", "shift+enter"),  # xterm, and tmux with extended-keys
        ("\x1b[27;3;13~", "alt+enter"),
        ("\x1b[A", "up"),
    ],
)
def test_the_ways_in_which_terminals_send_a_new_line(sent: str, key: str) -> None:
    assert read(sent) == [("key", key)]


def test_the_end_of_the_input_ends_the_parser() -> None:
    terminal = TerminalInput()
    assert [event.key for event in terminal.feed("a") if isinstance(event, events.Key)] == ["a"]
    assert list(terminal.feed("")) == []
    assert terminal.is_eof


def test_what_was_typed_before_comes_first() -> None:
    def keys(found: Iterable[object]) -> list[str]:
        return [event.key for event in found if isinstance(event, events.Key)]

    use_terminal_input("a\r")
    terminal = TerminalInput()
    assert keys(terminal.feed("b")) == ["a", "enter", "b"]
    use_terminal_input("a")
    terminal = TerminalInput()
    assert keys(terminal.tick()) == ["a"]
    assert keys(terminal.tick()) == keys(TerminalInput().tick()) == []
