"""Means of scores over cases, their standard errors, and differences of two models paired by case."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgellm.evaluation.cases import OVERALL, Case
from edgellm.evaluation.scoring import Scores


@dataclass(frozen=True)
class CaseResult:
    """The scores of a case, by name; `replies` are those of the model, as JSON."""

    id: str
    digest: str
    groups: tuple[str, ...]
    scores: Scores
    replies: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        """The same for the same case."""
        return self.id, self.digest

    @classmethod
    def of(cls, case: Case, scores: Scores, replies: Mapping[str, Any]) -> "CaseResult":
        """The result of a case."""
        return cls(case.id, case.digest, case.groups, scores, replies)

    def as_json(self) -> dict[str, Any]:
        """The result for JSON output; `edgellm.evaluation.earlier` reads it."""
        return {"id": self.id, "digest": self.digest, "scores": self.scores, "replies": self.replies}


@dataclass(frozen=True)
class Mean:
    """The mean of a score over `cases` cases. `error` is its standard error, None for a single case."""

    value: float
    error: float | None
    cases: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean | None":
        """The mean; None for no values. The error is the standard deviation of the sample divided by √n."""
        if not (n := len(values)):
            return None
        mean = math.fsum(values) / n
        if n == 1:
            return cls(mean, None, n)
        variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
        return cls(mean, math.sqrt(variance / n), n)


@dataclass(frozen=True)
class Row:
    """A score of a model, and of a reference on the same cases.

    `difference` is that of the two, over the cases for which both have the score.
    """

    name: str
    score: Mean
    reference: Mean | None = None
    difference: Mean | None = None

    def as_json(self) -> dict[str, Any]:
        """The figures for JSON output."""
        figures = {"score": self.score, "reference": self.reference, "difference": self.difference}
        return {name: asdict(each) for name, each in figures.items() if each}


def score_rows(results: Sequence[CaseResult], reference: Sequence[CaseResult] | None = None) -> list[Row]:
    """A row for each score, the overall one first."""
    names = dict.fromkeys([OVERALL, *(name for result in results for name in result.scores)])
    rows = (_row(name, name, results, reference) for name in names)
    return [row for row in rows if row]


def group_rows(results: Sequence[CaseResult], reference: Sequence[CaseResult] | None = None) -> list[Row]:
    """A row of the overall score for each group."""
    names = dict.fromkeys(group for result in results for group in result.groups)
    rows = (_row(name, OVERALL, [each for each in results if name in each.groups], reference) for name in names)
    return [row for row in rows if row]


def _row(name: str, score: str, results: Sequence[CaseResult], reference: Sequence[CaseResult] | None) -> Row | None:
    values = _values(score, results)
    mean = Mean.of([*values.values()])
    if mean is None or reference is None:
        return Row(name, mean) if mean else None
    asked = {each.key for each in results}
    others = {key: value for key, value in _values(score, reference).items() if key in asked}
    differences = [value - others[key] for key, value in values.items() if key in others]
    return Row(name, mean, Mean.of([*others.values()]), Mean.of(differences))


def _values(score: str, results: Sequence[CaseResult]) -> dict[tuple[str, str], float]:
    return {each.key: each.scores[score] for each in results if score in each.scores}
