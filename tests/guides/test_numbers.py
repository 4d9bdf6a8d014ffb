"""Numbers as expressions: exactly those that are within the bounds, by exact arithmetic."""

import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgellm.guides.schema.digits import MAX_DIGITS, MAX_FRACTION
from edgellm.guides.schema.numbers import NumberError, Numbers

VALUES = st.one_of(
    st.integers(-2000, 2000),
    st.integers(-(10**30), 10**30),
    st.decimals(-1000, 1000, places=3),
    st.decimals(-2, 2, places=1),
)
STEPS = st.sampled_from([*[Fraction(0)] * 4, *map(Fraction, ("1", "2", "7", "10", "25", "0.5", "0.25", "0.01", "1.5"))])
NUMBERS = st.builds(Numbers, st.none() | VALUES, st.none() | VALUES, st.booleans(), st.booleans(), st.booleans(), STEPS)
WRITTEN = re.compile(r"-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,15})?")


def is_written(numbers: Numbers, text: str) -> bool:
    """Whether a guide lets a model write a number as this text."""
    if (listed := numbers.listed()) is not None:
        return text in map(str, listed)
    return all(re.fullmatch(each, text) for each in numbers.expressions())


@given(NUMBERS, st.data())
@settings(max_examples=400, deadline=None)
def test_a_number_is_written_if_it_is_within_the_bounds(numbers: Numbers, data: st.DataObject) -> None:
    try:
        numbers.check()
    except NumberError:
        assume(False)
    assume(not numbers.is_empty())
    near = [bound for bound in (numbers.low, numbers.high) if bound is not None] or [0]
    for _ in range(10):
        offset = data.draw(st.decimals(-20, 20, places=data.draw(st.integers(0, 3))))
        text = f"{Decimal(data.draw(st.sampled_from(near))) + data.draw(st.sampled_from([Decimal(0), offset])):f}"
        text = data.draw(st.sampled_from([text, text + "0" if "." in text else text + ".0", str(int(Decimal(text)))]))
        is_in = Decimal(text) in numbers
        if is_written(numbers, text):
            assert is_in, text
        elif is_in and not numbers.step and WRITTEN.fullmatch(text) and not (numbers.integer and "." in text):
            assert text.startswith("-0"), text


FEW = st.builds(
    Numbers,
    st.integers(-9, 9),
    st.integers(-9, 9) | st.decimals(-9, 9, places=1),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    STEPS,
)


@given(FEW)
@settings(max_examples=200, deadline=None)
def test_numbers_without_any_are_known(numbers: Numbers) -> None:
    """Bounds and steps are multiples of 0.01, and between two of these there is another multiple of 0.005."""
    found = any(Decimal(n) / 200 in numbers for n in range(-2000, 2001))
    assert numbers.is_empty() != found


@pytest.mark.parametrize(
    ("numbers", "wrong", "right"),
    [
        (Numbers(low=0, low_open=True), ["0", "-1", "0.0", "0.00000000000000001"], ["1", "0.001", "7.50"]),
        (Numbers(high=Decimal("0.3"), high_open=True), ["0.3", "0.30", "0.2999999999999999999"], ["0.29999", "-5"]),
        (Numbers(low=Decimal("-0.5"), high=0), ["-0.51", "0.1", "1"], ["-0.5", "0", "-0.50", "-0.001"]),
        (Numbers(integer=True), ["1.0", "01", "-0", "1e3", "1" * 21], ["0", "-12", "9" * 20]),
        (Numbers(), ["1.", ".5", "+1", "1e999", "01", "0." + "1" * 18], ["1e5", "-1.5E-3", "0.25", "1e+99"]),
        (
            Numbers(low=9007199254740993, high=9007199254740993, integer=True),
            ["9007199254740992"],
            ["9007199254740993"],
        ),
        (Numbers(low=10**25, integer=True), ["9" * 25], ["1" + "0" * 25]),
    ],
)
def test_numbers_by_hand(numbers: Numbers, wrong: list[str], right: list[str]) -> None:
    """A number beside a bound that it must not reach has few enough digits that float64 keeps them apart."""
    assert [text for text in wrong if is_written(numbers, text)] == []
    assert [text for text in right if not is_written(numbers, text)] == []


@given(NUMBERS, NUMBERS, VALUES)
@settings(max_examples=200, deadline=None)
def test_numbers_of_two_kinds_are_those_of_each(one: Numbers, other: Numbers, value: int | Decimal) -> None:
    assert (value in one & other) == (value in one and value in other)


@pytest.mark.parametrize(
    "numbers",
    [
        Numbers(step=Fraction(7)),
        Numbers(low=0, step=Fraction("2.5")),
        Numbers(low=Decimal("0.1234567890123456"), low_open=True),
        Numbers(high=10**41),
    ],
)
def test_what_cannot_be_written_is_refused(numbers: Numbers) -> None:
    with pytest.raises(NumberError):
        numbers.check()


def test_a_number_without_bounds_has_as_many_digits_as_float64_tells_apart() -> None:
    assert len(str(2**64)) == MAX_DIGITS
    assert MAX_FRACTION == 17
