"""The prompt inspector, and how it turns an inspection into lines."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from edgellm.text.inspection import Inspection
from support.chat_app import Driven, chatting, run
from support.chat_fakes import FakeModel
from tui.views.inspector import InspectorScreen
from tui.views.lines import Lines
from tui.views.prompt_tokens import PromptTokens
from tui.views.wrapped import Line

START, END = "<|im_start|>", "<|im_end|>"


def inspection(tokens: Sequence[tuple[str, str]], text: str | None = None, *warnings: str) -> Inspection:
    """Of pieces with their roles; ids count from 100 on, and pieces that are a START or END are special."""
    pieces, roles = [piece for piece, _ in tokens], [role for _, role in tokens]
    return Inspection(
        text="".join(pieces) if text is None else text,
        ids=list(range(100, 100 + len(tokens))),
        pieces=pieces,
        roles=roles,
        special=frozenset(100 + i for i, piece in enumerate(pieces) if piece in (START, END)),
        bos_id=None,
        eos_id=101,
        stop_tokens={101: END},
        warnings=list(warnings),
    )


HELLO = [
    *((START, "template"), ("user\n", "template"), ("Hel", "user"), ("lo", "user"), (END, "template")),
    *(("\n", "template"), (START, "template"), ("assistant\n", "template")),
]


def plain(lines: Sequence[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


def test_the_text_is_whole_and_coloured_by_role() -> None:
    lines = PromptTokens(inspection(HELLO)).text(80)
    assert lines == [
        ((START, "special"), ("user", "muted")),
        (("Hello", "user"), (END, "special")),
        ((START, "special"), ("assistant", "muted")),
        (),
    ]


def test_tokens_have_their_place_id_role_and_piece() -> None:
    prompt = PromptTokens(inspection(HELLO))
    assert len(prompt) == 8
    assert plain([prompt[1], prompt[2], prompt[4]]) == [
        "        1      101 template   ▏user\\n▕",
        "        2      102 user       ▏Hel▕",
        f"        4      104 template   {END}",
    ]
    assert [line[-1][1] for line in prompt[1:5]] == ["muted", "user", "user", "special"]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a", "\ufffd", "\ufffd", "b"], "aéb"),
        (["a", "\ufffd\ufffd", "\ufffd\ufffd"], "a🎉"),
        (["\ufffd", "\ufffd", " x", "\ufffd", "\ufffd!"], "é xé!"),
        ([" a", "\ufffd", "\ufffd", "b"], "aéb"),  # a tokenizer that puts a space in front
        ([START, "a", "\ufffd", "\ufffd"], "aé"),  # a BOS that was put in front
    ],
)
def test_characters_in_several_tokens_are_whole_in_the_text(pieces: list[str], text: str) -> None:
    (line,) = plain(PromptTokens(inspection([(piece, "user") for piece in pieces], text)).text(80))
    assert line.removeprefix(START).strip() == text


def test_pieces_that_spell_no_text_are_shown_as_they_are() -> None:
    seen = inspection([("a", "user"), ("\ufffd", "user"), ("b", "user")], "something else")
    assert plain(PromptTokens(seen).text(80)) == ["a\ufffdb"]


def test_without_roles_only_special_tokens_stand_out() -> None:
    seen = inspection(HELLO)
    without = Inspection(**{**vars(seen), "roles": None})
    assert PromptTokens(without).text(80)[1] == (("Hello", "plain"), (END, "special"))


async def inspected(chat: Driven) -> InspectorScreen:
    screen = InspectorScreen(chat.app.controller)
    await chat.app.push_screen(screen)
    await chat.until(lambda: "asking the model" not in chat.shown())
    return screen


def test_warnings_come_first_and_a_key_turns_to_tokens(tmp_path: Path) -> None:
    async def test() -> None:
        model = FakeModel(inspection=inspection(HELLO, None, "doubled BOS: \x1b[31mtwice"))
        async with chatting(tmp_path, model, (80, 24)) as chat:
            await inspected(chat)
            rows = [row.strip("│ ") for row in chat.shown().splitlines()]
            assert rows[1] == "⚠ doubled BOS: \\x1b[31mtwice"
            assert rows[3:6] == [f"{START}user", f"Hello{END}", f"{START}assistant"]
            assert "8 tokens; BOS none, EOS 101" in rows
            assert f"end-of-generation tokens: {END} (101)" in rows
            await chat.press("t")
            assert "2      102 user       ▏Hel▕" in chat.shown()
            await chat.press("t")
            assert f"Hello{END}" in chat.shown()

    run(test())


def test_all_is_copied(tmp_path: Path) -> None:
    async def test() -> None:
        seen = inspection(HELLO)
        async with chatting(tmp_path, FakeModel(inspection=seen)) as chat:
            await inspected(chat)
            await chat.press("c")
            assert chat.app.clipboard == seen.text
            await chat.press("t", "c")
            assert chat.app.clipboard == "100 101 102 103 104 105 106 107"

    run(test())


def test_what_cannot_be_inspected_says_why(tmp_path: Path) -> None:
    async def test() -> None:
        async with chatting(tmp_path) as chat:
            await chat.app.push_screen(InspectorScreen(chat.app.controller))
            await chat.until(lambda: "⚠ the fake model has nothing to inspect" in chat.shown())
            await chat.press("t", "c", "escape")
            assert chat.app.screen is chat.screen

    run(test())


def test_a_long_prompt_is_shown_to_its_last_token(tmp_path: Path) -> None:
    async def test() -> None:
        words = [(f"word{i} ", "user") for i in range(100_000)]
        async with chatting(tmp_path, FakeModel(inspection=inspection(words)), (80, 24)) as chat:
            screen = await inspected(chat)
            await chat.press("end")
            await chat.until(lambda: "word99999" in chat.shown())
            await chat.press("t")
            assert screen.query_one(Lines).virtual_size.height == 100_000
            assert "▏word0 ▕" in chat.shown()
            await chat.press("end")
            await chat.until(lambda: "99,999   100099 user       ▏word99999 ▕" in chat.shown())

    run(test())
