"""Pulling a model from a hub, in its own thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import TYPE_CHECKING

from edgellm.fmt import printable
from tui.core.error_text import error_line

if TYPE_CHECKING:
    from edgellm.hub import PullProgress


class Pull:
    """A pull. `ended` is called in the thread; then `name` is the model's, or `problem` is the error.

    Both are None for a stopped pull. Downloaded bytes are kept, and the next pull resumes; this also holds when the
    process, and the thread with it, ends.
    """

    def __init__(self, reference: str, ended: Callable[[Pull], object]) -> None:
        self.reference, self._ended = reference, ended
        self.name: str | None = None
        self.problem: str | None = None
        self._stop = Event()
        self._progress: PullProgress | None = None

    def start(self) -> None:
        """Start the thread."""
        Thread(target=self._run, name="pull", daemon=True).start()

    def stop(self) -> None:
        """Stop as soon as the network answers, at the latest when it times out."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    @property
    def share(self) -> float | None:
        """The downloaded share, from 0 to 1; None while it is unknown."""
        return self._progress.share if self._progress else None

    def __str__(self) -> str:
        """What the pull is doing."""
        return "stopping" if self.stopping else f"{self._progress or 'starting'}{self._note()}"

    def _note(self) -> str:
        """A warning, during the download, about a model that cannot be opened."""
        architecture = self._progress.architecture if self._progress else None
        if architecture is None:
            return ""
        from edgellm.arch import ARCHITECTURES

        return (
            "" if architecture in ARCHITECTURES else f" · note: architecture {printable(architecture)} cannot run here"
        )

    def _run(self) -> None:
        from edgellm.hub import PullProgress, StoppedError, fetch_model
        from edgellm.models import display_name

        try:
            self._progress = PullProgress(self._stop)
            self.name = display_name(fetch_model(self.reference, self._progress).path)
        except StoppedError:
            pass
        except Exception as error:
            self.problem = error_line(error)
        self._ended(self)
