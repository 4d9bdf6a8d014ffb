"""A text of Markdown that grows, as pieces of which only the last ones can still change."""

import copy
import re
from dataclasses import replace

from edgellm.terminal.sanitize import sanitize
from tui.transcript.autoclose import autoclose
from tui.transcript.block_splitter import BlockSplitter
from tui.transcript.blocks import Block, MarkdownBlock
from tui.transcript.parser import Links

_ALMOST_CLOSED = re.compile(r" {0,3}(?:`+|~+)")


class StreamedMarkdown:
    """Follows a text that mostly grows at its end: what is finished stays, and parsing goes on after it.

    Only whole lines are finished, for a line that still grows can turn into something else.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._reset()

    def _reset(self) -> None:
        self._head = ""  # the text that is finished
        self._finished: list[Block] = []
        self._seen = 0  # characters after it in which nothing more is finished
        self._splitter = BlockSplitter()

    def update(self, text: str, running: bool) -> None:
        """Bring `blocks` up to date. While the text is `running`, what is unfinished is shown as it will likely be."""
        if not text.startswith(self._head):
            self._reset()
        self._finish(text)
        ahead = copy.copy(self._splitter)
        opened, _ = ahead.take(_open_lines(text[len(self._head) :], running, ahead.fence is not None), final=True)
        links = tuple(ahead.links.items())
        self.blocks = [_linked(block, links) for block in (*self._finished, *opened)]

    def _finish(self, text: str) -> None:
        whole = text[len(self._head) : text.rfind("\n") + 1]
        if len(whole) <= self._seen:
            return
        lines = whole.split("\n")[:-1]
        blocks, used = self._splitter.take(sanitize(whole).split("\n")[:-1], final=False)
        taken = sum(len(line) + 1 for line in lines[:used])
        self._head += whole[:taken]
        self._seen = len(whole) - taken
        self._finished += blocks


def _open_lines(rest: str, running: bool, in_code: bool) -> list[str]:
    """The lines after those that are finished."""
    rest = sanitize(rest)
    if running and not in_code:
        rest = autoclose(rest)
    *lines, last = rest.split("\n")
    if not last or (running and in_code and _ALMOST_CLOSED.fullmatch(last)):
        return lines
    return [*lines, last]


def _linked(block: Block, links: Links) -> Block:
    """The piece with the references that it may name; unchanged, and the same, where there are no others."""
    if not isinstance(block, MarkdownBlock) or "[" not in block.source or block.links == links:
        return block
    return replace(block, links=links)
