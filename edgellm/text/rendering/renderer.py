"""Asking the process that renders templates: one for all of them, started again where it ended."""

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
    """A template is not valid or failed; `how` and `problem` are two parts of a sentence."""

    def __init__(self, how: str, problem: str) -> None:
        super().__init__(f"{how}: {problem}")
        self.how, self.problem = how, problem


_STOPPED = "it was stopped"
_ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a reply raises that is not what it should be: the process is not to be trusted, as a template is not."""


class Renderer:
    """For any thread; one request is answered after the other."""

    def __init__(self) -> None:
        self._child: RenderingChild | None = None
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)
        atexit.register(self.close)

    def _begin(self) -> None:
        """Have no child; in a fork it stays the parent's."""
        self._turn, self._asking = threading.Lock(), threading.RLock()
        self._asker: threading.Event | None = None
        child, self._child = self._child, None
        if child:
            child.disown()

    def warm(self) -> None:
        """Begin to start the process, if there is none. Whoever asks first waits for it, and is told of failures."""
        with suppress(EdgeLLMError), self._turn:
            self._running()

    def ask(self, request: Mapping[str, Any], stopped: threading.Event, read: Callable[[Any], T]) -> T:
        """What `read` makes of the reply to a request. Raises RefusedError, or EdgeLLMError without a process.

        `stopped`, which only `stop` sets, refuses the request at any time.
        """
        payload = self._answered(json.dumps(request).encode(), stopped)
        try:
            reply = json.loads(payload)
            if "refused" not in reply:
                return read(reply)
            how, problem = map(str, reply["refused"])
        except _ODD:
            how, problem = "failed", "the process that renders it answers with something else"
        raise RefusedError(how, problem)

    def stop(self, stopped: threading.Event) -> None:
        """Set `stopped` and end what is done for it, if anything is; from any thread."""
        with self._asking:
            stopped.set()
            if self._child and self._asker is stopped:
                self._child.kill(_STOPPED)

    def _answered(self, request: bytes, stopped: threading.Event) -> bytes:
        with self._turn:
            child, whole = self._running(), False
            try:
                self._set_asker(stopped)
                if stopped.is_set():  # before there was an asker to stop
                    whole = True
                    raise RefusedError("failed", _STOPPED)
                code, payload = child.ask(request)
                whole = code != LAST
                return payload
            except (EOFError, OSError):
                raise RefusedError("failed", child.ending()) from None
            finally:
                self._set_asker(None)
                if not whole:
                    self._end()

    def _set_asker(self, asker: threading.Event | None) -> None:
        with self._asking:
            self._asker = asker

    def close(self) -> None:
        """End the process, whatever it does; the next request starts another."""
        if child := self._child:
            child.kill("it was closed")
        with self._turn:
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
"""The one of this process."""
