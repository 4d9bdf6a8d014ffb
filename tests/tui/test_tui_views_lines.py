"""Text cut into lines, and the widget that shows them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from tui.views.lines import Lines
from tui.views.wrapped import Line, harmless, wrapped


def plain(lines: list[Line]) -> list[str]:
    return ["".join(text for text, _ in line) for line in lines]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("abcd", ["abcd"]),
        ("abcde", ["abcd", "e"]),
        ("ab\n\ncd\n", ["ab", "", "cd", ""]),
        ("漢字漢字a", ["漢字", "漢字", "a"]),
        ("a漢字", ["a漢", "字"]),  # three cells, and a character of two has no room
        ("a\tb\x1b", ["a\\tb", "\\x1b"]),
    ],
)
def test_lines_are_cut_where_the_room_ends(text: str, lines: list[str]) -> None:
    assert plain(wrapped([(text, "plain")], 4)) == lines


def test_styles_go_on_over_the_ends_of_lines() -> None:
    assert wrapped([("ab", "user"), ("cdef\ng", "tool")], 4) == [
        (("ab", "user"), ("cd", "tool")),
        (("ef", "tool"),),
        (("g", "tool"),),
    ]


texts = st.text(st.sampled_from("ab \n\t\x00漢e\u0301🎉\u202e"), max_size=40)


@given(st.lists(st.tuples(texts, st.sampled_from(["user", "tool"])), max_size=6), st.integers(2, 20))
def test_nothing_is_lost_and_nothing_too_wide(spans: list[tuple[str, str]], width: int) -> None:
    lines = wrapped(spans, width)
    assert all(cell_len(line) <= width for line in plain(lines))
    whole = "".join(text for text, _ in spans)
    assert "".join(plain(lines)) == harmless(whole.replace("\n", ""))
    for style in ("user", "tool"):
        shown = "".join(text for line in lines for text, name in line if name == style)
        assert shown == harmless("".join(text.replace("\n", "") for text, name in spans if name == style))


def test_only_lines_on_the_screen_are_asked_for() -> None:
    class Asked(list[Line]):
        def __init__(self) -> None:
            super().__init__([((str(i), "plain"),) for i in range(1_000_000)])
            self.places: set[int] = set()

        def __getitem__(self, place: int) -> Line:  # type: ignore[override]
            self.places.add(place)
            return super().__getitem__(place)

    asked = Asked()

    class Page(App[None]):
        def compose(self) -> ComposeResult:
            yield Lines(lambda width: asked)

    async def test() -> None:
        app = Page()
        async with app.run_test(size=(40, 10)) as pilot:
            await pilot.pause()
            assert asked.places == set(range(10))
            app.query_one(Lines).scroll_to(y=500_000, animate=False)
            await pilot.pause()
            assert asked.places == {*range(10), *range(500_000, 500_010)}

    asyncio.run(test())


def test_another_width_makes_other_lines() -> None:
    class Page(App[None]):
        def compose(self) -> ComposeResult:
            yield Lines(lambda width: wrapped([("x" * 100, "plain")], width))

    async def test() -> None:
        app = Page()
        async with app.run_test(size=(51, 10)) as pilot:
            await pilot.pause()
            assert app.query_one(Lines).virtual_size.height == 2
            await pilot.resize_terminal(26, 10)
            await pilot.pause()
            assert app.query_one(Lines).virtual_size.height == 4

    asyncio.run(test())
