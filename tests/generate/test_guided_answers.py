"""Answers of guided replies as values of a class, and options that no reply can follow."""

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import pytest

from edgellm import AnswerError, Model, OptionError

pytestmark = pytest.mark.usefixtures("all_drafts")


@pytest.fixture
def model(guided_model: Model) -> Model:
    return guided_model


class Size(Enum):
    SMALL, LARGE = "small", "large"


@dataclass
class Item:
    name: Literal["a", "b"]
    size: Size | None = None


@dataclass
class Order:
    items: list[Item]
    pair: tuple[int, bool]
    total: float
    note: str | Item
    counts: dict[str, int] = field(default_factory=dict)
    parent: "Order | None" = None


def test_a_dataclass_comes_back_as_one(model: Model) -> None:
    orders = [model.generate("the", json_schema=Order, seed=seed, max_tokens=400, partial=True) for seed in range(6)]
    parsed = [order.parsed for order in orders if order.parsed]
    assert parsed
    for order in parsed:
        assert isinstance(order, Order)
        assert all(isinstance(item, Item) and isinstance(item.size, Size | None) for item in order.items)
        assert (type(order.pair), type(order.pair[1]), type(order.total)) == (tuple, bool, float)
        assert isinstance(order.note, str | Item)


class Known:
    """A class as models of pydantic are."""

    def __init__(self, value: bool | None = None) -> None:
        self.value = value

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object", "properties": {"value": {"type": "boolean"}}, "additionalProperties": False}

    @classmethod
    def model_validate_json(cls, text: str) -> "Known":
        return cls(**json.loads(text))


def test_a_model_of_pydantic_comes_back_as_one(model: Model) -> None:
    reply = model.generate("the", json_schema=Known)
    assert isinstance(reply.parsed, Known)
    assert isinstance(reply.parsed.value, bool | None)
    pydantic = pytest.importorskip("pydantic")
    made = pydantic.create_model(
        "Made", __config__={"extra": "forbid"}, kind=(Literal["x", "y"], ...), n=(int | None, ...)
    )
    assert isinstance(model.generate("the", json_schema=made).parsed, made)


class Refusing(Known):
    """A class whose own code refuses all values."""

    @classmethod
    def model_validate_json(cls, text: str) -> "Known":
        raise ValueError("not today\nand not tomorrow")


@dataclass
class RefusingData:
    kind: Literal["x", "y"]

    def __post_init__(self) -> None:
        raise KeyError("kind")


@pytest.mark.parametrize(
    ("schema", "said"),
    [(Refusing, r"Refusing refuses it \(not today\\nand"), (RefusingData, "RefusingData refuses it")],
)
def test_an_answer_that_its_class_refuses_is_kept(model: Model, schema: type, said: str) -> None:
    with pytest.raises(AnswerError, match=said) as refused:
        model.generate("the", json_schema=schema, seed=1)
    assert "\n" not in str(refused.value)
    kept = refused.value.completion
    assert isinstance(json.loads(kept.answer), dict) and kept.parsed is None and kept.finish_reason


def test_faults_that_pydantic_finds_are_one_line(model: Model) -> None:
    pydantic = pytest.importorskip("pydantic")

    def refuse(cls: type, value: str) -> str:
        raise ValueError("too old")

    validators = {"check": pydantic.field_validator("kind")(classmethod(refuse))}
    made = pydantic.create_model("Made", __validators__=validators, kind=(Literal["x", "y"], ...))
    with pytest.raises(AnswerError, match=r"Made refuses it \(kind: Value error, too old\): read") as refused:
        model.generate("the", json_schema=made)
    assert "\n" not in str(refused.value) and json.loads(refused.value.completion.answer)["kind"] in ("x", "y")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"json_schema": {}, "regex": "a"}, "option json_schema and option regex exclude each other: give one"),
        ({"choices": ["a"], "grammar": "b"}, "option choices and option grammar exclude each other"),
        ({"regex": "a", "stop": "b"}, "option stop would cut off a reply that option regex holds to a form: give one"),
        ({"choices": []}, "option choices cannot be []: give a list of texts, at least one"),
        ({"choices": "ab"}, "option choices cannot be 'ab'"),
        ({"choices": ["a", ""]}, "option choices cannot be"),
        ({"json_schema": "{"}, "option json_schema cannot be '{': give a JSON schema"),
        ({"json_schema": "3"}, "option json_schema cannot be '3'"),
        ({"json_schema": 3}, "option json_schema cannot be 3"),
        ({"json_schema": int}, "option json_schema: <class 'int'> has no JSON schema; give a dataclass"),
        ({"json_schema": {"enum": [object()]}}, "option json_schema has a value of type object"),
        ({"regex": ""}, "option regex cannot be ''"),
        ({"think_max": -1}, "option think_max cannot be -1"),
        ({"partial": 1}, "option partial cannot be 1"),
    ],
)
def test_wrong_options_are_errors(model: Model, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError) as caught:
        model.stream("the", **given)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fields_that_json_has_no_values_of_are_an_error(model: Model) -> None:
    @dataclass
    class Wrong:
        value: set[bytes]

    with pytest.raises(OptionError, match=r"option json_schema: set\[bytes\] is a type that JSON has no values of"):
        model.stream("the", json_schema=Wrong)
