"""Cancelling a request from another thread."""

import threading
from collections.abc import Sequence

from edgellm.engine.protocol import Engine


class CancelFlag:
    """Whether a request was cancelled. Any thread may call it, also from a signal handler."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        self._batch: Sequence[CancelFlag] = ()
        self.requested = False

    def __call__(self) -> None:
        """Cancel the request, which ends its wait for the engine.

        If the engine computes for it, and for no request that is not cancelled, the computation ends within
        milliseconds.
        """
        with self._lock:
            self.requested = True
            if self._batch and all(flag.requested for flag in self._batch):
                self._engine.stop()


def join_batch(flags: Sequence[CancelFlag], batch: Sequence[CancelFlag]) -> None:
    """Tell requests that the engine computes for those of `batch` together, or at its end that it computes for none.

    Outside, a cancel would stop another batch.
    """
    for flag in flags:
        with flag._lock:
            flag._batch = batch
