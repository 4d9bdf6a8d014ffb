"""The transcript's Markdown: growing texts, hostile texts, and what the blocks look like."""

import unicodedata
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from edgellm.terminal.sanitize import sanitize
from tui.transcript.blocks import Block, CodeBlock, MarkdownBlock, block_lines
from tui.transcript.lines import Line
from tui.transcript.parser import Links, parse_blocks
from tui.transcript.streamed_markdown import StreamedMarkdown
from tui.transcript.styles import TranscriptStyles

PALETTE = TranscriptStyles.plain()
BLOCKS = """plain words in a line that is somewhat long, and **bold** `code` *slanted*
# Title|## Two|Under\\n===|Under\\n---|***||\\n|   |- item|- another **item**|* star|1. one|2. two|7) seven
  - inner|   continued|- [x] done|-|- |    indented code|\ttabbed|```python|```|````|~~~|  ```js|x = '''a|   ```
> quoted|> - in a quote|>> deeper|> ```|¦ a ¦ b ¦|¦---¦:-:¦|¦ 1 ¦ 2 ¦|a ¦ b|--- ¦ ---|[ref]: http://a.b/c|[ref]:
see [ref] and [text](http://x.y)|"title"|<b>html</b>|<!-- open|line\r|\r|a\x0bb\x1b[31m
日本語。テスト|\\[|\\[ x \\]|y \\]|$$|a_1 $$|$$ a $$ b|\\( a_1*b_2*c \\) $x_1$ \\{|\\*no\\* &amp; &#x202e;x"""
LINES = [line.replace("¦", "|").replace("\\n", "\n") + "\n" for line in BLOCKS.replace("\n", "|").split("|")]
CODE = "def f(x):\n    return 1\n\n" * 30
TEXTS = st.lists(st.one_of(st.sampled_from([*LINES, CODE]), st.text(max_size=12)), max_size=30).map("".join)


def blocks(text: str, running: bool = False) -> list[Block]:
    document = StreamedMarkdown()
    document.update(text, running)
    return document.blocks


def lines(text: str, width: int = 40) -> list[Line]:
    return [line for block in blocks(text) for line in block_lines(block, PALETTE, width)]


def look(text: str, width: int = 40) -> list[str]:
    return [line.text.rstrip() for line in lines(text, width)]


def marked(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line.strip(" │▎")]


def links_of(text: str) -> Links:
    return parse_blocks(sanitize(text))[1]


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, st.lists(st.integers(1, 40), min_size=1, max_size=20), st.booleans())
def test_a_text_that_grew_is_shown_like_one_that_was_there_at_once(text: str, steps: list[int], running: bool) -> None:
    document, at, step = StreamedMarkdown(), 0, 0
    while at < len(text):
        at += steps[step % len(steps)]
        step += 1
        document.update(text[:at], running=True)
    document.update(text, running)
    assert document.blocks == blocks(text, running)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS)
def test_blocks_show_what_the_text_parsed_as_a_whole_shows(text: str) -> None:
    """Blank lines aside: a list is cut into items, each loose or tight for itself."""
    whole = block_lines(
        MarkdownBlock("\n".join(sanitize(text).split("\n")), gap=False, links=links_of(text)), PALETTE, 60
    )
    assert marked(look(text, 60)) == marked(line.text.rstrip() for line in whole)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, st.integers(10, 90))
