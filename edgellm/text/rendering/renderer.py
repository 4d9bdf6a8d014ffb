"""Requests to the child process that renders all templates; it is restarted when it has ended."""

import atexit
import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from edgellm.errors import EdgeLLMError
from edgellm.text.rendering.child import RenderingChild
from edgellm.text.rendering.codes import LAST

T = TypeVar("T")


class RefusedError(EdgeLLMError):
    """A template is not valid or failed; `how` and `problem` are two parts of a message."""

    def __init__(self, how: str, problem: str) -> None:
        super().__init__(f"{how}: {problem}")
        self.how, self.problem = how, problem


_STOPPED = "it was stopped"
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Raised by reading a malformed reply: the process is as untrusted as the template that it runs."""


class Renderer:
    """Any thread may use it; requests are answered one after the other."""

    def __init__(self) -> None:
        self._child: RenderingChild | None = None
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)
        atexit.register(self.close)

    def _begin(self) -> None:
        """Start without a child; in a fork, the child stays the parent's."""
        self._request_lock, self._stop_lock = threading.Lock(), threading.RLock()
        self._current: threading.Event | None = None
        child, self._child = self._child, None
        if child:
            child.disown()

    def warm(self) -> None:
        """Start the process in advance, if there is none. The first request waits for it, and reports a failure."""
        with suppress(EdgeLLMError), self._request_lock:
            self._running()

    def ask(self, request: Mapping[str, Any], stopped: threading.Event, read: Callable[[Any], T]) -> T:
        """The result of `read` for the reply to a request. Raises RefusedError, or EdgeLLMError without a process.

        `stopped`, which only `stop` sets, cancels the request at any time.
        """
        payload = self._answered(json.dumps(request).encode(), stopped)
        try:
            reply = json.loads(payload)
            if "refused" not in reply:
                return read(reply)
            how, problem = map(str, reply["refused"])
        except _MALFORMED:
            how, problem = "failed", "the process that renders it answers with something else"
        raise RefusedError(how, problem)

    def stop(self, stopped: threading.Event) -> None:
        """Set `stopped`, and end the request that was made with it, if it runs. Any thread may call it."""
        with self._stop_lock:
            stopped.set()
            if self._child and self._current is stopped:
                self._child.kill(_STOPPED)

    def _answered(self, request: bytes, stopped: threading.Event) -> bytes:
        with self._request_lock:
            child, usable = self._running(), False
            try:
                self._set_current(stopped)
                if stopped.is_set():  # `stop` was called before this was the current request
                    usable = True
                    raise RefusedError("failed", _STOPPED)
                code, payload = child.ask(request)
                usable = code != LAST
                return payload
            except (EOFError, OSError):
                raise RefusedError("failed", child.failure_reason()) from None
            finally:
                self._set_current(None)
                if not usable:
                    self._end()

    def _set_current(self, current: threading.Event | None) -> None:
        with self._stop_lock:
            self._current = current

    def close(self) -> None:
        """End the process, also while it renders; the next request starts another."""
        if child := self._child:
            child.kill("it was closed")
        with self._request_lock:
            self._end()

    def _running(self) -> RenderingChild:
        if self._child and self._child.ended:
            self._end()
        if not self._child:
            try:
                self._child = RenderingChild()
            except (OSError, RuntimeError) as error:  # RuntimeError: no further thread
                why = getattr(error, "strerror", None) or error
                problem = f"the process that renders chat templates cannot be started ({why})"
                raise EdgeLLMError(f"{problem}; close other programs, then try again") from None
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child:
            child.close()


renderer = Renderer()
"""The renderer of this process."""
