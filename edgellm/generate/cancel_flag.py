"""Cancelling a request from another thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from edgellm.engine.protocol import Engine


class CancelFlag:
    """Whether a request was cancelled. Any thread may call it, also from a signal handler."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        self._computing = False
        self.requested = False

    def __call__(self) -> None:
        """Cancel the request: its computation ends within milliseconds, and so does its wait for the engine."""
        with self._lock:
            self.requested = True
            if self._computing:
                self._engine.stop()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Mark that the engine computes for this request; outside, a cancel would stop another request."""
        try:
            self._computing = True
            yield
        finally:
            with self._lock:
                self._computing = False
