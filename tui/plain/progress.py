"""The progress of loading, in lines."""

from collections.abc import Callable
from time import monotonic

from tui.core.activity import Activity, Phase

_QUIET_S = 2.0
"""Loading that takes no longer than this prints nothing."""


class LoadingProgress:
    """Prints each step of loading once, as printed lines cannot be replaced."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._since, self._step = monotonic(), ""

    def show(self, activity: Activity) -> None:
        """Print the step of now, if it is new and the loading takes long."""
        if activity.phase is not Phase.LOADING:
            self._since, self._step = monotonic(), ""
        elif monotonic() - self._since > _QUIET_S:
            step = activity.progress.partition(":")[0]
            if step != self._step:
                self._say(step)
            self._step = step
