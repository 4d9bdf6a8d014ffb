"""The results of an earlier evaluation, from its JSON output."""

import json
import math
from collections.abc import Sequence
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.evaluation.cases import Case
from edgellm.evaluation.summary import CaseResult
from edgellm.fmt import shown_path


def read_results(text: str, name: str, cases: Sequence[Case]) -> list[CaseResult]:
    """The results of those of `cases` that the output has; `name` is that of its file.

    Raises EdgeLLMError if it is no output of `edgellm eval --json`, or if it has none of the cases.
    """
    shown = shown_path(name)
    try:
        results = [_result(each) for each in json.loads(text)["results"]]
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise EdgeLLMError(f"{shown}: is no output of edgellm eval --json; give one, or a model") from None
    wanted = {(case.id, case.digest) for case in cases}
    found = [each for each in results if each.key in wanted]
    if not found:
        raise EdgeLLMError(f"{shown}: has none of these cases; give results of the same suite, --seed and --lengths")
    return found


def _result(entry: Any) -> CaseResult:
    scores = {name: float(value) for name, value in entry["scores"].items() if math.isfinite(value)}
    return CaseResult(str(entry["id"]), str(entry["digest"]), (), scores, {})
