"""Scores of replies: how far each is what its case expects."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgellm.evaluation.cases import OVERALL, UNGUIDED, Case
from edgellm.guides.schema.json_check import conforms
from edgellm.guides.schema.json_equality import json_of, same
from edgellm.tools.calls import BrokenCall, ToolCall
from edgellm.tools.schemas import guided_parameters


@dataclass(frozen=True)
class Reply:
    """A reply: its text behind what the model thinks, without calls of tools, and these."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    broken: tuple[BrokenCall, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The reply for JSON output, without what is empty."""
        calls = [{"name": call.name, "arguments": dict(call.arguments)} for call in self.calls]
        broken = [{"text": call.text, "problem": call.problem} for call in self.broken]
        return {"text": self.text} | ({"calls": calls} if calls else {}) | ({"broken": broken} if broken else {})


Scores = dict[str, float]


def scores_of(case: Case, reply: Reply, unguided: Reply | None = None) -> Scores:
    """The scores of a case, from 0 to 1 each; those of the reply without a guide end in `UNGUIDED`."""
    scores = _SCORERS[case.kind](case, reply)
    if unguided is not None:
        free = _SCORERS[case.kind](case, unguided)
        scores |= {name + UNGUIDED: value for name, value in free.items() if name != OVERALL}
    return scores


def _score_calls(case: Case, reply: Reply) -> Scores:
    """Of replies without any call there is no `calls_valid`, of cases that need none no `arguments_right`."""
    wanted, names = Counter(call["name"] for call in case.expected), Counter(call.name for call in reply.calls)
    valid = not reply.broken and all(_is_valid(case, call) for call in reply.calls)
    scores = {"tool_right": float(names == wanted and not reply.broken)}
    if reply.calls or reply.broken:
        scores["calls_valid"] = float(valid)
    if case.expected:
        scores["arguments_right"] = float(valid and _are_expected(case.expected, reply.calls))
    return {OVERALL: scores.get("arguments_right", scores["tool_right"]), **scores}


def _is_valid(case: Case, call: ToolCall) -> bool:
    return conforms(dict(call.arguments), guided_parameters(case.tools[call.name]))


def _are_expected(expected: Sequence[Mapping[str, Any]], calls: Sequence[ToolCall]) -> bool:
    """Whether the calls are those that are expected, in any order."""
    left = list(calls)
    for each in expected:
        found = next((call for call in left if _is_expected(each, call)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def _is_expected(expected: Mapping[str, Any], call: ToolCall) -> bool:
    arguments, allowed = expected.get("arguments", {}), expected.get("allow", {})
    if call.name != expected["name"] or not arguments.keys() <= call.arguments.keys():
        return False
    return all(
        any(same(_folded(value), _folded(each)) for each in [*_listed(arguments, name), *allowed.get(name, [])])
        for name, value in call.arguments.items()
    )


def _listed(arguments: Mapping[str, Any], name: str) -> list[Any]:
    return [arguments[name]] if name in arguments else []


def _folded(value: Any) -> Any:
    """A value whose texts are compared: upper or lower case and white space around them make no difference."""
    if isinstance(value, Mapping):
        return {key: _folded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_folded(each) for each in value]
    return value.strip().casefold() if isinstance(value, str) else value


def _score_json(case: Case, reply: Reply) -> Scores:
    try:
        value = json_of(reply.text.strip())
        valid = conforms(value, case.json_schema)
    except ValueError:
        value, valid = None, False
    if case.kind == "schema":
        return {OVERALL: float(valid), "json_valid": float(valid)}
    right = float(valid and same(_folded(value), _folded(case.expected)))
    return {OVERALL: right, "json_right": right, "json_valid": float(valid)}


def _score_text(is_right: Callable[[Any, str], bool]) -> Callable[[Case, Reply], Scores]:
    """A score of 1 for a text that is right by one of the expected ones."""

    def score(case: Case, reply: Reply) -> Scores:
        several = case.expected if isinstance(case.expected, list) else [case.expected]
        return {OVERALL: float(any(is_right(each, reply.text) for each in several))}

    return score


def _score_copy(case: Case, reply: Reply) -> Scores:
    """The share of lines before the first that is wrong."""
    wanted, lines = case.expected.split("\n"), [line.rstrip() for line in reply.text.strip().split("\n")]
    pairs = enumerate(zip(wanted, lines, strict=False))
    right = next((i for i, (line, written) in pairs if line != written), min(len(wanted), len(lines)))
    return {OVERALL: right / len(wanted), "exact": float(wanted == lines)}


_SCORERS: Mapping[str, Callable[[Case, Reply], Scores]] = {
    "calls": _score_calls,
    "json": _score_json,
    "schema": _score_json,
    "contains": _score_text(lambda expected, text: expected in text),
    "equals": _score_text(lambda expected, text: expected.strip() == text.strip()),
    "regex": _score_text(lambda expected, text: re.search(expected, text) is not None),
    "copy": _score_copy,
}
