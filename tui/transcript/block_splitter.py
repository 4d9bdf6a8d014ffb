"""Splitting lines of Markdown into blocks, incrementally."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.transcript.blocks import Block, CodeBlock, MarkdownBlock
from tui.transcript.code import language_of
from tui.transcript.highlight import CHUNK, cut
from tui.transcript.parser import parse_blocks

if TYPE_CHECKING:
    from markdown_it.token import Token


@dataclass(frozen=True, slots=True)
class _BlockRange:
    """The lines [start, end) of a block or of a list item; `fence` is the token of a code block."""

    start: int
    end: int
    gap: bool
    number: int | None = None
    fence: "Token | None" = None


@dataclass(frozen=True, slots=True)
class Fence:
    """The first line of a code block: its mark, indentation and language."""

    mark: str
    indent: int
    language: str

    def closes(self, line: str) -> bool:
        """Whether a line ends the code block."""
        mark = line.lstrip(" ")
        return len(line) - len(mark) < 4 and mark.startswith(self.mark) and not mark.strip(" \t").strip(self.mark[0])

    def body(self, lines: Sequence[str]) -> list[str]:
        """The lines of code, without the indentation of the fence."""
        return [self._dedented(line) for line in lines] if self.indent else list(lines)

    def _dedented(self, line: str) -> str:
        code = line.lstrip(" \t")
        space = line[: len(line) - len(code)].expandtabs(4)
        return space[self.indent :] + code


class BlockSplitter:
    """Splits lines into blocks. Its state is small, so that a copy can parse ahead.

    A block is finished when the next one has begun. List items are finished one by one, and so are the parts of a
    long code block.
    """

    def __init__(self) -> None:
        self.links: dict[str, str] = {}
        self.fence: Fence | None = None  # the open code block
        self._label: int | None = None  # its number, until its first part is made
        self._codes = 0
        self._gap = False  # whether the next block has a gap
        self._number: int | None = None

    def take(self, lines: Sequence[str], final: bool) -> tuple[list[Block], int]:
        """The blocks that further lines cannot change, or all if `final`, and the number of their lines."""
        blocks: list[Block] = []
        used, count = 0, 1
        while count and used < len(lines):
            taken, count = (self._code if self.fence else self._blocks)(lines[used:], final)
            blocks += taken
            used += count
        if final and self.fence:  # its first line was the last one
            blocks += self._code([], final)[0]
        return blocks, used

    def _blocks(self, lines: Sequence[str], final: bool) -> tuple[list[Block], int]:
        tokens, links = parse_blocks("\n".join(lines))
        self.links = dict(links) | self.links
        blocks: list[Block] = []
        parts = self._parts(tokens, lines)
        codes = [token.map[0] for token in tokens if token.type in ("fence", "code_block") and token.map]
        for part in parts:
            self._gap, self._number = part.gap, part.number
            source = lines[part.start : part.end]
            if part.fence is not None:
                self._enter(part.fence, source[0])
                if not (self.fence and len(source) > 1 and self.fence.closes(source[-1])):
                    return blocks, part.start + 1  # the code block is open: the following lines are its code
                blocks += self._code(source[1:], final)[0]
            elif part is parts[-1] and not final:
                return blocks, part.start
            else:
                blocks.append(MarkdownBlock("\n".join(source).rstrip("\n"), part.gap, part.number, self._codes))
                self._codes += sum(part.start <= at < part.end for at in codes)
        if parts:
            self._gap, self._number = True, None
        return blocks, len(lines) if parts or final else 0

    def _parts(self, tokens: Sequence["Token"], lines: Sequence[str]) -> list[_BlockRange]:
        parts: list[_BlockRange] = []
        number: int | None = None
        begun = False  # whether the list has items
        for token in tokens:
            if token.map is None or token.level > 1 or (token.level and token.type != "list_item_open"):
                continue
            start, end = token.map
            gap = self._gap or bool(parts)
            if token.type.endswith("list_open"):
                begun, number = False, None
                if token.type == "ordered_list_open":
                    number = int(token.attrs.get("start", 1)) if parts or self._number is None else self._number
            elif token.level:
                parts.append(_BlockRange(start, end, not lines[start - 1].strip() if begun else gap, number))
                begun, number = True, None if number is None else number + 1
            else:
                parts.append(_BlockRange(start, end, gap, None, token if token.type == "fence" else None))
        return parts

    def _enter(self, token: "Token", line: str) -> None:
        self._codes += 1
        self._label = self._codes
        self.fence = Fence(token.markup, len(line) - len(line.lstrip(" ")), language_of(token.info))

    def _code(self, lines: Sequence[str], final: bool) -> tuple[list[Block], int]:
        fence = self.fence
        assert fence is not None
        closing = next((at for at, line in enumerate(lines) if fence.closes(line)), None)
        body = fence.body(lines[:closing])
        blocks: list[Block] = []
        at = 0
        while len(body) - at > CHUNK:
            size = cut(body[at : at + CHUNK], fence.language)
            blocks.append(self._code_part(body[at : at + size], fence.language))
            at += size
        if closing is None and not final:
            return blocks, at
        if at < len(body) or self._label is not None:
            blocks.append(self._code_part(body[at:], fence.language))
        self.fence, self._gap, self._number = None, True, None
        return blocks, len(lines) if closing is None else closing + 1

    def _code_part(self, body: Sequence[str], language: str) -> CodeBlock:
        label, self._label = self._label, None
        return CodeBlock("\n".join(body), label is not None and self._gap, language, label)
