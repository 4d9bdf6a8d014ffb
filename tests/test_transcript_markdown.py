"""The transcript's Markdown: growing texts, hostile texts, and what the blocks look like."""

import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.transcript.clean import clean
from tui.transcript.document import Document
from tui.transcript.lines import Line
from tui.transcript.palette import Palette
from tui.transcript.parser import Links, blocks
from tui.transcript.pieces import Piece, Prose, shown
from tui.transcript.steady import steady

PALETTE = Palette.plain()
BLOCKS = [
    "plain words in a line that is somewhat long, and **bold** `code` *slanted*\n",
    "# Title\n", "## Two\n", "Under\n===\n", "Under\n---\n", "***\n", "\n", "\n\n", "   \n",
    "- item\n", "- another **item**\n", "* star\n", "1. one\n", "2. two\n", "7) seven\n", "  - inner\n", "   continued\n",
    "- [x] done\n", "-\n", "- \n", "    indented code\n", "\ttabbed\n",
    "```python\n", "```\n", "````\n", "~~~\n", "  ```js\n", "x = '''a\n", "def f(x):\n    return 1\n\n" * 30, "   ```\n",
    "> quoted\n", "> - in a quote\n", ">> deeper\n", "> ```\n",
    "| a | b |\n", "|---|:-:|\n", "| 1 | 2 |\n", "a | b\n", "--- | ---\n",
    "[ref]: http://a.b/c\n", "[ref]:\n", "see [ref] and [text](http://x.y)\n", '"title"\n', "<b>html</b>\n", "<!-- open\n",
    "\r\n", "line\r\n", "a\x0bb\x1b[31m\n", "日本語。テスト\n", "\\*no\\* &amp; &#x202e;x\n",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(BLOCKS), st.text(max_size=12)), max_size=30).map("".join)


def pieces(text: str, running: bool = False) -> list[Piece]:
    document = Document()
    document.update(text, running)
    return document.pieces


def lines(text: str, width: int = 40) -> list[Line]:
    return [line for piece in pieces(text) for line in shown(piece, PALETTE, width)]


def look(text: str, width: int = 40) -> list[str]:
    return [line.text.rstrip() for line in lines(text, width)]


def links_of(text: str) -> Links:
    return blocks(clean(text))[1]


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, st.lists(st.integers(1, 40), min_size=1, max_size=20), st.booleans())
def test_a_text_that_grew_is_shown_like_one_that_was_there_at_once(text: str, steps: list[int], running: bool) -> None:
    document, at, step = Document(), 0, 0
    while at < len(text):
        at += steps[step % len(steps)]
        step += 1
        document.update(text[:at], running=True)
    document.update(text, running)
    assert document.pieces == pieces(text, running)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS)
def test_pieces_show_what_the_text_parsed_as_a_whole_shows(text: str) -> None:
    """Blank lines aside: a list is cut into items, each loose or tight for itself."""
    whole = shown(Prose("\n".join(clean(text).split("\n")), gap=False, links=links_of(text)), PALETTE, 60)
    assert [line for line in look(text, 60) if line] == [line.text.rstrip() for line in whole if line.text.rstrip()]


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, st.integers(10, 90))
def test_no_line_is_wider_than_asked_for_nor_holds_what_a_terminal_acts_on(text: str, width: int) -> None:
    for line in lines(text, width):
        assert cell_len(line.text) <= width
        assert not [char for char in line.text if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
        assert not set(line.text) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200d\ufe0f")
