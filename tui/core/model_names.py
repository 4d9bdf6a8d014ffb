"""The names of the models on this machine, or of the server."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread

from edgellm.errors import EdgeLLMError


class ModelNames:
    """`names` are found by `find`, in a daemon thread: a folder on a network may never answer.

    Where they cannot be found, those that were known stay.
    """

    def __init__(self, find: Callable[[], Sequence[str]]) -> None:
        self._find = find
        self.names: Sequence[str] = ()

    def refresh(self) -> None:
        """Find the names again; returns at once."""
        Thread(target=self._refresh, name="model names", daemon=True).start()

    def _refresh(self) -> None:
        with suppress(EdgeLLMError):  # the list of models says why
            self.names = self._find()
