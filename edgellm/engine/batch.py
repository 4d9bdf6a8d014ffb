"""A batch of rows; each row is one token of one sequence."""

from array import array
from collections.abc import Sequence as Ids
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgellm.engine.kv_pages import PagedSequence
from edgellm.engine.protocol import Segment
from edgellm.engine.rope_table import RopeTable
from kquants.records import BatchRecord


class BatchMemory(NamedTuple):
    """The BatchRecord of a batch, int64, and the arrays that it points to: `tables` int64, `numbers` int32."""

    words: "array[int]"
    tables: "array[int]"
    numbers: "array[int]"

    @property
    def address(self) -> int:
        """The address of the record."""
        return self.words.buffer_info()[0]


class Batch:
    """Segments of different sequences, laid out as rows for the devices.

    The sequences must have room for their new tokens. `lengths`: rows of each segment. `tables`: for each segment the
    page ids of its sequence (the sequence's own list). For each row, `tokens` has its token and `visible` the number of
    cells of its sequence that it sees; its own cell is the last of them. `wanted`: rows whose logits are wanted; row i
    of the logits is that of wanted row i.
    """

    def __init__(self, segments: Ids[Segment[PagedSequence]], rope_table: RopeTable) -> None:
        self.lengths = [len(s.tokens) for s in segments]
        self.tables = [s.sequence.pages for s in segments]
        self.tokens = [token for s in segments for token in s.tokens]
        self.visible = [n for s in segments for n in range(len(s.sequence) + 1, len(s.sequence) + 1 + len(s.tokens))]
        starts = accumulate(self.lengths, initial=0)
        self.wanted = [start + i for s, start in zip(segments, starts, strict=False) for i in s.wanted]
        self.rows, self.outputs = len(self.tokens), len(self.wanted)
        self._table = rope_table.up_to(max(self.visible))

    @cached_property
    def cos_sin(self) -> NDArray[np.float32]:
        """Cosine and sine of each pair's angle at the position of each row: float32 [rows, rope_dim/2, 2]."""
        rows: NDArray[np.float32] = self._table.array[np.array(self.visible) - 1]
        return rows

    def __getstate__(self) -> dict[str, Any]:
        """The state that another process needs: the angles of the rows in place of those of all positions."""
        state = {**vars(self), "cos_sin": self.cos_sin}
        del state["_table"]
        return state

    def record(self, pages: int) -> BatchMemory:
        """The record; `pages` is the address of the array with the addresses of all KV pages.

        The arrays are those of Python, not of NumPy, whose code would be read from memory for each token, since the
        weights of a token leave nothing else in the caches: 0.1 ms more a token.
        """
        n, ids = self.rows, [page for table in self.tables for page in table]
        numbers = array("i", self.tokens + self.visible + self.wanted + ids)
        tokens = numbers.buffer_info()[0]
        visible, wanted, table = tokens + 4 * n, tokens + 8 * n, tokens + 8 * n + 4 * self.outputs
        table_of_row = array("q")
        for length, pages_of_one in zip(self.lengths, self.tables, strict=True):
            table_of_row.extend([table] * length)
            table += 4 * len(pages_of_one)
        record = BatchRecord(
            rows=n,
            outputs=self.outputs,
            tokens=tokens,
            page_tables=table_of_row.buffer_info()[0],
            visible=visible,
            output_rows=wanted,
            cos_sin=self._table.address,
            pages=pages,
        )
        return BatchMemory(array("q", record), table_of_row, numbers)
