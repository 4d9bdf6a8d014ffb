"""From the settings of a batch to its output."""

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from edgellm.batch.answers import BatchAnswer, Generate, make_answer
from edgellm.batch.at_once import RequestRunner, answer_all, at_once_of, open_model
from edgellm.batch.figures import Figures
from edgellm.batch.fingerprint import fingerprint_of
from edgellm.batch.input_file import STDIN, InputFile
from edgellm.batch.job import Job, read_job
from edgellm.batch.journal import Journal
from edgellm.batch.output_file import failures_of, temporary_of, write_output
from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path
from edgellm.models import resolve
from edgellm.server.catalog import served_name
from edgellm.system.file_lock import file_lock

_SAME_BYTES = ("threads", "kv_memory")
"""Options of `Model.open` that change no answer."""

_DRAFTS = ("draft", "draft_max", "draft_rule")
"""Options of it that change none either, unless drafts are accepted by the rule `rejection`."""


@dataclass(frozen=True)
class BatchSettings:
    """Settings of a batch: MODEL, the input (a file or `-`) and the path of the output.

    `load` are options of `Model.open`. `parallel` is the number of requests at once, None for the one that pays.
    `restart`: answers of earlier runs are dropped. `ray` is the address of a cluster, or `local`.
    """

    model: str
    source: str
    out: Path
    load: Mapping[str, Any]
    parallel: int | None = None
    restart: bool = False
    ray: str | None = None

    @property
    def journal(self) -> Path:
        """The path of the journal."""
        return self.out.with_name(f"{self.out.name}.partial")

    @property
    def lock(self) -> Path:
        """The path of the lock that keeps a second run away."""
        return self.out.with_name(f"{self.out.name}.lock")


class Progress(Protocol):
    """What is told of a run."""

    def compiling(self, done: int, total: int) -> None:
        """Kernels are compiled."""

    def uploading(self, done: int, total: int) -> None:
        """Weights are copied to a GPU."""

    def note(self, text: str) -> None:
        """Something to know, which is no error."""

    def advanced(self, figures: Figures) -> None:
        """Called at each answer, and otherwise several times a second."""


def run(settings: BatchSettings, figures: Figures, progress: Progress) -> None:
    """Answer all requests, or those that an earlier run left, and write the output. `figures` are kept up to date.

    Raises EdgeLLMError, ModelFileError and OptionError.
    """
    if settings.ray is not None:
        from edgellm.batch.cluster import check_address

        check_address(settings.ray)
    name = shown_path(settings.out)
    _check_names(settings)
    busy = f"{name}: another `edgellm batch` writes this output now; wait for it, or give another -o"
    with InputFile(settings.source) as source, file_lock(settings.lock, busy):
        path = resolve(settings.model)
        job = read_job(source, served_name(settings.model, path), _facts(path, settings.load))
        figures.total = len(job)
        for note in job.notes:
            progress.note(note)
        if settings.restart:
            settings.journal.unlink(missing_ok=True)
        elif settings.out.exists() and not settings.journal.exists():
            if (failed := failures_of(settings.out, job)) is None:
                problem = "exists, and is not the output of this input, model and options"
                raise EdgeLLMError(f"{name}: {problem}; give another -o, or replace it with --restart")
            figures.kept, figures.failed = len(job), failed
            return
        _complete(job, path, settings, figures, progress)


def _check_names(settings: BatchSettings) -> None:
    """Raises EdgeLLMError if the input has the name of a file that a run writes and removes."""
    source = Path(settings.source)
    if settings.source == STDIN or not source.exists():
        return
    for own in (settings.journal, settings.lock, temporary_of(settings.out)):
        if own.exists() and own.samefile(source):
            name = shown_path(own)
            raise EdgeLLMError(f"{name}: is read by this command, and is beside the output; give another -o")


def _facts(path: Path, load: Mapping[str, Any]) -> dict[str, str]:
    """What the answers depend on, beside the requests."""
    same = _SAME_BYTES if load.get("draft_rule") == "rejection" else _SAME_BYTES + _DRAFTS
    options = {name: value for name, value in sorted(load.items()) if name not in same}
    return {"model": fingerprint_of(path), "options": sha256(repr(options).encode()).hexdigest()}


def _complete(job: Job, path: Path, settings: BatchSettings, figures: Figures, progress: Progress) -> None:
    with Journal(settings.journal, job.facts) as journal:
        figures.kept = len(journal.entries)
        figures.failed = sum(entry.status != 200 for entry in journal.entries.values())
        if pending := job.order(journal.entries):
            with closing(_answers(job, pending, path, settings, figures, progress)) as answers:
                for answer in answers:
                    journal.append(answer.index, answer.status, answer.content)
                    figures.add(answer)
        write_output(settings.out, journal.answers())
        journal.remove()


def _answers(
    job: Job, pending: list[int], path: Path, settings: BatchSettings, figures: Figures, progress: Progress
) -> Generator[BatchAnswer, None, None]:
    """The answers to requests, as they come."""
    if settings.ray is not None:
        from edgellm.batch.cluster import answers_of_cluster
        from edgellm.batch.worker import WorkerSettings

        worker = WorkerSettings(str(path.resolve()), job.facts["model"], job.model, settings.load, settings.parallel)
        yield from answers_of_cluster(job, pending, worker, settings.ray)
        return

    def answering(index: int, generate: Generate) -> BatchAnswer:
        return make_answer(index, job.request(index), job.answer_id(index), job.model, generate)

    with open_model(path, settings.load, progress=progress.compiling, uploading=progress.uploading) as model:
        at_once = settings.parallel or at_once_of(model)
        runner = RequestRunner(model)
        figures.began = monotonic()
        progress.advanced(figures)
        with closing(answer_all(pending, answering, runner, at_once)) as answers:
            for answer in answers:
                if answer:
                    yield answer
                figures.running_tokens = runner.tokens - figures.generated_tokens
                progress.advanced(figures)
