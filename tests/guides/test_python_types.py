"""Schemas of classes, and values of these from JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035 (their bare forms are what is tested)

import pytest

from edgellm.errors import EdgeLLMError, GuideError
from edgellm.guides.parsed import parsed
from edgellm.guides.python_types import from_json, schema_of


@dataclass
class Bare:
    names: List  # type: ignore[type-arg]  # noqa: UP006
    ages: Dict  # type: ignore[type-arg]  # noqa: UP006
    either: Optional[Union[int, List]] = None  # type: ignore[type-arg]  # noqa: UP006, UP007, UP045


def test_generic_types_without_arguments_hold_any_values() -> None:
    properties = schema_of(Bare)["$defs"][f"{__name__}.Bare"]["properties"]
    assert properties["names"] == {"type": "array"}
    assert properties["ages"] == {"type": "object"}
    value = from_json(Bare, {"names": ["a", 1], "ages": {"a": [2]}, "either": [None]})
    assert value == Bare(["a", 1], {"a": [2]}, [None])


@dataclass
class NoSuchName:
    a: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


@dataclass
class AnyTuple:
    a: Tuple  # type: ignore[type-arg]  # noqa: UP006


@dataclass
class AnySequence:
    a: Sequence  # type: ignore[type-arg]


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (NoSuchName, "has annotations that cannot be read (name 'Nowhere' is not defined)"),
        (AnyTuple, "is a type that JSON has no values of"),
        (AnySequence, "is a type that JSON has no values of"),
        (int, "has no JSON schema"),
    ],
)
def test_classes_without_a_schema_are_errors_in_one_line(kind: Any, problem: str) -> None:
    with pytest.raises(GuideError) as error:
        schema_of(kind)
    assert problem in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("answer", ["1" * 5000, "[" * 5000 + "]" * 5000])
def test_json_that_python_does_not_read_is_an_error_in_one_line(answer: str) -> None:
    with pytest.raises(EdgeLLMError, match=r"^the answer is JSON that Python does not read \(.*\): give the schema"):
        parsed({}, answer)
