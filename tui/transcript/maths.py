r"""Formulas in Markdown, which are shown as written: `\(x_1\)`, `\[x_1\]`, `$$x_1$$` and `$x_1$`.

Plain Markdown would remove the backslashes, and read text between two `_` or `*` as emphasis.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

_CLOSING = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_RAW = ("\\(", "\\)", "\\[", "\\]")
_BEFORE = ["paragraph", "reference", "blockquote", "list"]


def add_maths(parser: "MarkdownIt") -> None:
    """Add formulas to a parser."""
    parser.inline.ruler.before("escape", "maths", _inline)
    parser.block.ruler.before("fence", "maths", _block, {"alt": _BEFORE})


def _inline(state: "StateInline", silent: bool) -> bool:
    """Parse a formula, or a single mark, whose closing one may follow later."""
    end = _end(state.src, state.pos)
    if end is None:
        return False
    if not silent:
        state.push("text", "", 0).content = state.src[state.pos : end]
    state.pos = end
    return True


def _end(source: str, start: int) -> int | None:
    """The end of the formula that begins at `start`; None if there is none."""
    mark = source[start : start + 2]
    if (closing := _CLOSING.get(mark)) and (found := source.find(closing, start + 2)) >= 0:
        return found + 2
    if mark in _RAW:
        return start + 2
    return _end_of_dollars(source, start) if mark[:1] == "$" else None


def _end_of_dollars(source: str, start: int) -> int | None:
    """The end of `$…$`. As in pandoc, a formula has no space next to its marks and no digit after the second one."""
    end = source.find("$", start + 1)
    if end <= start + 1 or source[start + 1].isspace() or source[end - 1].isspace():
        return None
    return None if source[end + 1 : end + 2].isdigit() else end + 1


def _block(state: "StateBlock", first: int, last: int, silent: bool) -> bool:
    """Parse lines from an opening mark to the closing one, or to the last line before a blank one.

    Each line tells whether the formula continues, so that later lines never change earlier ones.
    """
    closing = _closing(_line(state, first))
    if not closing or state.is_code_block(first):
        return False
    if silent:
        return True
    lines = [_line(state, first)]
    while closing not in lines[-1][2 if len(lines) == 1 else 0 :] and first + len(lines) < last:
        following = first + len(lines)
        if not _line(state, following).strip() or state.sCount[following] < state.blkIndent:
            break
        lines.append(_line(state, following))
    token = state.push("maths", "", 0)
    token.content, token.map = "\n".join(lines), [first, first + len(lines)]
    state.line = first + len(lines)
    return True


def _line(state: "StateBlock", line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _closing(line: str) -> str:
    """The closing mark of the formula that begins with a line; "" if there is none, or text follows the formula."""
    mark, rest = line[:2], line[2:].rstrip()
    closing = _CLOSING.get(mark, "") if mark != "\\(" else ""
    return closing if closing not in rest[: -len(closing)] else ""
