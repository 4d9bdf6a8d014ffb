"""Waits for the worker, and passes its events on in the meantime."""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Queue

from tui.core.events import Event
from tui.core.replies import Replies
from tui.core.worker import Worker

_INTERVAL_S = 0.03


class EventLoop:
    """Calls `on_event` for each event of the queue, and `on_wait` about 30 times a second while the worker is busy."""

    def __init__(
        self,
        events: Queue[Event],
        worker: Worker,
        replies: Replies,
        on_event: Callable[[Event], None],
        on_wait: Callable[[], None],
    ) -> None:
        self._events, self._worker, self._replies = events, worker, replies
        self._on_event, self._on_wait = on_event, on_wait

    def run(self) -> None:
        """Run until the worker has no more jobs, including the jobs that its events lead to."""
        more = True
        while more:
            done = self._worker.done()
            while not done.wait(_INTERVAL_S):
                self._pass_on()
                self._on_wait()
            more = self._pass_on()

    def run_interruptible(self) -> None:
        """As `run`, but the first Ctrl-C stops the replies; a second one raises KeyboardInterrupt."""
        try:
            self.run()
        except KeyboardInterrupt:
            self._replies.stop()
            self.run()

    def _pass_on(self) -> bool:
        """Pass all events of the queue on. Returns whether there was one."""
        any_event = False
        with suppress(Empty):
            while True:
                self._on_event(self._events.get_nowait())
                any_event = True
        return any_event
