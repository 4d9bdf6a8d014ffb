"""Runs calls of tools in threads, off the thread of the screen."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from edgellm.tools.calls import ToolCall
from tui.core.events import CallEnded, Emit

if TYPE_CHECKING:
    from edgellm.tools.tool import Tool

_JOIN_TIMEOUT_S = 3.0


@dataclass(slots=True, eq=False)
class _Run:
    """A call that runs. `number` tells runs apart."""

    number: int
    thread: Thread | None = None
    is_running: bool = False
    is_stopped: bool = False


class CallRunner:
    """Runs one call at a time; CallEnded follows, unless it is stopped.

    `cancelled` ends the calls of tools while it is set: from `stop` to the end of the run.
    """

    def __init__(self, cancelled: Event, emit: Emit) -> None:
        self._cancelled, self._emit = cancelled, emit
        self._lock = Lock()  # of the flags of runs
        self._run = _Run(0)

    def start(self, tool: Tool, call: ToolCall) -> None:
        """Run a call in a thread."""
        before, self._run = self._run.thread, _Run(self._run.number + 1)
        self._run.thread = Thread(target=self._work, args=(self._run, before, tool, call), name="tool", daemon=True)
        self._run.thread.start()

    def _work(self, run: _Run, before: Thread | None, tool: Tool, call: ToolCall) -> None:
        """Run a call, in its thread, once the run before has ended, which `stop` may have told to end."""
        if before:
            before.join()
        with self._lock:
            run.is_running = not run.is_stopped
        if run.is_running:
            from edgellm.tools.running import run_call  # on demand

            result = run_call(tool, call)
            with self._lock:
                run.is_running = False
                self._cancelled.clear()
            self._emit(CallEnded(run.number, result))

    def has(self, event: CallEnded) -> bool:
        """Whether an event is that of the run begun last, and that was not stopped."""
        return event.run == self._run.number and not self._run.is_stopped

    def stop(self) -> None:
        """End the run."""
        with self._lock:
            self._run.is_stopped = True
            if self._run.is_running:
                self._cancelled.set()

    def close(self) -> None:
        """End the run, and wait until what it started has ended."""
        self.stop()
        if thread := self._run.thread:
            thread.join(_JOIN_TIMEOUT_S)
