"""A run of `edgellm eval`: its cases, its results so far, and what is shown of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from edgellm.cli.eval_options import Limits, check_limits, failures, made_cases, read_cases
from edgellm.cli.eval_report import report
from edgellm.cli.progress import ProgressLine, show_warnings
from edgellm.cli.text_file import read_text, time_left
from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path

if TYPE_CHECKING:
    from edgellm.evaluation import Case, CaseResult, EvalSettings, Row
    from edgellm.model import Model

_RESULTS = ".json"
"""The end of the name of a file of earlier results, which `--against` takes beside models."""


@dataclass
class EvalRun:
    """An evaluation, with its results so far."""

    model: str
    suite: str
    against: str | None
    settings: "EvalSettings"
    load: dict[str, Any]
    lengths: list[int] | None
    limit: int | None
    limits: Limits
    cases: "list[Case]" = field(default_factory=list)
    results: "list[CaseResult]" = field(default_factory=list)
    reference: "list[CaseResult]" = field(default_factory=list)

    def code(self, as_json: bool) -> int:
        """Evaluate, and show the scores. Returns the exit code; raises EdgeLLMError for one below its limit."""
        interrupted = False
        try:
            with show_warnings(), ProgressLine() as progress:
                self._evaluate(progress)
        except KeyboardInterrupt:
            interrupted = True
        finally:  # an error, too, leaves the scores so far: replies may have taken hours
            if self.results:
                self._show(as_json)
        if interrupted:
            click.echo(f"edgellm: note: interrupted after {self._done}", err=True)
            return 130
        self._check()
        return 0

    @property
    def _done(self) -> str:
        of = f"of {len(self.cases):,} cases" if self.cases else "cases"
        return f"{len(self.results):,} {of}" + (f", {len(self.reference):,} of the reference" if self.against else "")

    def _evaluate(self, progress: ProgressLine) -> None:
        from edgellm.evaluation import answerable, read_results, spread
        from edgellm.models import resolve

        path, cases = resolve(self.model), read_cases(self.suite)
        earlier = read_text(self.against) if self.against and self.against.lower().endswith(_RESULTS) else None
        reference = resolve(self.against) if self.against and earlier is None else None
        if cases is not None:
            check_limits(self.limits, cases)  # before a model of gigabytes is opened
        if reference:
            self._check_file(reference)  # it is opened when the other model is done, which may take hours
        with self._opened(path, progress) as model:
            if cases is None:
                cases = made_cases(self.suite, model, self.lengths, self.settings.seed)
                check_limits(self.limits, cases)
            self.cases = spread(answerable(model, cases, self.settings), self.limit)
            if earlier is not None:
                self.reference = read_results(earlier, self.against or "", self.cases)
            self._ask(model, self.results, "", progress)
        if reference:
            with self._opened(reference, progress) as model:
                self._ask(model, self.reference, "reference: ", progress)

    def _check_file(self, path: Path) -> None:
        """Raises EdgeLLMError for a file that is no model, or one without what an evaluation needs."""
        from edgellm.arch import describe
        from edgellm.evaluation.replies import check_template
        from edgellm.gguf import GGUFFile
        from edgellm.text.tokenizer import Tokenizer

        with GGUFFile.open(path) as file:
            if self.load["engine"] != "llama.cpp":
                describe(file)
            tokenizer = Tokenizer(file, self.load["tokenizer_pre"])
        check_template(shown_path(path), tokenizer, self.settings)

    def _opened(self, path: Path, progress: ProgressLine) -> "Model":
        from edgellm.model import Model  # imports numpy; wrong options are reported before

        return Model.open(path, progress=progress.compiling, uploading=progress.uploading, **self.load)

    def _ask(self, model: "Model", results: "list[CaseResult]", which: str, progress: ProgressLine) -> None:
        from edgellm.evaluation import evaluate

        start = monotonic()
        progress.working(f"{which}the first of {len(self.cases):,} cases")
        for result in evaluate(model, self.cases, self.settings):
            results.append(result)
            left = time_left(monotonic() - start, len(results), len(self.cases))
            mean = sum(each.scores["overall"] for each in results) / len(results)
            progress.working(f"{which}{len(results):,} of {len(self.cases):,} cases, overall {mean:.3f}, {left}")

    def _rows(self) -> "tuple[Sequence[Row], Sequence[Row]]":
        from edgellm.evaluation import group_rows, score_rows

        reference = self.reference if self.against else None
        return score_rows(self.results, reference), group_rows(self.results, reference)

    def _show(self, as_json: bool) -> None:
        scores, groups = self._rows()
        if as_json:
            click.echo(json.dumps(self._as_json(scores=scores, groups=groups), indent=2))
        else:
            click.echo("\n".join(report(scores, groups, bool(self.against))))

    def _as_json(self, **rows: "Sequence[Row]") -> dict[str, Any]:
        counts = {"seed": self.settings.seed, "cases": len(self.results), "of": len(self.cases)}
        return {
            "model": self.model,
            "suite": self.suite,
            "against": self.against,
            **counts,
            **{name: {row.name: row.as_json() for row in each} for name, each in rows.items()},
            "results": [each.as_json() for each in self.results],
        }

    def _check(self) -> None:
        """Raise EdgeLLMError, in one line, for scores below their limits."""
        if below := failures(self.limits, self._rows()[0]):
            raise EdgeLLMError(f"{'; '.join(below)} (--fail-below)")
