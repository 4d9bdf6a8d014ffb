"""How many steps drafts may lose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.speculation.account import MOST_TRIALS, Account


@given(st.lists(st.tuples(st.floats(0.01, 3), st.booleans()), min_size=32, max_size=400))
def test_drafts_that_gain_nothing_cost_a_share_of_plain_time(steps: list[tuple[float, bool]]) -> None:
    """At most two steps and 1 %, and from 32 tokens on at most 2.8 %."""
    account, spent = Account(), 0.0
    for tokens, (cost, is_asked) in enumerate(steps, 1):
        account.add_token(1.0)
        if is_asked and cost <= account.left:
            account.spend(cost)
            spent += cost
        assert spent <= 0.028 * max(32, tokens) + 1e-9
    assert spent <= 2 + 0.01 * len(steps) + 1e-9


def test_what_32_tokens_may_lose_is_there_with_the_first_whose_time_is_known() -> None:
    account, left = Account(), list[float]()
    for plain in 0.0, 0.5, *[0.5] * 250:
        account.add_token(plain)
        left.append(account.left)
    assert left[0] == 0
    assert left[1:33] == [pytest.approx(0.5 * 0.028 * 32)] * 32
    assert left[33] == pytest.approx(0.5 * 0.028 * 33)
    assert left[-1] == pytest.approx(2 + 0.01 * 0.5 * 251)


@pytest.mark.parametrize("most", [64, MOST_TRIALS])
def test_neither_gains_nor_time_without_drafts_are_leave_to_lose_for_ever(most: float) -> None:
    gained, waited = (Account() if most == 64 else Account(most) for _ in range(2))
    for _ in range(10_000):
        gained.gain(1.0)
        waited.add_token(1.0)
    assert gained.left == waited.left == most


def test_a_pass_that_took_very_long_once_makes_a_debt_of_one_step() -> None:
    account, waited = Account(), 0
    account.spend(1000.0)
    account.spend(1.0)
    assert account.left == -1
    account.spend(-0.4)
    assert account.left == pytest.approx(-0.6), "it was less than was spent before"
    while account.left < 0.1:
        account.add_token(1.0)
        waited += 1
    assert waited == 1, "that of 32 tokens is there at once"
    account.spend(1000.0)
    while account.left < 0.1:
        account.add_token(1.0)
        waited += 1
    assert waited == pytest.approx(1 + 31 + 1.1 / 0.028, abs=1)
