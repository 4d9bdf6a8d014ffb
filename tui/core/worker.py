"""The only thread that calls the model.

Its jobs wait in a queue, so that a message that is sent while a model loads is replied to as soon as the model is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event as ThreadEvent
from threading import Thread
from typing import TYPE_CHECKING

from edgellm.errors import EdgeLLMError
from tui.core.activity import Activity, Phase
from tui.core.error_text import error_line
from tui.core.events import Notice
from tui.core.model_loader import ModelLoader
from tui.core.reply_writer import ReplyWriter
from tui.core.warning_notices import WarningNotices

if TYPE_CHECKING:
    from tui.core.backend import Backend, OpenModel, Options, ReplyStream
    from tui.core.events import Emit, Event, ReplyEnded
    from tui.core.reply_request import ReplyRequest

_JOIN_TIMEOUT_S = 3.0


class Worker:
    """Opens models and writes replies.

    Its methods return at once and may be called from any thread. `emit` is called in the worker's own thread.
    """

    def __init__(self, backend: Backend, emit: Emit) -> None:
        self.backend, self._emit = backend, emit
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._writer = ReplyWriter(emit)
        self._loader = ModelLoader(backend, emit, self._writer.drop_stream)
        self.warnings = WarningNotices(emit)
        self.waiting: set[int] = set()
        self._weights_in_memory: tuple[int | None, int] = (None, 0)
        self._thread = Thread(target=self._work, name="model worker", daemon=True)
        self._thread.start()

    def open(self, model: str, options: Options) -> None:
        """Open a model in place of the open one. ModelOpened or ModelFailed follows, unless `open` is called again.

        The running reply ends; waiting replies are written by the new model. `options` is called in the worker's
        thread.
        """
        number = self._loader.request()
        self._jobs.put(lambda: self._open(model, options, number))
        self._stop_running()

    def reply(self, request: ReplyRequest) -> None:
        """Write a reply; ReplyEnded follows. Until the reply begins, its id is in `waiting`."""
        self.waiting.add(request.message)
        self._jobs.put(lambda: self._write(request))

    def ask(self, question: Callable[[OpenModel], Event]) -> None:
        """Call `question` with the open model and emit the event that it returns, or a Notice of its error."""
        self._jobs.put(lambda: self._answer(question))

    def done(self) -> ThreadEvent:
        """An event that is set when all jobs queued so far are done and their events are emitted."""
        done = ThreadEvent()
        self._jobs.put(done.set)
        return done

    def stop(self, message: int) -> None:
        """End a reply at once, or do not begin it."""
        self._writer.cancel(message, self._loader.model)

    def _stop_running(self) -> None:
        if (running := self.running) is not None:
            self.stop(running)

    @property
    def is_empty(self) -> bool:
        """Whether no model is open, being opened, or requested."""
        return self._loader.is_empty

    @property
    def running(self) -> int | None:
        """The id of the reply that is being written."""
        return self._writer.running

    def written(self, message: int) -> ReplyStream | ReplyEnded | None:
        """The text of a reply so far, or its end; None unless it is the reply begun last."""
        return self._writer.written(message)

    def activity(self) -> Activity:
        """What the worker does now, with the figures of the last reply."""
        stream, model = self._writer.stream, self._loader.model
        devices = model.devices if model else []
        blocks = sum(device["blocks"] for device in devices)
        resident, weights = self._weights_in_memory if model else (None, 0)
        return Activity(
            phase=self._phase(),
            model=self._loader.name,
            server=self.backend.server,
            progress=self._loader.progress,
            live=stream.live() if stream else None,
            context=model.ctx if model else 0,
            dropped_tokens=stream.dropped_tokens if stream else 0,
            dropped_messages=stream.dropped_messages if stream else 0,
            threads=model.threads if model else 0,
            blocks=blocks,
            gpu_blocks=blocks - sum(device["blocks"] for device in devices if device["name"] == "CPU"),
            weights=weights,
            resident=resident,
            drafter=model.drafter if model else "",
        )

    def _phase(self) -> Phase:
        if self._loader.is_loading:
            return Phase.LOADING
        if phase := self._writer.phase:
            return phase
        if self._loader.model:
            return Phase.READY
        return Phase.CLOSED if self._loader.is_empty else Phase.LOADING

    def close(self) -> None:
        """End the running reply or loading, close the model, and end the thread."""
        self._loader.close()
        self._stop_running()
        self._jobs.put(None)
        self._thread.join(_JOIN_TIMEOUT_S)  # the opening of a file on a slow disk cannot be cancelled

    def _work(self) -> None:
        while job := self._jobs.get():
            try:
                job()
            except Exception:  # raised by `emit`; the next job does not depend on it
                logging.getLogger(__name__).exception("unexpected")
        self._loader.release()

    def _open(self, model: str, options: Options, number: int) -> None:
        self._weights_in_memory = None, 0
        self.warnings.begin()
        self._loader.open(model, options, number)
        self._measure_weights()

    def _write(self, request: ReplyRequest) -> None:
        if self._loader.is_pending and not self._writer.is_cancelled(request.message):
            self._jobs.put(lambda: self._write(request))  # behind the job that opens the model
            return
        self.waiting.discard(request.message)
        self._writer.write(request, self._loader.model)
        self._measure_weights()

    def _measure_weights(self) -> None:
        """Find how much of the model is in memory. Other programs may push parts of it out after any reply."""
        if model := self._loader.model:
            self._weights_in_memory = model.weights_in_memory

    def _answer(self, question: Callable[[OpenModel], Event]) -> None:
        try:
            if not (model := self._loader.model):
                raise EdgeLLMError("no model is open: choose one with /model")
            self._emit(question(model))
        except Exception as error:
            self._emit(Notice(error_line(error), "error"))
