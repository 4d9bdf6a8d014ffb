"""What followers of the sequences of a target share, while other threads make sequences."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any
from weakref import WeakSet

from edgellm.engine.feature_rows import FeatureRows
from edgellm.engine.last_states import LastStates


class Counted(LastStates):
    """Counts its restarts."""

    restarts = 0

    def restart(self) -> None:
        """See `Follower`."""
        self.restarts += 1


def test_sequences_that_are_made_while_features_end_do_not_break_it() -> None:
    """A follower comes at each line of the set's own iteration, as from another thread."""
    features = FeatureRows([], 4)
    followers, others = [Counted(features) for _ in range(3)], 8

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal others
        if frame.f_code is WeakSet.__iter__.__code__ and event == "line" and others:
            followers.append(Counted(features))
            others -= 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        features.end()
    finally:
        sys.settrace(before)
    assert others == 0 and [each.restarts for each in followers] == [1] * 11
