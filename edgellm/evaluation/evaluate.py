"""Evaluates a model on the cases of a suite."""

import warnings
from collections.abc import Iterator, Sequence

from edgellm.errors import EdgeLLMError, EdgeLLMWarning
from edgellm.evaluation.cases import Case
from edgellm.evaluation.replies import EvalSettings, Respondent, check_template, tool_source
from edgellm.evaluation.scoring import scores_of
from edgellm.evaluation.summary import CaseResult
from edgellm.fmt import counted, shown_path
from edgellm.model import Model
from edgellm.text.template import template_title
from edgellm.tools.formats import call_format
from edgellm.tools.use import shows_no_calls


def evaluate(model: Model, cases: Sequence[Case], settings: EvalSettings | None = None) -> Iterator[CaseResult]:
    """The result of each case, as soon as it is known, without those that `answerable` leaves out.

    Raises EdgeLLMError if the model has no chat template, if no case is left, and, naming the case, for a prompt that
    does not fit the context.
    """
    chosen = settings or EvalSettings()
    possible = answerable(model, cases, chosen)
    respondent = Respondent(model, chosen)
    for case in possible:
        reply, unguided = respondent.replies(case)
        replies = {"reply": reply.as_json()} | ({"unguided": unguided.as_json()} if unguided else {})
        yield CaseResult.of(case, scores_of(case, reply, unguided), replies)


def answerable(model: Model, cases: Sequence[Case], settings: EvalSettings) -> list[Case]:
    """The cases; without those with tools, and with an EdgeLLMWarning, if the chat template shows no calls.

    Raises EdgeLLMError if none is left, and if the model has no chat template.
    """
    name = shown_path(model.file.path)
    check_template(name, model.tokenizer, settings)
    can_call = call_format(tool_source(model.tokenizer, settings)) is not None
    found = [case for case in cases if can_call or case.kind != "calls"]
    if len(found) < len(cases):
        left_out = counted(len(cases) - len(found), "case")
        title = template_title(settings.template, name)
        if not found:
            raise EdgeLLMError(f"{shows_no_calls(title)}, or choose another suite: all cases of this one have tools")
        problem = f"{title} does not show how the model calls tools: {left_out} with tools left out"
        warnings.warn(problem, EdgeLLMWarning, stacklevel=2)
    return found
