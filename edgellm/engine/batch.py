"""A batch is rows: each is one token of one sequence."""

from collections.abc import Sequence as Ids

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.description import Rope
from edgellm.engine.pages import Sequence
from edgellm.engine.protocol import Segment


class Batch:
    """Segments of different sequences, laid out as rows for the devices.

    The cells that its rows write must be reserved. Row i of the logits belongs to the i-th wanted token.

    `tokens` int32 [n]; `lengths`: rows of each segment; `tables`: for each segment the int32 ids of its sequence's
    pages; `visible` int32 [n]: how many cells of its sequence a row sees, its own the last; `wanted` int32 [outputs]:
    rows whose logits are wanted; `rotations` float32 [n, rope_dim/2, 2]: cosine and sine of each pair's angle.
    """

    def __init__(self, segments: Ids[Segment[Sequence]], rope: Rope) -> None:
        self.lengths = [len(s.tokens) for s in segments]
        starts = np.cumsum([0, *self.lengths])
        self.tables = [np.array(s.sequence.pages, np.int32) for s in segments]
        self.tokens = np.concatenate([np.asarray(s.tokens, np.int32) for s in segments])
        positions = np.concatenate([np.arange(len(s.sequence), len(s.sequence) + len(s.tokens)) for s in segments])
        outputs = [start + i for s, start in zip(segments, starts, strict=False) for i in s.wanted]
        self.rows, self.outputs = len(self.tokens), len(outputs)
        self.visible = (positions + 1).astype(np.int32)
        self.wanted = np.array(outputs, np.int32)
        self.rotations = rope.rotations(positions)

    def record(self, pages: NDArray[np.int64]) -> list[NDArray[np.generic]]:
        """The batch's record for kernels (see `kquants.interpreter`), then what it has the addresses of.

        `pages` are the addresses of the KV pages.
        """
        rows_tables = np.repeat([t.ctypes.data for t in self.tables], self.lengths).astype(np.int64)
        parts = [self.tokens, rows_tables, self.visible, self.wanted, self.rotations, pages]
        addresses = [array.ctypes.data for array in parts]
        return [np.array([self.rows, self.outputs, *addresses], np.int64), *parts]
