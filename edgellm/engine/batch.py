"""A batch is rows: each is one token of one sequence."""

from collections.abc import Sequence as Ids

import numpy as np
from numpy.typing import NDArray

from edgellm.arch.description import Rope
from edgellm.engine.pages import Sequence
from edgellm.engine.protocol import Segment


class Batch:
    """Segments of different sequences, laid out as rows for the kernels (see `kquants.interpreter`).

    The cells that its rows write must be reserved. Row i of the logits belongs to the i-th wanted token.
    """

    def __init__(self, segments: Ids[Segment[Sequence]], rope: Rope, pages: NDArray[np.int64]) -> None:
        lengths = [len(s.tokens) for s in segments]
        starts = np.cumsum([0, *lengths])
        tables = [np.array(s.sequence.pages, np.int32) for s in segments]
        tokens = np.concatenate([np.asarray(s.tokens, np.int32) for s in segments])
        positions = np.concatenate([np.arange(len(s.sequence), len(s.sequence) + len(s.tokens)) for s in segments])
        outputs = [start + i for s, start in zip(segments, starts, strict=False) for i in s.wanted]
        self.rows, self.outputs = len(tokens), len(outputs)
        self._kept = (
            tokens,
            np.repeat([t.ctypes.data for t in tables], lengths).astype(np.int64),
            (positions + 1).astype(np.int32),
            np.array(outputs, np.int32),
            rope.rotations(positions),
            pages,
            tables,
        )
        addresses = [array.ctypes.data for array in self._kept[:6]]
        self.record = np.array([self.rows, self.outputs, *addresses], np.int64)
