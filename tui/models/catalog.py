"""The models to list, found by a thread, so that a slow disk does not block the screen."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from threading import Lock, Thread
from typing import TYPE_CHECKING

from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path, size
from tui.core.error_text import error_line
from tui.models.row import ModelRow, fit

if TYPE_CHECKING:
    from edgellm.models import LocalModel
    from edgellm.perf.plan import Plan

_HUB = "Hugging Face"
_NO_TEMPLATE = "has no chat template and may be no chat model"


class ModelCatalog:
    """The `rows` that `find` has found so far; all of them once it is `complete`.

    `on_change` is called in its thread when they change.

    The thread is a daemon: a file on a network may never answer.
    """

    def __init__(self, on_change: Callable[[], object], find: Callable[[], Iterable[ModelRow]]) -> None:
        self._on_change, self._find = on_change, find
        self._one_at_a_time = Lock()
        self.rows: tuple[ModelRow, ...] = ()
        self.complete = False

    def read(self) -> None:
        """Start reading. From the second time on, the old rows stay until all new ones are known."""
        Thread(target=self._read, name="models", daemon=True).start()

    def _read(self) -> None:
        with self._one_at_a_time:
            rows: list[ModelRow] = []
            for row in self._find():
                rows.append(row)
                if not self.complete:
                    self.rows = tuple(rows)
                    self._on_change()
            self.rows, self.complete = tuple(rows), True
        self._on_change()


def all_rows() -> Iterator[ModelRow]:
    """The models of this machine, and those to pull; those to pull come first, since they are known at once."""
    try:
        yield from offered_rows()
        yield from local_rows()
    except Exception as error:  # rows known by then can still be chosen
        yield ModelRow("other models", "", problem=error_line(error))


def local_rows() -> Iterator[ModelRow]:
    """The models on this machine, each with its memory plan, or the reason why it cannot be opened."""
    from edgellm.models import each_model
    from edgellm.models.pull_records import unfinished_pulls

    coming = {str(pull.folder.absolute()) for pull in unfinished_pulls() if pull.weights}
    for found in each_model():
        if found.path not in coming and not found.is_auxiliary:
            yield _planned(found)


def offered_rows() -> Iterator[ModelRow]:
    """Unfinished pulls, then the suggested models that are not on this machine."""
    from edgellm.hub.suggestions import SUGGESTIONS, fits
    from edgellm.models.pull_records import pulled_repositories, unfinished_pulls
    from edgellm.system.machine import available_memory

    free = available_memory()
    coming = [pull for pull in unfinished_pulls() if pull.weights]
    for pull in coming:
        note = f"{pull.present_bytes / max(1, pull.total):.0%} is here: Enter resumes it"
        yield _offer(pull.reference, pull.total, fits(pull.total, free), note)
    known = {pull.repository for pull in chain(coming, pulled_repositories())}
    for suggestion in SUGGESTIONS:
        if suggestion.reference not in known:
            yield _offer(suggestion.reference, suggestion.bytes, suggestion.fits(free), suggestion.good_at)


def _offer(reference: str, nbytes: int, fits: bool, note: str) -> ModelRow:
    return ModelRow(reference, _HUB, bytes=nbytes, fit="fits" if fits else "too large", note=note, offered=True)


def _planned(found: "LocalModel") -> ModelRow:
    from edgellm.gguf import GGUFFile
    from edgellm.options import LoadOptions
    from edgellm.perf.plan import make_plan

    quantization = found.quantization or ""
    known = ModelRow(found.name, found.source, None, quantization, found.bytes, found.context_length)
    if found.problem:
        return replace(known, problem=found.problem)
    try:
        with GGUFFile.open(found.path) as file:
            parameters = sum(tensor.size for tensor in file.tensors.values())
            chats = file.get_str("tokenizer.chat_template", None) is not None
            plan = make_plan(file, LoadOptions())
    except EdgeLLMError as error:
        return replace(known, problem=str(error).removeprefix(f"{shown_path(found.path)}: "))
    except Exception as error:  # an unexpected kind of damage is one bad row, not the end of the list
        return replace(known, problem=error_line(error))
    note = _note(plan) if chats else f"{_NO_TEMPLATE}; {_note(plan)}"
    return replace(known, parameters=parameters, fit=fit(plan), note=note, chats=chats)


def _note(plan: "Plan") -> str:
    needed = plan.needed(plan.ctx)
    most = f", up to {size(plan.total)} with checkpoints" if needed < plan.total else ""
    takes = f"takes {size(needed)} with all {plan.ctx:,} tokens of its context{most}; {size(plan.available)} are free"
    if fit(plan) == "too large":
        return f"{takes}: it would run at the speed of the disk"
    if plan.total <= plan.available:
        return takes
    if needed <= plan.available:
        return f"{takes}: set a smaller kv_memory for fewer checkpoints"
    return f"{takes}: set a smaller ctx for long conversations"
