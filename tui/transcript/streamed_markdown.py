"""Markdown that grows while it streams, as blocks: only the last ones can still change."""

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
    """Parses a text that grows at its end: finished blocks stay, and parsing continues after them.

    Only whole lines can be finished, since a growing line may still change its meaning.
    """

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._reset()

    def _reset(self) -> None:
        self._head = ""  # the finished text
        self._finished: list[Block] = []
        self._seen = 0  # characters after it without a finished block
        self._splitter = BlockSplitter()

    def update(self, text: str, running: bool) -> None:
        """Update `blocks`. While the text is `running`, open marks at its end are closed, as they probably will be."""
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
    """The lines after the finished ones."""
    rest = sanitize(rest)
    if running and not in_code:
        rest = autoclose(rest)
    *lines, last = rest.split("\n")
    if not last or (running and in_code and _ALMOST_CLOSED.fullmatch(last)):
        return lines
    return [*lines, last]


def _linked(block: Block, links: Links) -> Block:
    """The block with the link references that it may use; the same object if these are its own."""
    if not isinstance(block, MarkdownBlock) or "[" not in block.source or block.links == links:
        return block
    return replace(block, links=links)
