r"""Formulas in Markdown, which stay as they are written: `\(x_1\)`, `\[x_1\]`, `$$x_1$$` and `$x_1$`.

Markdown alone takes the backslashes away and what is between two `_` or `*` for emphasis.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

_CLOSING = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_RAW = ("\\(", "\\)", "\\[", "\\]")
_PLACE = "maths"
"""The name under which the parser keeps, for each mark, where the last search for its end stopped."""

_BEFORE = ["paragraph", "reference", "blockquote", "list"]


def add_maths(parser: "MarkdownIt") -> None:
    """Have a parser know formulas."""
    parser.inline.ruler.before("escape", "maths", _inline)
    parser.block.ruler.before("fence", "maths", _block, {"alt": _BEFORE})


def _inline(state: "StateInline", silent: bool) -> bool:
    """A formula, or one of its marks alone, whose other one may still come."""
    end = _end(state.src, state.pos)
    if end is None:
        return False
    if not silent:
        state.push("text", "", 0).content = state.src[state.pos : end]
    state.pos = end
    return True


def _end(source: str, start: int) -> int | None:
    """Where the formula ends that begins at `start`; None where none does."""
    mark = source[start : start + 2]
    if (closing := _CLOSING.get(mark)) and (found := source.find(closing, start + 2)) >= 0:
        return found + 2
    if mark in _RAW:
        return start + 2
    return _end_of_dollars(source, start) if mark[:1] == "$" else None


def _end_of_dollars(source: str, start: int) -> int | None:
    """As pandoc tells formulas from prices: no space within the marks, and no digit after the second one."""
    end = source.find("$", start + 1)
    if end <= start + 1 or source[start + 1].isspace() or source[end - 1].isspace():
        return None
    return None if source[end + 1 : end + 2].isdigit() else end + 1


def _block(state: "StateBlock", first: int, last: int, silent: bool) -> bool:
    """Lines from one that begins with a mark to one that ends with the other, or to the end of a text that grows.

    A blank line is in no formula: so what is before it is known as soon as that line comes.
    """
    if state.is_code_block(first) or first < _stopped(state, first):
        return False
    lines: list[str] = []
    for line in range(first, last):
        lines.append(state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]])
        if not lines[-1].strip() or state.sCount[line] < state.blkIndent or not (closing := _closing(lines)):
            _note_stop(state, lines[0][:2], line)
            return False
        if _closed(lines, closing):
            break
    if not silent:
        token = state.push("maths", "", 0)
        token.content, token.map = "\n".join(lines), [first, first + len(lines)]
        state.line = first + len(lines)
    return True


def _stopped(state: "StateBlock", first: int) -> int:
    """The line at which the search for the end of a formula stopped that began before this one, with the same mark.

    It looked at all lines up to there. Without this, many marks that nothing ends take time that grows as the square.
    """
    start = state.bMarks[first] + state.tShift[first]
    return int(state.env.get(_PLACE, {}).get(state.src[start : start + 2], 0))


def _note_stop(state: "StateBlock", mark: str, line: int) -> None:
    state.env.setdefault(_PLACE, {})[mark] = line


def _closing(lines: list[str]) -> str:
    """The mark that ends a formula of these lines; nothing where they begin none, or go on behind its end."""
    closing = _CLOSING.get(lines[0][:2], "") if lines[0][:2] != "\\(" else ""
    text = lines[-1].rstrip()[2 if len(lines) == 1 else 0 :]
    return closing if closing and closing not in text[: -len(closing)] else ""


def _closed(lines: list[str], closing: str) -> bool:
    last = lines[-1].rstrip()
    return last.endswith(closing) and (len(lines) > 1 or len(last) >= 4)
