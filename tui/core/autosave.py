"""What is written of a reply is saved while it grows."""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tui.core.backend import ReplyStream

_SAVE_S = 0.25
"""A crash loses what has come since the last save. With 100,000 characters one takes 0.05 ms (AMD EPYC)."""


class Autosave:
    """A context in which a reply is written: `save` gets its text four times a second, as long as it changes.

    It is called in a thread of its own, so that a text is saved also where the next token is long in coming, and the
    model never waits for the disk. It is not called any more after the context.
    """

    def __init__(self, reply: ReplyStream, save: Callable[[str], None]) -> None:
        self._reply, self._save, self._saved = reply, save, reply.text
        self._ended = Event()
        self._thread = Thread(target=self._run, name="saving", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_SAVE_S):
            if (text := self._reply.text) != self._saved:
                try:
                    self._save(text)
                except Exception:  # the end of the reply is saved all the same, or told not to be
                    logging.getLogger(__name__).exception("unexpected")
                    return
                self._saved = text
