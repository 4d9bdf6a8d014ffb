"""The table of `edgellm eval`: a row for each score and each group, with standard errors after ±."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgellm.fmt import table
from edgellm.terminal.streams import plus_minus

if TYPE_CHECKING:
    from edgellm.evaluation import Mean, Row


def report(scores: "Sequence[Row]", groups: "Sequence[Row]", compared: bool) -> Iterator[str]:
    """The lines of the tables of scores, and of the overall score by group."""
    yield from _table("score", scores, compared)
    if groups:
        yield ""
        yield from _table("overall in", groups, compared)


def _table(title: str, rows: "Sequence[Row]", compared: bool) -> Iterator[str]:
    head = (title, "mean", "cases", *(("reference", "difference", "pairs") if compared else ()))
    return table(head, (_cells(row, compared) for row in rows))


def _cells(row: "Row", compared: bool) -> tuple[str, ...]:
    cells = row.name, _shown(row.score), f"{row.score.cases:,}"
    if not compared:
        return cells
    pairs = row.difference.cases if row.difference else 0
    return (*cells, _shown(row.reference), _shown(row.difference, "+"), f"{pairs:,}")


def _shown(mean: "Mean | None", sign: str = "") -> str:
    """A mean and its standard error, which one case has none of."""
    if mean is None:
        return "-"
    return f"{mean.value:{sign}.3f}" + ("" if mean.error is None else f" {plus_minus()} {mean.error:.3f}")
