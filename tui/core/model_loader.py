"""Opens and closes the model of the chat, in the worker's thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tui.core.backend import NoTemplateError, SeveralModelsError
from tui.core.error_text import error_line
from tui.core.events import ModelFailed, ModelOpened, Notice

if TYPE_CHECKING:
    from tui.core.backend import Backend, OpenModel, Options
    from tui.core.events import Emit, Event


class _SupersededError(Exception):
    """Another model was requested meanwhile, or the program ends."""


class ModelLoader:
    """Holds at most one open model.

    `name` and `progress` describe the model that is open or being opened. `is_loading` is true while a model is
    checked or opened. Only `request` and `close` may be called from other threads; all attributes may be read there.
    """

    def __init__(self, backend: Backend, emit: Emit, on_release: Callable[[], None]) -> None:
        self._backend, self._emit, self._on_release = backend, emit, on_release
        self.model: OpenModel | None = None
        self.name = self.progress = ""
        self.is_loading = self.is_closing = False
        self._requested = self._started = 0

    def request(self) -> int:
        """Register that another model is wanted, which ends the opening of any earlier one. Returns its number."""
        self._requested += 1
        return self._requested

    @property
    def is_pending(self) -> bool:
        """Whether a model was requested that `open` has not begun with."""
        return self._started != self._requested and not self.is_closing

    @property
    def is_empty(self) -> bool:
        """Whether no model is open, being opened, or requested."""
        return self.model is None and not self.is_loading and self._started == self._requested

    def open(self, name: str, options: Options, number: int) -> None:
        """Open the model of request `number`, unless it was superseded. Emits ModelOpened or ModelFailed.

        A model that fails its check leaves the one before open.
        """
        if self._is_superseded(number):
            return
        self.is_loading = True
        self._started = number
        try:
            event = self._replace(name, options, number)
        finally:
            self.is_loading = False
        if event:
            self._emit(event)

    def _replace(self, name: str, options: Options, number: int) -> Event | None:
        if self.model and (error := self._check(name, options)):
            return _failed(name, error, previous_open=True)
        self.release()
        self.name = self._backend.title(name)

        def report(progress: str) -> None:
            if self._is_superseded(number):
                raise _SupersededError
            self.progress = progress

        try:
            report("")
            self.model = model = self._backend.open(name, options, report)
        except _SupersededError:
            return None
        except Exception as error:
            return _failed(name, error)
        self.name = model.name
        return ModelOpened(
            model.name,
            model.ctx,
            model.thinking,
            model.defaults,
            name,
            model.path,
            model.effort,
            model.calls,
            model.counts,
            model.continues,
        )

    def _is_superseded(self, number: int) -> bool:
        return self.is_closing or number != self._requested

    def _check(self, name: str, options: Options) -> Exception | None:
        """The error that would keep a model from opening, as far as a quick check finds it."""
        try:
            self._backend.check(name, options)
        except Exception as error:
            return error
        return None

    def release(self) -> None:
        """Close the open model, if there is one."""
        model, self.model = self.model, None
        self._on_release()
        try:
            if model:
                model.close()
        except Exception as error:
            self._emit(Notice(error_line(error), "error"))

    def close(self) -> None:
        """Open no further model."""
        self.is_closing = True


def _failed(name: str, error: Exception, previous_open: bool = False) -> ModelFailed:
    needs = isinstance(error, NoTemplateError), isinstance(error, SeveralModelsError)
    return ModelFailed(name, error_line(error), previous_open, *needs)
