"""The one thread that calls the model. Jobs wait in a queue, so that what is said while a model loads is sent then."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event as ThreadEvent
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from edgellm.errors import EdgeLLMError, PromptError
from edgellm.system.os_errors import explain_error
from tui.core.activity import Activity, Phase
from tui.core.autosave import Autosave
from tui.core.backend import NoTemplateError
from tui.core.events import Event, ModelFailed, ModelOpened, Notice, ReplyEnded
from tui.core.past_stats import stats_record

if TYPE_CHECKING:
    from tui.core.backend import Backend, Messages, OpenModel, Options, ReplyStream

Emit = Callable[[Event], None]
_PATIENCE_S = 3.0
_WORDS = {"ctx": "/set ctx", "overflow": "/set overflow drop or window", "prompt": "some text"}
"""What errors about prompts call that which can be set."""


class _NotWantedError(Exception):
    """Another model is wanted by now, or none."""


@dataclass(frozen=True, slots=True)
class ReplyRequest:
    """A reply that is wanted: `message` is where it goes, `begun` what is there of it already.

    `save` gets that and the text a few times a second while it grows, in a thread of its own. `end` gets what there is
    to tell at the end, after the last `save` and before anybody else is told, in the worker's thread.
    """

    message: int
    messages: Messages
    options: Mapping[str, Any] = field(default_factory=dict)
    begun: str = ""
    save: Callable[[int, str], None] = lambda message, text: None
    end: Callable[[ReplyEnded], None] = lambda event: None


class _Begun(NamedTuple):
    """The reply that was begun last: where it goes, what writes it as long as its model is open, and how it ended."""

    message: int
    reply: ReplyStream | None = None
    ended: ReplyEnded | None = None


class Worker:
    """Opens models and writes replies. Its methods return at once, from any thread; `tell` is called in its own."""

    def __init__(self, backend: Backend, tell: Emit) -> None:
        self._backend, self._tell = backend, tell
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._model: OpenModel | None = None
        self._begun: _Begun | None = None  # replaced as a whole, as other threads look at it
        self._phase, self._progress, self._name = Phase.CLOSED, "", ""
        self._unwanted: set[int] = set()
        self.waiting: set[int] = set()
        self._opening = self._opened = 0
        self._closing = False
        self._thread = Thread(target=self._work, name="model worker", daemon=True)
        self._thread.start()

    def open(self, model: str, options: Options) -> None:
        """Open a model in place of the one that is open. ModelOpened or ModelFailed follows, or the next `open`.

        The reply that is being written ends; those that wait are for the new model. `options` is called in the
        worker's thread.
        """
        self._opening = opening = self._opening + 1
        self._jobs.put(lambda: self._open(model, options, opening))
        self._stop_running()

    def reply(self, request: ReplyRequest) -> None:
        """Write a reply. ReplyEnded follows; until it begins, the reply is among those `waiting`."""
        self.waiting.add(request.message)
        self._jobs.put(lambda: self._write(request))

    def ask(self, question: Callable[[OpenModel], Event]) -> None:
        """Look at the model. The event that `question` makes follows, or a Notice of why not."""
        self._jobs.put(lambda: self._answer(question))

    def done(self) -> ThreadEvent:
        """Set as soon as everything is done that was asked for until now, and told."""
        done = ThreadEvent()
        self._jobs.put(done.set)
        return done

    def stop(self, message: int) -> None:
        """End a reply at once, or do not begin it."""
        self._unwanted.add(message)
        begun, model = self._begun, self._model
        if begun and begun.message == message and not begun.ended and (running := begun.reply or model):
            running.cancel()

    def _stop_running(self) -> None:
        if (running := self.running) is not None:
            self.stop(running)

    @property
    def empty(self) -> bool:
        """Whether there is no model, and none to come."""
        return self._phase is Phase.CLOSED and self._opened == self._opening

    @property
    def running(self) -> int | None:
        """The reply that is being written."""
        begun = self._begun
        return begun.message if begun and not begun.ended else None

    def written(self, message: int) -> ReplyStream | ReplyEnded | None:
        """What has come of a reply, or came until its end; None but for the one that was begun last."""
        begun = self._begun
        return (begun.ended or begun.reply) if begun and begun.message == message else None

    def reading(self) -> Activity:
        """What is being done now."""
        reply, model = self._begun and self._begun.reply, self._model
        devices = model.devices if model else []
        blocks = sum(device["blocks"] for device in devices)
        to_come = self._phase is Phase.CLOSED and not self.empty
        return Activity(
            phase=Phase.LOADING if to_come else self._phase,
            model=self._name,
            progress=self._progress,
            live=reply.live() if reply else None,
            context=model.ctx if model else 0,
            dropped_tokens=reply.dropped_tokens if reply else 0,
            dropped_messages=reply.dropped_messages if reply else 0,
            threads=model.threads if model else 0,
            blocks=blocks,
            gpu_blocks=blocks - sum(device["blocks"] for device in devices if device["name"] == "CPU"),
        )

    def close(self) -> None:
        """Stop what is being written or opened, let go of the model and end the thread."""
        self._closing = True
        self._stop_running()
        self._jobs.put(None)
        self._thread.join(_PATIENCE_S)  # a file on a slow disk is opened in one go, and nothing waits for it

    def _work(self) -> None:
        while job := self._jobs.get():
            try:
                job()
            except Exception:  # of what is told: the next job has nothing to do with it
                logging.getLogger(__name__).exception("unexpected")
        self._let_go()

    def _open(self, name: str, options: Options, opening: int) -> None:
        def say(progress: str) -> None:
            if self._closing or opening != self._opening:
                raise _NotWantedError
            self._progress = progress

        if self._closing or opening != self._opening:
            return
        self._phase = Phase.LOADING
        self._opened = opening
        if self._model and (error := self._problem(name, options)):
            self._phase = Phase.READY
            self._tell(_failed(name, error, kept=True))
            return
        self._let_go()
        self._name = name
        told: Event | None = None
        try:
            say("")
            self._model = model = self._backend.open(name, options, say)
            told = ModelOpened(model.name, model.ctx, model.thinking, model.defaults, name, model.path)
            self._phase, self._name = Phase.READY, model.name
        except _NotWantedError:
            self._phase = Phase.CLOSED
        except Exception as error:
            self._phase, told = Phase.CLOSED, _failed(name, error)
        if told:
            self._tell(told)

    def _problem(self, name: str, options: Options) -> Exception | None:
        """Why a model cannot take the place of the one that is open, or nothing: a slip of the pen ends none."""
        try:
            self._backend.check(name, options)
        except Exception as error:
            return error
        return None

    def _let_go(self) -> None:
        model, self._model = self._model, None
        if self._begun:
            self._begun = self._begun._replace(reply=None)
        try:
            if model:
                model.close()
        except Exception as error:
            self._tell(Notice(error_line(error), "error"))

    def _write(self, request: ReplyRequest) -> None:
        if self._waits(request):
            self._jobs.put(lambda: self._write(request))
            return
        self.waiting.discard(request.message)
        self._begun = _Begun(request.message)
        try:
            ended = self._reply_to(request)
        except Exception as error:
            ended = self._broken_off(request, error)
        self._phase = Phase.READY if self._model else Phase.CLOSED
        self._begun = self._begun._replace(ended=ended)
        self._unwanted.discard(request.message)
        try:
            request.end(ended)
        except Exception as error:
            self._tell(Notice(f"this reply is not saved: {error_line(error)}", "error"))
        self._tell(ended)

    def _broken_off(self, request: ReplyRequest, error: Exception) -> ReplyEnded:
        """How a reply ended that raised an error: one may be what was asked for, while its prompt was made."""
        reply = self._begun and self._begun.reply
        if not reply and request.message in self._unwanted:
            return ReplyEnded(request.message, request.begun, "cancelled")
        ctx = self._model.ctx if self._model else 0
        text, stats = (reply.text, stats_record(reply.stats, reply.live(), ctx)) if reply else (request.begun, None)
        return ReplyEnded(request.message, text, "error", stats, problem=error_line(error))

    def _waits(self, request: ReplyRequest) -> bool:
        """Whether a model is to be opened before a reply that is still wanted; the job for that stands in the queue."""
        return self._opened != self._opening and not self._closing and request.message not in self._unwanted

    def _reply_to(self, request: ReplyRequest) -> ReplyEnded:
        if request.message in self._unwanted:
            return ReplyEnded(request.message, request.begun, "cancelled")
        model = self._ready()
        self._phase = Phase.PREFILL
        reply = model.reply(request.messages, request.options, request.begun)
        self._begun = _Begun(request.message, reply)
        # In this order here, and the other way round in `stop`, so that no wish is missed.
        if request.message in self._unwanted:
            reply.cancel()
        with Autosave(reply, lambda text: request.save(request.message, text)):
            for _ in reply:
                self._phase = Phase.DECODE
        return ReplyEnded(
            request.message,
            reply.text,
            reply.finish_reason or "cancelled",
            stats_record(reply.stats, reply.live(), model.ctx),
            reply.dropped_tokens,
            reply.dropped_messages,
            self._cut_off(model, reply, request.options.get("overflow")),
        )

    @staticmethod
    def _cut_off(model: OpenModel, reply: ReplyStream, overflow: object) -> str | None:
        """That the context ended a reply, and not the limit that was set for it."""
        held = reply.stats.prompt_tokens + reply.stats.generated_tokens - 1  # the last one is never computed with
        if reply.finish_reason != "length" or overflow == "window" or held < model.ctx:
            return None
        return f"the context of {model.ctx:,} tokens is full; /set overflow window lets replies go on"

    def _answer(self, question: Callable[[OpenModel], Event]) -> None:
        try:
            self._tell(question(self._ready()))
        except Exception as error:
            self._tell(Notice(error_line(error), "error"))

    def _ready(self) -> OpenModel:
        if not self._model:
            raise EdgeLLMError("no model is open: choose one with /model")
        return self._model


def _failed(name: str, error: Exception, kept: bool = False) -> ModelFailed:
    return ModelFailed(name, error_line(error), kept, to_set=isinstance(error, NoTemplateError))


def error_line(error: Exception) -> str:
    """An error in one line: ours say what to do; of others, which kind it was."""
    if isinstance(error, PromptError):
        return error.message_with(_WORDS)
    if isinstance(error, EdgeLLMError):
        return str(error)
    logging.getLogger(__name__).error("unexpected", exc_info=error)
    if explanation := explain_error(error):
        return explanation
    return f"something unexpected went wrong ({type(error).__name__}: {' '.join(str(error).split())}); see the log"
