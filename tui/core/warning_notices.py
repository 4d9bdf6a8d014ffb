"""Warnings of edgellm as notices: what Python prints of them goes to the log, which few read."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from edgellm.errors import EdgeLLMWarning
from edgellm.fmt import printable
from tui.core.events import Emit, Notice

_MAX_LENGTH = 1000
"""The most characters of a notice."""


class WarningNotices:
    """Emits the warnings of edgellm as Notices, each once until `begin` is called again.

    They may come from any thread: a draft model is loaded beside the replies.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._told = set[str]()

    def begin(self) -> None:
        """Another model is opened: what was told of the one before is told again, if it holds for this one."""
        self._told.clear()

    @contextmanager
    def emitted(self) -> Iterator[None]:
        """A context in which warnings of edgellm are emitted, too, and all are shown as they were before.

        Those of edgellm are never left out or raised, whatever filters of warnings say: users shall know them.
        """

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            before(message, category, filename, lineno, file, line)
            if issubclass(category, EdgeLLMWarning):
                self._tell(printable(str(message), _MAX_LENGTH))

        with warnings.catch_warnings():
            warnings.simplefilter("always", EdgeLLMWarning)
            before, warnings.showwarning = warnings.showwarning, show
            yield

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._emit(Notice(text, "warning"))
