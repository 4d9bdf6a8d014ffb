"""The state of a head for one sequence of its target: features that wait to be computed, and cells of its own.

Pair p is (the target's features at position p, the token at p + 1). Cell c of the head's own sequence holds pair
`start` + c, of which the first `pairs` are of the text; cells behind them are those of drafts. Features wait until a
draft is wanted: then one batch computes the pairs of accepted tokens alone, and a head that is not used costs copies.
"""

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Ids

import numpy as np

from edgellm.engine.feature_rows import FeatureRows
from edgellm.engine.outputs import Floats, Outputs
from edgellm.engine.paged_sequence import PagedSequence
from edgellm.engine.protocol import Segment


class HeadSequence:
    """Follows a sequence of the target (`edgellm.engine.follower.Follower`); `own` is the head's.

    Rows that wait are those of positions `low` … `high` - 1, as many as `features` allows. `computed`, `trim` and
    `restart` touch no cells, as the target calls them where it has its own to change; `segment` does, within the turn
    of the engines.
    """

    def __init__(self, new_sequence: Callable[[], PagedSequence], features: FeatureRows) -> None:
        self._new_sequence, self._features = new_sequence, features
        self.own = new_sequence()
        self._rows = deque[Floats]()
        self._low = self._start = self._pairs = 0
        features.share_with(self)

    @property
    def _high(self) -> int:
        return self._low + len(self._rows)

    def computed(self, first: int, outputs: Outputs, rows: slice) -> None:
        """See `Follower`."""
        if not self._features.are_wanted:
            return
        if not self._low <= first <= self._high:
            self._restart_at(first)
        self._drop_from(first)
        newest = slice(max(rows.start, rows.stop - self._features.most), rows.stop)
        if newest != rows:
            self._rows.clear()
            self._low = first + newest.start - rows.start
        self._rows.extend(self._features.of(outputs, newest))
        self._drop_oldest()

    def trim(self, n: int) -> None:
        """See `Follower`. The pair before `n` is kept: in most cases the same token follows again."""
        if n <= self._start:
            self._restart_at(n)
        self._drop_from(n)
        self._low, self._pairs = min(self._low, n), min(self._pairs, n - self._start)

    def restart(self) -> None:
        """See `Follower`."""
        self._restart_at(0)

    def fork(self) -> "HeadSequence":
        """See `Follower`: the fork begins anew, with the next token that is computed."""
        return HeadSequence(self._new_sequence, self._features)

    def pause(self) -> None:
        """Free the cells; the rows that wait are computed again."""
        self.own.trim(0)
        self.begin_at(self._low)

    def begin_at(self, position: int) -> None:
        """Begin anew with the pair at a position, or with the first one whose features are there."""
        while self._rows and self._low < position:
            self._rows.popleft()
            self._low += 1
        self._start, self._pairs = self._low, 0

    def lag(self, text: Ids[int]) -> int | None:
        """Pairs of a text that are to be computed before a draft; the target has not computed its last token.

        None: features of the last tokens are not there, or only those of further ones.
        """
        length = len(text) - 1
        if not self._low <= length <= self._high:
            return None
        held = self._held(text)
        return (length - (self._low if held is None else self._start + held)) or None

    def _held(self, text: Ids[int]) -> int | None:
        """How many of the head's cells hold pairs of a text, but its last one, as a draft follows that.

        None: the rows of the pairs behind them are not there, so that it must begin anew with those that are.
        """
        held = min(self._pairs, len(text) - 2 - self._start, len(self.own))
        if held > 0 and self.own.tokens[held - 1] != text[self._start + held]:
            held -= 1
        return held if held >= 0 and self._start + held >= self._low - 1 else None

    def segment(self, text: Ids[int], most: int) -> Segment[PagedSequence] | None:
        """The next pairs of a text, at most `most`; with the last one its outputs are wanted. None: see `lag`.

        The features of one missing row are zeros, as llama.cpp has them before the first token.
        """
        if self.lag(text) is None:
            return None
        held = self._held(text)
        self._start, self._pairs = (self._low, 0) if held is None else (self._start, held)
        self.own.trim(self._pairs)
        first = self._start + self._pairs
        last = min(first + most, len(text) - 1)
        rows = [self._rows[p - self._low] if p >= self._low else self._zeros() for p in range(first, last)]
        wanted = (last - first - 1,) if last == len(text) - 1 else ()
        return Segment(self.own, list(text[first + 1 : last + 1]), wanted, features=np.stack(rows))

    def next_segment(self, token: int, features: Floats) -> Segment[PagedSequence]:
        """The row of a draft, with the features behind the row before."""
        return Segment(self.own, [token], (0,), features=features)

    def confirm(self, pairs: int) -> None:
        """The pairs of the last segment were computed; the row of the last one is kept, in case its token changes."""
        self._pairs += pairs
        while self._rows and self._low < self._start + self._pairs - 1:
            self._rows.popleft()
            self._low += 1

    def _zeros(self) -> Floats:
        return np.zeros(self._features.width, np.float32)

    def _restart_at(self, n: int) -> None:
        self._rows.clear()
        self._low = self._start = n
        self._pairs = 0

    def _drop_from(self, n: int) -> None:
        while self._rows and self._high > n:
            self._rows.pop()

    def _drop_oldest(self) -> None:
        """Keep the newest rows; if those of pairs to compute are among the others, begin at the oldest that is left."""
        most = self._features.most
        while len(self._rows) > most:
            self._rows.popleft()
            self._low += 1
        if not self._pairs or self._low > self._start + self._pairs:
            self._start, self._pairs = max(self._start, self._low), 0