@example("\\[\n0\t", 10)
def test_no_line_is_wider_than_asked_for_nor_holds_what_a_terminal_acts_on(text: str, width: int) -> None:
    for line in lines(text, width):
        assert cell_len(line.text) <= width
        assert not [char for char in line.text if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
        assert not set(line.text) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200d\ufe0f")


def test_what_the_blocks_look_like() -> None:
    text = """# Big *title*
Two
lines with [a link](https://x.y), `code` and ![a picture](p.png)

3. three
4. four
   - [x] done
   - inner

     loose

> quoted
> > twice

| Left | Right |
|------|------:|
| a<br>b | 1 |

```python
def f():
\treturn "x"
```
---
"""
    assert look(text, 30) == [
        "Big title",
        "━━━━━━━━━",
        "",
        "Two",
        "lines with a link, code and [a",
        "picture]",
        "",
        "3. three",
        "4. four",
        "   ☑ done",
        "",
        "   ◦ inner",
        "",
        "     loose",
        "",
        "▎ quoted",
        "▎",
        "▎ ▎ twice",
        "",
        "Left │ Right",
        "─────┼──────",
        "a    │     1",
        "b    │",
        "",
        "│ python               copy 1",
        "│ def f():",
        '│     return "x"',
        "",
        "─" * 30,
    ]


def test_a_table_that_does_not_fit_is_broken_in_its_cells_and_then_into_records() -> None:
    text = "| Name | Meaning |\n|---|---|\n| one | the first of all numbers |\n| two | the second |\n"
    assert look(text, 24) == [
        "Name │ Meaning",
        "─────┼──────────────────",
        "one  │ the first of all",
        "     │ numbers",
        "─────┼──────────────────",
        "two  │ the second",
    ]
    assert look(text, 12) == [
        "Name: one",
        "Meaning: the",
        "first of all",
        "numbers",
        "",
        "Name: two",
        "Meaning: the",
        "second",
    ]


def links_in(document: StreamedMarkdown) -> list[tuple[str, str]]:
    segments = (
        part for block in document.blocks for line in block_lines(block, PALETTE, 200) for part in line.segments
    )
    return [(part.text, part.style.link) for part in segments if part.style and part.style.link]


def test_links_lead_only_to_the_web_and_to_mail() -> None:
    document = StreamedMarkdown()
    document.update("[web](https://a.b/c) [mail](mailto:a@b) [f](file:///x) <https://d.e> [s](ssh://x)", running=False)
    assert links_in(document) == [("web", "https://a.b/c"), ("mail", "mailto:a@b"), ("https://d.e", "https://d.e")]


def test_a_reference_is_a_link_wherever_it_is_defined() -> None:
    text = "see [it] here\n\nmore\n\nand more\n\n"
    document = StreamedMarkdown()
    document.update(text, running=True)
    assert links_in(document) == []
    document.update(text + "[it]: https://x.y\n", running=True)
    assert links_in(document) == [("it", "https://x.y")]


def test_what_nobody_wrote_by_hand_is_shown_as_it_is() -> None:
    for text in (">" * 500, "- " * 500 + "a", "[" * 5000, "![[" * 2000, "x" * 100_000, "**a" * 10_000):
        assert "".join(line.text for line in lines(text, 50)).replace(" ", "") == text.replace(" ", "")


def test_code_is_cut_only_where_no_string_goes_on() -> None:
    code = ["def f():", '    """Text', *["    more"] * 60, '    """', "", "def g():", "    pass"] * 3
    parts = [block for block in blocks("```python\n" + "\n".join(code) + "\n```\n") if isinstance(block, CodeBlock)]
    assert "\n".join(block.source for block in parts).split("\n") == code
    assert len(parts) > 3
    assert [block.label for block in parts] == [1] + [None] * (len(parts) - 1)
    plain = "\n".join(["x = 1", "def f(x):", "    return x", ""] * 60)
    starts = [
        block.source.split("\n")[0] for block in blocks(f"```python\n{plain}\n```\n") if isinstance(block, CodeBlock)
    ]
    assert len(starts) > 3
    assert set(starts) <= {"x = 1", "def f(x):"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Some text\n-", ["Some text"]),
        ("Some text\n\n1.", ["Some text"]),
        ("**bold wo", ["bold wo"]),
        ("*slanted and **bold", ["slanted and bold"]),
        ("`code **", ["code **"]),
        ("2 * 3 and 4*5", ["2 * 3 and 4*5"]),
        ("see [the page](http://x.y/lo", ["see the page"]),
        ("| a | b |", ["a │ b", "──┼──"]),
        ("| a | b |\n|--", ["a │ b", "──┼──"]),
        ("```py\nx = [\n``", ["│ py                          copy 1", "│ x = ["]),
    ],
)
def test_what_is_unfinished_looks_as_it_will(source: str, expected: list[str]) -> None:
    shown_lines = [line for block in blocks(source, running=True) for line in block_lines(block, PALETTE, 37)]
    assert [line.text.rstrip() for line in shown_lines] == expected


FORMULAS = [
    r"\(a_1 * b_1 * c\)",
    r"\[ \frac{a}{b} \]",
    r"$$ \{x_1, x_2\} $$",
    r"$\alpha_1 + \{x_1\}$",
    "\\[\nx \\\\\n= y \\\\\n- _z_ \\\\\n\\]",
    "$$\n\\begin{cases}\n- a & b \\\\\n\\end{cases}\n$$",
]


WITHIN_LINES = ["so **{}** is", "- item {} end", "| a |\n|---|\n| {} |"]


@pytest.mark.parametrize(
    ("around", "formula"),
    [
        *((around, formula) for around in ("{}", "text:\n{}\nmore") for formula in FORMULAS),
        *((around, formula) for around in WITHIN_LINES for formula in FORMULAS if "\n" not in formula),
    ],
)
def test_formulas_stay_as_they_are_written(around: str, formula: str) -> None:
    assert formula in "\n".join(look(around.format(formula), 80))


def test_a_mark_that_nothing_ends_has_the_lines_to_the_next_blank_one() -> None:
    marks = "\\[ a\n" * 200
    tokens, _ = parse_blocks(f"{marks}\n$$\nb\n$$\n\n\\[ c\n\\]\n$$ d $$ e")
    assert [token.content for token in tokens if token.type == "maths"] == [marks[:-1], "$$\nb\n$$", "\\[ c\n\\]"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("from $5 to *all* of $6", "from $5 to all of $6"),
        ("$5-$6 and *more*", "$5-$6 and more"),
        ("\\*no\\* \\_this\\_", "*no* _this_"),
        ("echo `$$` and *$$*", "echo $$ and $$"),
        ("\\(open *and* no end", "\\(open and no end"),
        ("```\n\\[ x \\]\n```\n*a*", "\\[ x \\]"),
        ("$$\nno end\n\n*a*", "$$\nno end\n\na"),
    ],
)
def test_what_is_no_formula_is_markdown(text: str, shown: str) -> None:
    assert shown in "\n".join(line.rstrip() for line in look(text, 80))
