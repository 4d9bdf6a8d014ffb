"""Means, standard errors and paired differences, by hand."""

import math

import pytest

from edgellm import EdgeLLMError
from edgellm.evaluation import CaseResult, Mean, group_rows, read_results, score_rows
from edgellm.evaluation.cases import Case, spread


def result(name: str, *groups: str, digest: str = "d", **scores: float) -> CaseResult:
    return CaseResult(name, digest, groups, scores, {})


def test_a_mean_and_its_standard_error() -> None:
    # The squared distances from 0.75 are 3 · 1/16 + 9/16 = 3/4; 3/4 / 3 = 1/4 is the variance; √(1/4 / 4) = 1/4.
    assert Mean.of([1, 1, 0, 1]) == Mean(0.75, 0.25, 4)
    assert Mean.of([0.5, 0.5]) == Mean(0.5, 0, 2)
    assert Mean.of([1]) == Mean(1, None, 1)
    assert Mean.of([]) is None


def test_rows_have_the_cases_that_have_the_score() -> None:
    rows = score_rows([result("a", overall=1, exact=1), result("b", overall=0), result("c", overall=0)])
    assert [(row.name, row.score) for row in rows] == [
        ("overall", Mean(pytest.approx(1 / 3), pytest.approx(1 / 3), 3)),
        ("exact", Mean(1, None, 1)),
    ]
    assert [row.as_json().keys() for row in rows] == [{"score"}, {"score"}]


def test_groups_have_the_overall_score() -> None:
    rows = group_rows([result("a", "x", overall=1), result("b", "x", "y", overall=0), result("c", overall=1)])
    assert [(row.name, row.score.value, row.score.cases) for row in rows] == [("x", 0.5, 2), ("y", 0, 1)]


def test_a_difference_is_paired_by_case() -> None:
    """Both models vary from case to case; their difference is the same in each, so its error is 0."""
    ours = [result("a", overall=0.5), result("b", overall=1), result("c", overall=0.75)]
    theirs = [result("c", overall=0.5), result("a", overall=0.25), result("b", overall=0.75)]
    (row,) = score_rows(ours, theirs)
    assert row.score == Mean(0.75, pytest.approx(0.25 / math.sqrt(3)), 3)
    assert row.reference == Mean(0.5, pytest.approx(0.25 / math.sqrt(3)), 3)
    assert row.difference == Mean(0.25, 0, 3)
    assert row.as_json()["difference"] == {"value": 0.25, "error": 0, "cases": 3}


def test_a_difference_with_an_error() -> None:
    # Differences 1, 0, 0, -1, 1: mean 1/5, squared distances 0.64 · 2 + 0.04 · 2 + 1.44 = 2.8, 2.8 / 4 = 0.7.
    ours = [result(str(i), overall=value) for i, value in enumerate((1, 1, 0, 0, 1))]
    theirs = [result(str(i), overall=value) for i, value in enumerate((0, 1, 0, 1, 0))]
    (row,) = score_rows(ours, theirs)
    assert row.difference == Mean(pytest.approx(0.2), pytest.approx(math.sqrt(0.7 / 5)), 5)


def test_only_the_same_cases_are_compared() -> None:
    ours = [result("a", "x", overall=1, valid=1), result("b", overall=0)]
    theirs = [result("a", overall=0), result("b", overall=1, digest="other"), result("z", overall=1)]
    overall, valid = score_rows(ours, theirs)
    assert (overall.score.cases, overall.reference, overall.difference) == (2, Mean(0, None, 1), Mean(1, None, 1))
    assert (valid.score.cases, valid.reference, valid.difference) == (1, None, None)
    assert [(row.name, row.difference) for row in group_rows(ours, theirs)] == [("x", Mean(1, None, 1))]


def test_a_limit_takes_cases_from_the_whole_suite() -> None:
    cases = [Case(str(i), [], "contains", "x") for i in range(10)]
    assert [case.id for case in spread(cases, 4)] == ["0", "2", "5", "7"]
    assert spread(cases, None) == spread(cases, 10) == spread(cases, 99) == cases


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "{}", '{"results": 1}', '{"results": [1]}', '{"results": [{"id": "a"}]}', "[" * 100_000,
        '{"results": [{"id": "a", "digest": "b", "scores": []}]}',
        '{"results": [{"id": "a", "digest": "b", "scores": {"overall": "1"}}]}',
        '{"results": [{"id": "a", "digest": "b", "scores": {"overall": 1' + "0" * 400 + "}}]}",
    ],
)  # fmt: skip
def test_a_file_that_has_no_results(text: str) -> None:
    with pytest.raises(EdgeLLMError, match=r"^old\.json: is no output of edgellm eval --json; give one, or a model$"):
        read_results(text, "old.json", [])


def test_results_of_other_cases() -> None:
    case = Case("a", [{"role": "user", "content": "?"}], "contains", "x")
    text = '{"results": [{"id": "a", "digest": "%s", "scores": {"overall": 1}}]}'
    assert read_results(text % case.digest, "old.json", [case]) == [result("a", digest=case.digest, overall=1)]
    with pytest.raises(EdgeLLMError, match=r"^old\.json: has none of these cases; give results of the same suite"):
        read_results(text % "0", "old.json", [case])


def test_a_digest_depends_on_all_that_a_score_depends_on() -> None:
    message = {"role": "user", "content": "?"}
    cases = [
        Case("a", [message], "contains", "x"),
        Case("a", [message], "equals", "x"),
        Case("a", [message], "contains", "y"),
        Case("a", [message, message], "contains", "x"),
        Case("a", [message], "contains", "x", json_schema={"type": "null"}),
        Case("a", [message], "contains", "x", extra_tokens=1),
    ]
    assert len({case.digest for case in cases}) == len(cases)
    assert Case("b", [message], "contains", "x", groups=("g",)).digest == cases[0].digest
