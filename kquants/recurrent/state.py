"""The state pages of the segments of a batch; see `kquants.records.recurrent`.

A scan updates the state of a segment in the page that keeps the state behind the last row. Only the first row reads
another page, that of the state before the segment. The states that are kept behind other rows are copies.
"""

from kquants.compiler.decorators import inline
from kquants.simd import clear, copy, load_i32, load_i64
from kquants.threadpool.interpreter import batch_of


@inline
def _page(batch: int, group: int, page: int, offset: int) -> int:
    """The address `offset` bytes into a page of a group; 0 for page -1."""
    return load_i64(load_i64(batch_of(batch).pages + 8 * group) + 8 * page) + offset if page >= 0 else 0


@inline
def state_before(batch: int, group: int, segment: int, offset: int) -> int:
    """The address of a layer's state before the first row of a segment; 0 for zeros."""
    return int(_page(batch, group, load_i32(batch_of(batch).states + 4 * segment), offset))


@inline
def kept_state(batch: int, group: int, row: int, offset: int) -> int:
    """The address that a layer's state behind a row goes to; 0 if it is not kept."""
    return int(_page(batch, group, load_i32(batch_of(batch).kept_states + 4 * row), offset))


@inline
def segment_rows(batch: int, segment: int) -> tuple[int, int]:
    """The first row of a segment, and the end of its rows."""
    place = batch_of(batch).segment_rows + 4 * segment
    return load_i32(place), load_i32(place + 4)


@inline
def load_state(batch: int, group: int, segment: int, offset: int, state: int, nbytes: int) -> int:
    """The address of a layer's state before a segment; where there is none, `state`, filled with zeros."""
    before = state_before(batch, group, segment, offset)
    if before != 0:
        return before
    clear(state, nbytes)
    return state


@inline
def keep_state(batch: int, group: int, row: int, offset: int, state: int, nbytes: int) -> None:
    """Copy a layer's state behind a row to the page that keeps it, if there is one other than that of `state`."""
    kept = kept_state(batch, group, row, offset)
    if kept != 0 and kept != state:
        copy(kept, state, nbytes)
