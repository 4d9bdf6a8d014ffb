"""A batch is rows: each is one token of one sequence."""

from collections.abc import Sequence as Ids
from itertools import accumulate

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
        # Lists, with few calls into NumPy: after all weights went through the caches, NumPy's code comes from memory
        # anew. With arrays throughout, a token took 50 µs longer.
        self.lengths = [len(s.tokens) for s in segments]
        self.tables = [np.array(s.sequence.pages, np.int32) for s in segments]
        self.tokens = np.array([token for s in segments for token in s.tokens], np.int32)
        visible = [n for s in segments for n in range(len(s.sequence) + 1, len(s.sequence) + 1 + len(s.tokens))]
        starts = accumulate(self.lengths, initial=0)
        outputs = [start + i for s, start in zip(segments, starts, strict=False) for i in s.wanted]
        self.rows, self.outputs = len(visible), len(outputs)
        self.visible = np.array(visible, np.int32)
        self.wanted = np.array(outputs, np.int32)
        self.rotations = rope.rotations(self.visible - 1)

    def record(self, pages: NDArray[np.int64]) -> list[NDArray[np.generic]]:
        """The batch's record for kernels (see `kquants.interpreter`), then what it has the addresses of.

        `pages` are the addresses of the KV pages.
        """
        tables = [table.ctypes.data for table, n in zip(self.tables, self.lengths, strict=True) for _ in range(n)]
        parts: list[NDArray[np.generic]] = [self.tokens, np.array(tables, np.int64), self.visible, self.wanted]
        parts += [self.rotations, pages]
        addresses = [array.ctypes.data for array in parts]
        return [np.array([self.rows, self.outputs, *addresses], np.int64), *parts]
