"""Tools from functions: the definitions of transformers, and what it refuses."""

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from edgellm.errors import OptionError
from edgellm.tools.calls import ToolCall
from edgellm.tools.running import run_call
from edgellm.tools.tool import tool_of, tools_of


class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


def basic(city: str, days: int = 1, share: float = 0.5, exact: bool = False) -> str:
    """
    Get the weather of a city.

    It may take a while.

    Args:
        city: The city, in
            any language
        days (int, optional): How many days: at most 7
        share: A share
        exact: Whether to be exact

    Returns:
        The weather, as text
    """
    return f"{city} {days} {share} {exact}"


def containers(names: list[str], sizes: dict[str, int], pair: tuple[int, str], plain: list, anything: Any) -> None:
    """Collect things.

    Args:
        names: Names
        sizes: Sizes by name
        pair: A pair
        plain: Items
        anything: Something
    """


def unions(a: int | None, b: int | str, c: list[int] | None, d: list[int] | str = "", e: Unit | None = None) -> int:
    """Choose.

    Args:
        a: First
        b: Second
        c: Third
        d: Fourth
        e: Fifth
    Raises:
        ValueError: never
    """
    return 0


def choices(unit: Unit, mode: Literal["fast", "slow"], level: Literal[1, 2, None], drink: str) -> dict[str, float]:
    """Serve.

    Args:
        unit: The unit
        mode: The mode
        level: The level
        drink: What to drink (choices: ["tea", " coffee "])
    """
    return {}


def nothing() -> None:
    """Do nothing."""


class Holder:
    def method(self, x: int) -> int:
        """Double.

        Args:
            x: A number
        """
        return 2 * x


FUNCTIONS = [basic, containers, unions, choices, nothing, Holder().method]


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is the oracle")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_definitions_are_those_of_transformers(function: Callable[..., Any]) -> None:
    from transformers.utils.chat_template_utils import get_json_schema

    definition, expected = tool_of(function).definition, get_json_schema(function)
    assert definition == expected
    properties = expected["function"]["parameters"]["properties"]
    assert list(definition["function"]["parameters"]["properties"]) == list(properties)


def parameters(function: Callable[..., Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tool_of(function).parameters["properties"]
    return found


def test_numpy_and_sphinx_docstrings_describe_parameters() -> None:
    def numpy(a: int, b: int, c: str) -> int:
        """Add numbers.

        Parameters
        ----------
        a, b : int
            The numbers,
            both whole
        c : str, optional
            A note

        Returns
        -------
        int
            The sum
        """
        return a + b

    def sphinx(a: int, b: int, c: str) -> int:
        """Add numbers.

        :param int a: The numbers,
            both whole
        :param b: The numbers, both whole
        :type b: int
        :param c: A note
        :returns: The sum
        """
        return a + b

    for function in (numpy, sphinx):
        assert tool_of(function).description == "Add numbers."
        described = {name: schema["description"] for name, schema in parameters(function).items()}
        assert described == {"a": "The numbers, both whole", "b": "The numbers, both whole", "c": "A note"}


def test_descriptions_may_be_missing() -> None:
    def bare(a: int, b: Annotated[str, "From the annotation"]) -> None: ...

    tool = tool_of(bare)
    assert tool.description == ""
    assert parameters(bare) == {"a": {"type": "integer"}, "b": {"type": "string", "description": "From the annotation"}}
    assert tool.parameters["required"] == ["a", "b"]


@dataclass
class Place:
    name: str
    unit: Unit = Unit.CELSIUS


class Options(TypedDict):
    depth: int
    tags: NotRequired[list[str]]


def structured(place: Place, options: Options, places: Sequence[Place], table: Mapping[str, Unit]) -> Any:
    return place, options, places, table


def test_classes_with_fields_become_objects() -> None:
    place = {"type": "object", "properties": {"name": {"type": "string"}, "unit": None}, "required": ["name"]}
    place["properties"]["unit"] = unit = {"type": "string", "enum": ["celsius", "fahrenheit"]}  # type: ignore[index]
    tags = {"type": "array", "items": {"type": "string"}}
    assert parameters(structured) == {
        "place": place,
        "options": {
            "type": "object",
            "properties": {"depth": {"type": "integer"}, "tags": tags},
            "required": ["depth"],
        },
        "places": {"type": "array", "items": place},
        "table": {"type": "object", "additionalProperties": unit},
    }


def test_functions_get_what_their_annotations_name() -> None:
    place = {"name": "Rome", "unit": "fahrenheit"}
    arguments = {"place": place, "options": {"depth": 1}, "places": [place], "table": {"a": "celsius"}}
    rome = Place("Rome", Unit.FAHRENHEIT)
    assert tool_of(structured).run(arguments) == (rome, {"depth": 1}, [rome], {"a": Unit.CELSIUS})

    def collections(pair: tuple[Unit, int], many: set[int], one: Unit | None, other: Unit | None) -> Any:
        return pair, many, one, other

    got = tool_of(collections).run({"pair": ["celsius", 1], "many": [1, 1], "one": "celsius", "other": None})
    assert got == ((Unit.CELSIUS, 1), {1}, Unit.CELSIUS, None)
    assert tool_of(basic).run({"city": "Rome"}) == "Rome 1 0.5 False"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "missing a required argument: 'one'"),
        ({"one": "celsius", "two": 1}, "unexpected keyword argument 'two'"),
        ({"one": "kelvin"}, "argument one has a value that it does not take: 'kelvin' is not a valid Unit"),
    ],
)
def test_arguments_that_a_function_does_not_take_are_refused(arguments: dict[str, Any], said: str) -> None:
    def choose(one: Unit | None) -> Any:
        return one

    with pytest.raises(OptionError, match=said) as error:
        tool_of(choose).run(arguments)
    assert str(error.value).startswith("tool choose: ") and "\n" not in str(error.value)


def test_what_a_function_raises_goes_through() -> None:
    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tool_of(fail).run({})


def test_a_function_that_exits_does_not_end_the_program() -> None:
    def leave() -> None:
        sys.exit(3)

    assert run_call(tools_of([leave])["leave"], ToolCall("call00000", "leave")) == "error: SystemExit: 3"


async def waiting(a: int) -> int:
    return a


def starred(*numbers: int) -> int:
    return sum(numbers)


def untyped(a) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return a  # type: ignore[no-any-return]


def of_bytes(a: bytes) -> None: ...


def unresolved(a: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def bad_choices(a: str) -> None:
    """Choose.

    Args:
        a: A letter (choices: a, b)
    """


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (waiting, "tool waiting is an async function"),
        (int, "tool int: Python does not know its arguments; wrap it in a function"),
        (dict, "tool dict: "),
        (starred, r"tool starred: \*numbers: int is no argument with a name"),
        (untyped, "tool untyped: argument a has no type"),
        (of_bytes, "tool of_bytes: argument a has the type bytes, which has no JSON"),
        (unresolved, "tool unresolved: its annotations cannot be read"),
        (bad_choices, "tool bad_choices: the choices of a are no JSON list"),
        (lambda: None, "the tool name '<lambda>' is not valid"),
        (5, "tools has a value of type int; give functions"),
    ],
)
def test_functions_that_cannot_be_tools_are_refused_in_one_line(given: object, said: str) -> None:
    with pytest.raises(OptionError, match=said) as error:
        tool_of(given)
    assert "\n" not in str(error.value)
