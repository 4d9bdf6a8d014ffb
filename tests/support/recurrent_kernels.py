"""Kernels of recurrent layers over the segments of a batch, whose states come from pages and go to pages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kquants.layout import STATE_COLUMNS
from kquants.records import Arguments, BatchRecord
from support.kernels import batch_record, fenced, guarded, op_record, run_op, same_bits

F32 = np.float32
Array = NDArray[Any]
Step = Callable[[int, Array], tuple[Array, Array]]
"""`step(t, S)`: (S behind row t, y of the row)."""
OFFSET, GROUP = 64, 1
"""Bytes of other layers' states before that of the op, and the group of the state pages."""


@dataclass(frozen=True)
class Cut:
    """Rows as segments: their lengths, whether they begin with a state, and marked rows, whose states are kept."""

    lengths: Sequence[int]
    has_state: Sequence[bool]
    marks: Sequence[int] = ()

    @property
    def starts(self) -> list[int]:
        """The first row of each segment, and the number of rows."""
        return [sum(self.lengths[:i]) for i in range(len(self.lengths) + 1)]

    @property
    def kept(self) -> list[int]:
        """The rows whose states are kept: those marked and the last of each segment."""
        return sorted({*self.marks, *(stop - 1 for stop in self.starts[1:])})


CUTS = [
    Cut([1], [True]),
    Cut([1, 1, 1], [True, False, True]),
    Cut([7], [False], [0, 2]),
    Cut([2, 9, 1], [True, True, False], [0, 5, 6]),
]


def run_states(
    kernel: str, given: Arguments, cut: Cut, before: Array, units: int, chunk: int = 1, scratch_bytes: int = 64
) -> list[Array]:
    """Run an op over all rows of a cut; `before` are float32 states of each segment. Returns the states that are kept.

    Pages of other states and the bytes around those of the op stay as they are.
    """
    pages = _Pages(before, cut.kept)
    kept_states = np.full(cut.starts[-1], -1, np.int32)
    kept_states[cut.kept] = len(before) + np.arange(len(cut.kept))
    parts: dict[str, Array] = {
        "segment_rows": np.array(cut.starts, np.int32),
        "pages": np.array([0, pages.addresses.ctypes.data], np.int64),
        "states": np.array([i if has else -1 for i, has in enumerate(cut.has_state)], np.int32),
        "kept_states": fenced(kept_states),
    }
    batch = batch_record(cut.starts[-1], 0, **parts)
    batch[BatchRecord._fields.index("segments")] = len(cut.lengths)
    run_op(op_record(kernel, given, units=units), batch, units, scratch_bytes=scratch_bytes, chunk=chunk)
    return pages.kept()


class _Pages:
    """Pages of the states before each segment, then pages for the states kept, full of GUARD bytes."""

    def __init__(self, before: Array, kept: Sequence[int]) -> None:
        self._before = before
        self._all = guarded((len(before) + len(kept), OFFSET // 4 + before[0].size + 16), F32)
        self._states = self._all[:, OFFSET // 4 : -16]
        self._states[: len(before)] = before.reshape(len(before), -1)
        self.addresses = np.array([page.ctypes.data for page in self._all], np.int64)

    def kept(self) -> list[Array]:
        """The states that are kept, where nothing else was written."""
        n, found = len(self._before), self._states.copy()
        assert same_bits(found[:n], self._before.reshape(n, -1)), "a state was written that another token has"
        self._states[...] = guarded((1,), F32)
        assert same_bits(self._all, guarded(self._all.shape, F32)), "wrote past a state"
        return [state.reshape(self._before[0].shape) for state in found[n:]]


def blocks_of(matrices: Array) -> Array:
    """States float32[heads, rows, columns] as kernels store them: [heads, blocks, rows, 32], padded with zeros."""
    heads, rows, columns = matrices.shape
    padded = np.pad(matrices, ((0, 0), (0, 0), (0, -columns % STATE_COLUMNS)))
    return np.ascontiguousarray(padded.reshape(heads, rows, -1, STATE_COLUMNS).transpose(0, 2, 1, 3), F32)


def matrices_of(blocks: Array, columns: int) -> Array:
    """The inverse of `blocks_of`."""
    heads, _, rows, _ = blocks.shape
    return blocks.transpose(0, 2, 1, 3).reshape(heads, rows, -1)[:, :, :columns]


Run = Callable[[Cut, Array, slice, int], tuple[Array, list[Array]]]
"""`run(cut, states before, rows, chunk)`: y of these rows and the states that are kept."""


def scanned(cut: Cut, before: Array, step: Step) -> tuple[Array, list[Array]]:
    """(y, states that are kept) in float64."""
    outputs, kept = [], []
    for segment, (start, stop) in enumerate(zip(cut.starts, cut.starts[1:], strict=False)):
        state = before[segment].astype(np.float64) * cut.has_state[segment]
        for t in range(start, stop):
            state, y = step(t, state)
            outputs.append(y.reshape(-1))
            kept += [state] if t in cut.kept else []
    return np.stack(outputs), kept


def near(found: Array, wanted: Array, bits: int = 17) -> bool:
    """Within 2**-bits of the largest value: sums of up to 128 products of float32, of several rows."""
    return bool((np.abs(found - wanted) <= 2.0**-bits * np.abs(wanted).max()).all())


def check_formula(run: Run, step: Step, before: Array, cut: Cut, bits: int = 17) -> None:
    """Outputs and states that are kept are near those of the formula; the padding of states stays zero."""
    blocks = np.stack([blocks_of(state) for state in before[: len(cut.lengths)]])
    y, kept = run(cut, blocks, slice(0, cut.starts[-1]), 1)
    wanted, states = scanned(cut, before, step)
    assert all(near(found, row, bits) for found, row in zip(y, wanted, strict=True))
    for found, state in zip(kept, states, strict=True):
        matrices = matrices_of(found, state.shape[-1])
        assert near(matrices, state, bits)
        assert same_bits(found, blocks_of(matrices)), "padding stays zero"


def check_any_cut(run: Run, before: Array, rows: int, units: int) -> None:
    """One sequence has the same bits in one segment, row by row, in uneven segments and among neighbours."""
    whole, states = run(Cut([rows], [True], [2]), before, slice(0, rows), units)
    for lengths in ([1] * rows, [3, rows - 3], [rows - 1, 1]):
        state, start, parts = before, 0, []
        for length in lengths:
            y, kept = run(Cut([length], [True]), state, slice(start, start + length), 1)
            parts.append(y)
            state, start = np.stack([kept[-1]]), start + length
            if start == 3:
                assert same_bits(kept[-1], states[0]), "a kept state is that behind its row"
        assert same_bits(np.concatenate(parts), whole)
        assert same_bits(state[0], states[-1])
    y, kept = run(Cut([2, rows - 2], [False, True]), np.concatenate([before, before]), slice(0, rows), 3)
    alone, last = run(Cut([rows - 2], [True]), before, slice(2, rows), 1)
    assert same_bits(y[2:], alone) and same_bits(kept[-1], last[-1]), "a neighbour changes bits"
