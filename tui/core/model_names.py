"""The names of the models on this machine."""

from collections.abc import Callable, Sequence
from threading import Thread


class ModelNames:
    """`names`, found by `find` in a thread that ends with the process: a folder on a network may never answer."""

    def __init__(self, find: Callable[[], Sequence[str]]) -> None:
        self._find = find
        self.names: Sequence[str] = ()

    def look(self) -> None:
        """Find out which there are now."""
        Thread(target=self._look, name="model names", daemon=True).start()

    def _look(self) -> None:
        self.names = self._find()
