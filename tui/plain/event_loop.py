"""Waits for the worker, and passes its events on in the meantime."""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Queue
from threading import Event as ThreadEvent
from time import sleep

from tui.core.events import Event
from tui.core.worker import Worker

_INTERVAL_S = 0.03


class EventLoop:
    """Calls `on_event` for each event of the queue, and `on_wait` about 30 times a second while something is done.

    That is what the worker does, and what happens while `in_background` is true.
    """

    def __init__(
        self,
        events: Queue[Event],
        worker: Worker,
        stop: Callable[[], None],
        in_background: Callable[[], bool],
        on_event: Callable[[Event], None],
        on_wait: Callable[[], None],
    ) -> None:
        self._events, self._worker, self._stop = events, worker, stop
        self._in_background = in_background
        self._on_event, self._on_wait = on_event, on_wait

    def run(self) -> None:
        """Run until nothing more is done, including what events lead to."""
        more = True
        while more:
            done, more = self._worker.done(), False
            while self._wait(done):
                more |= self._pass_on()
                self._on_wait()
            more |= self._pass_on()

    def _wait(self, done: ThreadEvent) -> bool:
        """Wait for a moment, unless all is done."""
        if not done.wait(_INTERVAL_S):
            return True
        if is_busy := self._in_background():
            sleep(_INTERVAL_S)
        return is_busy

    def run_interruptible(self) -> None:
        """As `run`, but the first Ctrl-C calls `stop`; a second one raises KeyboardInterrupt."""
        try:
            self.run()
        except KeyboardInterrupt:
            self._stop()
            self.run()

    def _pass_on(self) -> bool:
        """Pass all events of the queue on. Returns whether there was one."""
        any_event = False
        with suppress(Empty):
            while True:
                self._on_event(self._events.get_nowait())
                any_event = True
        return any_event
