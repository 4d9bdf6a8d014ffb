"""Asking the process that renders templates: one for all of them, started again where it ended."""

import atexit
import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.text.rendering.child import RenderingChild
from edgellm.text.rendering.codes import LAST


class RefusedError(EdgeLLMError):
    """A template is not valid or failed; `how` and `problem` are two parts of a sentence."""

    def __init__(self, how: str, problem: str) -> None:
        super().__init__(f"{how}: {problem}")
        self.how, self.problem = how, problem


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
        self._lock = threading.Lock()
        child, self._child = self._child, None
        self._asker: object = None
        if child:
            child.disown()

    def warm(self) -> None:
        """Begin to start the process, if there is none. Whoever asks first waits for it, and is told of failures."""
        with suppress(RefusedError), self._lock:
            self._running()

    def ask(self, request: Mapping[str, Any], asker: object) -> Mapping[str, Any]:
        """The reply to a request. Raises RefusedError."""
        packed = json.dumps(request).encode()
        with self._lock:
            child, self._asker = self._running(), asker
            whole = False
            try:
                code, payload = child.ask(packed)
                whole = code != LAST
            except (EOFError, OSError):
                raise RefusedError("failed", child.ending()) from None
            finally:
                self._asker = None
                if not whole:
                    self._end()
        reply: Mapping[str, Any] = json.loads(payload)
        if "refused" in reply:
            raise RefusedError(*map(str, reply["refused"]))
        return reply

    def stop(self, asker: object) -> None:
        """End what is done for this asker, if anything is; from any thread."""
        child = self._child
        if child and self._asker is asker:
            child.kill("it was stopped")

    def close(self) -> None:
        """End the process; the next request starts another."""
        with self._lock:
            self._end()

    def _running(self) -> RenderingChild:
        if self._child and self._child.ended:
            self._end()
        if not self._child:
            try:
                self._child = RenderingChild()
            except (OSError, RuntimeError) as error:  # RuntimeError: no further thread
                why = getattr(error, "strerror", None) or error
                problem = f"the process that renders it cannot be started ({why})"
                raise RefusedError("failed", problem) from None
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child:
            child.close()


renderer = Renderer()
"""The one of this process."""
