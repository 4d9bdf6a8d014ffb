"""Evaluation of a model on a suite of cases, with standard errors, and differences paired by case.

    from edgellm.evaluation import TOOLS_SUITE, evaluate, read_suite, score_rows
    cases = read_suite(TOOLS_SUITE.read_text(encoding="utf-8"), "tools")
    with Model.open("model.gguf") as model:
        for row in score_rows(list(evaluate(model, cases))):
            print(row.name, row.score.value, row.score.error)

cases           a case, the kinds of expectations and their scores
suite_file      suites in files, with `case_reader` for one case; tools.json is the suite of tools
long_contexts   suites that are made from a seed: a fact in a long text, a list to copy
replies         asks the model, with a guide and without one
scoring         scores of a reply
evaluate        goes through the cases
summary         means, standard errors, paired differences
earlier         results of an earlier evaluation
"""

from edgellm.evaluation.cases import Case, spread
from edgellm.evaluation.earlier import read_results
from edgellm.evaluation.evaluate import answerable, evaluate
from edgellm.evaluation.long_contexts import copy_cases, needle_cases
from edgellm.evaluation.replies import EvalSettings
from edgellm.evaluation.suite_file import TOOLS_SUITE, read_suite
from edgellm.evaluation.summary import CaseResult, Mean, Row, group_rows, score_rows

__all__ = [
    "TOOLS_SUITE",
    "Case",
    "CaseResult",
    "EvalSettings",
    "Mean",
    "Row",
    "answerable",
    "copy_cases",
    "evaluate",
    "group_rows",
    "needle_cases",
    "read_results",
    "read_suite",
    "score_rows",
    "spread",
]
