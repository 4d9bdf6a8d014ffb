"""Closing open marks of streaming Markdown, so that further text seldom changes how it looks."""

import re

_MARKERS = re.compile(r"(?:\A|\n)[ \t>]*(?:[-+*=_#|:`~]+|\d{1,9}[.)])[ \t]*\Z")
_LINK = re.compile(r"!?\[([^\[\]\n]*)\]\([^()\s]*\Z")
_FENCE = re.compile(r"^(?:[ \t>]|[-+*][ \t]|\d{1,9}[.)][ \t])*(?:```|~~~)", re.MULTILINE)
_RUN = re.compile(r"\\.|`+|\*{1,3}|~~", re.DOTALL)
_DELIMITERS = re.compile(r"[|:\- \t]*")


def autoclose(source: str) -> str:
    """The source without a last line that has only marks so far, and with open emphasis, code and tables closed.

    Otherwise a `-` below a text would make it a heading until the list item follows, and text after an opening `**`
    would show the asterisks until the closing ones arrive.
    """
    source = _MARKERS.sub("", source)
    at = source.rfind("\n\n") + 1
    block = source[at:].rstrip()
    if _FENCE.search(block):  # code has no emphasis
        return source
    block = _LINK.sub(r"[\1](#)", block)
    return source[:at] + _table(block + _closing(block))


def _closing(block: str) -> str:
    """The marks that close open emphasis and code at the end of the block."""
    opened: list[str] = []
    for match in _RUN.finditer(block):
        run = match.group()
        if opened and opened[-1][0] == "`":
            if run == opened[-1]:
                opened.pop()
        elif run[0] == "\\":
            continue
        elif run in opened and not block[match.start() - 1].isspace():
            del opened[opened.index(run) :]
        elif run[0] == "`" or _opens(block, match):
            opened.append(run)
    if opened and block.endswith(opened[-1]):
        return ""
    return "".join(reversed(opened))


def _opens(block: str, match: re.Match[str]) -> bool:
    before, after = block[match.start() - 1 : match.start()], block[match.end() : match.end() + 1]
    return bool(after.strip()) and not before.isalnum()


def _table(block: str) -> str:
    """Complete a table that has only its heading so far, a row that begins with a bar."""
    head, _, rest = block.strip("\n").rpartition("\n")
    if head and _DELIMITERS.fullmatch(rest):
        before, _, head = head.rpartition("\n")
    else:
        before, head = head, rest
    if before or not head.startswith("|"):
        return block
    columns = max(1, head.strip().strip("|").count("|") + 1)
    return f"{block[: len(block) - len(block.lstrip())]}{head}\n{'|---' * columns}|"
