"""The states of the last tokens of a sequence, and a reply's view of them, for a head that reads the target's cells."""

from collections.abc import Sequence as Ids
from typing import Self

from edgellm.engine.feature_rows import FeatureRows
from edgellm.engine.outputs import Floats, Outputs
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment
from edgellm.engine.target_reader import Prefix
from edgellm.options import MAX_DRAFT

KEPT = MAX_DRAFT + 1
"""As many states as a step has rows: the text goes on behind one of them."""


class LastStates:
    """Follows a sequence of the target (`edgellm.engine.follower.Follower`). `features` is as in `HeadSequence`."""

    def __init__(self, features: FeatureRows) -> None:
        self._features = features
        self._first, self._rows = 0, list[Floats]()
        features.share_with(self)

    def computed(self, first: int, outputs: Outputs, rows: slice) -> None:
        """See `Follower`."""
        if not self._features.are_wanted:
            return
        newest = slice(max(rows.start, rows.stop - KEPT), rows.stop)
        self._first, self._rows = first + newest.start - rows.start, self._features.of(outputs, newest)

    def trim(self, n: int) -> None:
        """See `Follower`."""
        del self._rows[max(0, n - self._first) :]

    def restart(self) -> None:
        """See `Follower`."""
        self._rows = []

    def fork(self) -> Self:
        """See `Follower`."""
        child = type(self)(self._features)
        child._first, child._rows = self._first, list(self._rows)
        return child

    def before(self, position: int) -> Floats | None:
        """The state of the token before a position, float32 [1, width]; None if it is not known."""
        at = position - 1 - self._first
        return self._rows[at][None] if 0 <= at < len(self._rows) else None


class ReadingState:
    """The state of a head for one reply, whose text the sequence has but for the last token. It keeps nothing."""

    def __init__(self, sequence: PagedSequence, states: LastStates) -> None:
        self._sequence, self._states, self._length = sequence, states, 0

    def lag(self, text: Ids[int]) -> int | None:
        """See `HeadSequence`: the first row is of the last token, and there is none to compute before."""
        return 1 if self._features(text) is not None else None

    def segment(self, text: Ids[int], most: int) -> Segment[Prefix] | None:
        """See `HeadSequence`."""
        features = self._features(text)
        self._length = len(text) - 1
        return None if features is None else self.next_segment(text[-1], features)

    def next_segment(self, token: int, features: Floats) -> Segment[Prefix]:
        """See `HeadSequence`."""
        return Segment(Prefix(self._sequence, self._length), [token], (0,), features=features)

    def _features(self, text: Ids[int]) -> Floats | None:
        """The state of the token before the last, if the cells before that are there."""
        length = len(text) - 1
        if length > len(self._sequence) or not all(table.reaches(length) for table in self._sequence.tables):
            return None
        return self._states.before(length)

    def confirm(self, pairs: int) -> None:
        """See `HeadSequence`: nothing is kept."""

    def begin_at(self, position: int) -> None:
        """See `HeadSequence`: it begins anew in any case."""

    def pause(self) -> None:
        """See `HeadSequence`: it holds no memory."""
