"""A model on its way from a hub, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import TYPE_CHECKING

from edgellm.fmt import printable
from tui.core.error_text import error_line

if TYPE_CHECKING:
    from edgellm.hub import PullProgress


class Pull:
    """`ended` is called from the thread; then `name` is that of the model, or `problem` says why it did not come.

    Both are None for a pull that was stopped. What has come stays, and the next pull goes on with it; so it does when
    the process ends, and the thread with it.
    """

    def __init__(self, reference: str, ended: Callable[[Pull], object]) -> None:
        self.reference, self._ended = reference, ended
        self.name: str | None = None
        self.problem: str | None = None
        self._stop = Event()
        self._follower: PullProgress | None = None

    def start(self) -> None:
        """Begin."""
        Thread(target=self._run, name="pull", daemon=True).start()

    def stop(self) -> None:
        """End it as soon as something is heard of the network; at the latest when that times out."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._stop.is_set()

    @property
    def share(self) -> float | None:
        """How much is here, from 0 to 1; None while that is not known."""
        return self._follower.share if self._follower else None

    def __str__(self) -> str:
        """What is being done."""
        return "stopping" if self.stopping else f"{self._follower or 'starting'}{self._note()}"

    def _note(self) -> str:
        """Told before all of it is here: a model that cannot be opened then."""
        architecture = self._follower.architecture if self._follower else None
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
            self._follower = PullProgress(self._stop)
            self.name = display_name(fetch_model(self.reference, self._follower).path)
        except StoppedError:
            pass
        except Exception as error:
            self.problem = error_line(error)
        self._ended(self)
