"""What answers requests: the protocol of `LocalTarget` and `ServerTarget`, and how requests are cancelled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from edgellm.bench.serving.outcome import ReplyCounts
from edgellm.errors import EdgeLLMError


class NoRoomError(EdgeLLMError):
    """A server has no room for a request."""


class RequestCancelledError(EdgeLLMError):
    """A request was cancelled."""


@dataclass(frozen=True)
class LoadRequest:
    """A prompt, the number of tokens of its reply, and its arrival in seconds after the run began.

    Without an arrival the request is sent when a client is free.
    """

    prompt: list[int]
    tokens: int
    arrival_s: float | None = None


class Cancellation:
    """Cancels all running requests of a run, from another thread."""

    def __init__(self) -> None:
        self._lock, self._cancels = Lock(), set[Callable[[], None]]()
        self._cancelled = False

    @contextmanager
    def calls(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Call `cancel` if requests are cancelled meanwhile. Raises RequestCancelledError if they already are."""
        with self._lock:
            if self._cancelled:
                raise RequestCancelledError("the request was cancelled")
            self._cancels.add(cancel)
        try:
            yield
        finally:
            with self._lock:
                self._cancels.discard(cancel)

    def cancel(self) -> None:
        """Cancel the running requests, and those that have not begun."""
        with self._lock:
            self._cancelled = True
            running = list(self._cancels)
        for cancel in running:
            cancel()


class Target(Protocol):
    """An engine or a server. Several threads may send requests at once. `is_local`: this machine computes."""

    is_local: bool

    def complete(self, request: LoadRequest, on_piece: Callable[[], None], cancellation: Cancellation) -> ReplyCounts:
        """The reply to a request; `on_piece` is called when a piece of it comes.

        The tokens that end a text are forbidden, so that replies have the
        wanted length. Raises RequestCancelledError, NoRoomError, and EdgeLLMError for what fails.
        """
