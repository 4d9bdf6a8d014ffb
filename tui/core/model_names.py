"""The names of the models on this machine."""

from collections.abc import Callable, Sequence
from threading import Thread


class ModelNames:
    """`names` are found by `find`, in a daemon thread: a folder on a network may never answer."""

    def __init__(self, find: Callable[[], Sequence[str]]) -> None:
        self._find = find
        self.names: Sequence[str] = ()

    def refresh(self) -> None:
        """Find the names again; returns at once."""
        Thread(target=self._refresh, name="model names", daemon=True).start()

    def _refresh(self) -> None:
        self.names = self._find()
