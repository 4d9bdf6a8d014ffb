"""Scores of replies, by hand."""

from typing import Any

import pytest

from edgellm.evaluation.cases import SCORES, Case
from edgellm.evaluation.scoring import Reply, scores_of
from edgellm.tools.calls import BrokenCall, ToolCall
from edgellm.tools.tool import tools_of

WEATHER = {
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"]}},
        "required": ["city"],
    },
}
CLOCK = {"name": "clock", "parameters": {"type": "object", "properties": {}}}
ROME = {"name": "weather", "arguments": {"city": "Rome"}, "allow": {"unit": ["C"]}}
ANYWHERE = {"name": "weather", "allow": {"city": ["Oslo", "Bergen"]}}
PARIS = {"name": "weather", "arguments": {"city": "Paris"}}


def case(kind: str, expected: Any, **more: Any) -> Case:
    tools = tools_of([WEATHER, CLOCK]) if kind == "calls" else {}
    return Case("1", [{"role": "user", "content": "?"}], kind, expected, tools, **more)


def calls(*given: tuple[str, dict[str, Any]]) -> Reply:
    return Reply("", tuple(ToolCall(str(i), name, arguments) for i, (name, arguments) in enumerate(given)))


def broken(*given: tuple[str, dict[str, Any]]) -> Reply:
    return Reply("", calls(*given).calls, (BrokenCall('{"name": "wea', "the reply ends"),))


@pytest.mark.parametrize(
    ("expected", "reply", "right", "arguments", "valid"),
    [
        ([ROME], calls(("weather", {"city": "Rome"})), 1, 1, 1),
        ([ROME], calls(("weather", {"city": " rome"})), 1, 1, 1),
        ([ROME], calls(("weather", {"city": "Rome", "unit": "C"})), 1, 1, 1),
        ([ROME], calls(("weather", {"city": "Rome", "unit": "F"})), 1, 0, 1),
        ([ROME], calls(("weather", {"city": "Rome", "days": 1})), 1, 0, 1),
        ([ROME], calls(("weather", {"city": "Rome", "hours": 1})), 1, 0, 0),
        ([ROME], calls(("weather", {"city": "Rome", "days": "1"})), 1, 0, 0),
        ([ROME], calls(("weather", {})), 1, 0, 0),
        ([ANYWHERE], calls(("weather", {"city": "Oslo"})), 1, 1, 1),
        ([ANYWHERE], calls(("weather", {})), 1, 0, 0),
        ([ROME], calls(("clock", {})), 0, 0, 1),
        ([ROME], calls(("weather", {"city": "Rome"}), ("clock", {})), 0, 0, 1),
        ([ROME], calls(), 0, 0, None),
        ([ROME], broken(), 0, 0, 0),
        ([ROME], broken(("weather", {"city": "Rome"})), 0, 0, 0),
        ([ROME, PARIS], calls(("weather", {"city": "Paris"}), ("weather", {"city": "Rome"})), 1, 1, 1),
        ([ROME, PARIS], calls(("weather", {"city": "Rome"}), ("weather", {"city": "Rome"})), 1, 0, 1),
        ([ROME, PARIS], calls(("weather", {"city": "Rome"})), 0, 0, 1),
        ([], calls(), 1, None, None),
        ([], calls(("clock", {})), 0, None, 1),
        ([], broken(), 0, None, 0),
    ],
)
def test_calls(expected: list[Any], reply: Reply, right: int, arguments: int | None, valid: int | None) -> None:
    known = {"tool_right": right, "arguments_right": arguments, "calls_valid": valid}
    wanted = {name: value for name, value in known.items() if value is not None}
    overall = right if arguments is None else arguments
    assert scores_of(case("calls", expected), reply) == {"overall": overall, **wanted}


def test_a_reply_without_a_guide_has_scores_of_its_own() -> None:
    scores = scores_of(case("calls", [ROME]), calls(("weather", {"city": "Rome"})), broken())
    assert scores == {
        "overall": 1,
        "tool_right": 1,
        "arguments_right": 1,
        "calls_valid": 1,
        "tool_right_unguided": 0,
        "arguments_right_unguided": 0,
        "calls_valid_unguided": 0,
    }
    assert scores.keys() == {*case("calls", [ROME]).score_names}


NUMBER = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("text", "valid", "right"),
    [
        ('{"a": 1.5}', 1, 1),
        (' {"a":15e-1}\n', 1, 1),
        ('{"a": 2}', 1, 0),
        ('{"a": true}', 0, 0),
        ("{}", 0, 0),
        ('{"a": 1.5', 0, 0),
        ('```json\n{"a": 1.5}\n```', 0, 0),
        ('{"a": NaN}', 0, 0),
        ('{"a": 1e999}', 0, 0),
        ("[" * 100_000, 0, 0),
        ("", 0, 0),
    ],
)
def test_json(text: str, valid: int, right: int) -> None:
    scores = scores_of(case("json", {"a": 1.5}, json_schema=NUMBER), Reply(text))
    assert scores == {"overall": right, "json_right": right, "json_valid": valid}
    assert scores_of(case("schema", None, json_schema=NUMBER), Reply(text)) == {"overall": valid, "json_valid": valid}


@pytest.mark.parametrize(
    ("kind", "expected", "text", "score"),
    [
        ("contains", "42", "It is 42.", 1),
        ("contains", "42", "It is 4 2.", 0),
        ("contains", ["forty-two", "42"], "It is 42.", 1),
        ("contains", ["a", "b"], "c", 0),
        ("equals", "yes", " yes\n", 1),
        ("equals", "yes", "yes.", 0),
        ("equals", ["yes", "Yes"], "Yes", 1),
        ("regex", r"^\d+$", "42", 1),
        ("regex", r"^\d+$", "x42", 0),
        ("regex", ["a+", "b+"], "xbb", 1),
    ],
)
def test_texts(kind: str, expected: Any, text: str, score: int) -> None:
    assert scores_of(case(kind, expected), Reply(text)) == {"overall": score}


@pytest.mark.parametrize(
    ("text", "share", "exact"),
    [
        ("a\nb\nc\nd", 1, 1),
        ("\na \nb\nc\nd\n\n", 1, 1),
        ("a\nb\nc\nd\ne", 1, 0),
        ("a\nb\nx\nd", 0.5, 0),
        ("a\nb", 0.5, 0),
        ("a\nb\nc", 0.75, 0),
        ("b\na\nc\nd", 0, 0),
        ("", 0, 0),
    ],
)
def test_copies(text: str, share: float, exact: int) -> None:
    assert scores_of(case("copy", "a\nb\nc\nd"), Reply(text)) == {"overall": share, "exact": exact}


def test_every_kind_has_a_scorer() -> None:
    expected: dict[str, Any] = {"calls": [], "json": 1, "schema": None}
    for kind in SCORES:
        made = case(kind, expected.get(kind, "x"), json_schema=True)
        assert {*scores_of(made, Reply("1"))} <= {*made.score_names}
