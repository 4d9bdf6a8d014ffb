"""Evaluates a model on the cases of a suite."""

import warnings
from collections.abc import Iterator, Sequence

from edgellm.errors import EdgeLLMError, EdgeLLMWarning
from edgellm.evaluation.cases import Case
from edgellm.evaluation.replies import EvalSettings, Respondent
from edgellm.evaluation.scoring import scores_of
from edgellm.evaluation.summary import CaseResult
from edgellm.fmt import counted
from edgellm.model import Model


def evaluate(model: Model, cases: Sequence[Case], settings: EvalSettings | None = None) -> Iterator[CaseResult]:
    """The result of each case, as soon as it is known.

    If the chat template shows no calls, cases with tools are left out, with an EdgeLLMWarning. Raises EdgeLLMError if
    the model has no chat template, if no case is left, and for a prompt that does not fit the context.
    """
    respondent = Respondent(model, settings or EvalSettings())
    for case in _possible(respondent, cases):
        reply, unguided = respondent.replies(case)
        replies = {"reply": reply.as_json()} | ({"unguided": unguided.as_json()} if unguided else {})
        yield CaseResult.of(case, scores_of(case, reply, unguided), replies)


def _possible(respondent: Respondent, cases: Sequence[Case]) -> Sequence[Case]:
    possible = [case for case in cases if respondent.can_call or case.kind != "calls"]
    if len(possible) < len(cases):
        left_out = counted(len(cases) - len(possible), "case")
        problem = f"the chat template of {respondent.name} does not show how the model calls tools"
        if not possible:
            raise EdgeLLMError(f"{problem}, which all cases need: choose another template as --template NAME|FILE")
        warnings.warn(f"{problem}: {left_out} with tools left out", EdgeLLMWarning, stacklevel=3)
    return possible
