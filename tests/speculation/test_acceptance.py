"""What is learned of drafts, and what trials may cost."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.sampling.gumbel import Drawn
from edgellm.speculation.acceptance import CERTAIN, LOOKUP_RATES, Acceptance, signal_of
from edgellm.speculation.ledger import Account, Ledger


def test_the_signal_is_the_margin_in_bins() -> None:
    logits = np.array([0.0, 3.0, 1.5], np.float32)
    assert [signal_of(Drawn(1, margin), logits) for margin in (0.0, 0.1, 0.3, 3.9, 4.0, 90.0)] == [0, 1, 2, 5, 6, 6]


def test_without_temperature_the_signal_is_how_far_the_logit_is_ahead() -> None:
    logits = np.array([0.0, 3.0, 1.5], np.float32)
    assert signal_of(Drawn(1, math.inf), logits) == 4, "1.5 nats"
    assert signal_of(Drawn(2, math.inf), logits) == 0, "it is behind: another rule drew it"
    assert logits.tolist() == [0.0, 3.0, 1.5]


def test_rates_follow_outcomes_by_signal() -> None:
    found = Acceptance()
    assert found.rate("model", 3) == found.mean("model") == 0.5
    for i in range(400):
        found.record("model", 6, True)
        found.record("model", 0, i % 4 == 0)
    assert found.mean("model") == pytest.approx(0.625, abs=0.1)
    assert found.rate("model", 6) > 0.9
    assert found.rate("model", 0) < 0.4
    assert found.rate("model", 3) == found.mean("model"), "a signal that never came"


def test_a_change_is_learned_within_ten_outcomes() -> None:
    found = Acceptance()
    for _ in range(300):
        found.record("model", 3, True)
    for _ in range(10):
        found.record("model", 3, False)
    assert found.mean("model") < 0.55


def test_replies_begin_with_what_the_session_knows_and_it_learns_at_once() -> None:
    session = Acceptance()
    reply = Acceptance(session)
    for _ in range(50):
        reply.record("model", 3, True)
        reply.record("lookup", 4, False)
    assert session.has_proved("model") and Acceptance(session).has_proved("model")
    other = Acceptance(session)
    assert other.mean("model") == reply.mean("model") > 0.9
    assert other.rate("lookup", 4) == LOOKUP_RATES[4] > 0.5 > reply.rate("lookup", 4)
    for _ in range(50):
        other.record("model", 3, False)
    assert reply.mean("model") > 0.9 > 0.5 > other.mean("model"), "texts differ"


def test_forced_tokens_are_right() -> None:
    found = Acceptance()
    found.record("model", CERTAIN, False)
    assert (found.rate("model", CERTAIN), found.rate("guide", CERTAIN), found.mean("model")) == (1, 1, 0.5)


@given(st.lists(st.tuples(st.floats(0.01, 3), st.booleans()), max_size=400))
def test_trials_that_gain_nothing_cost_a_share_of_plain_time(steps: list[tuple[float, bool]]) -> None:
    """And two steps, and what the last trial costs beyond them."""
    ledger, spent, most = Ledger(), 0.0, 0.0
    for cost, is_asked in steps:
        ledger.add_token(1.0)
        if is_asked and ledger.try_for(cost):
            spent, most = spent + cost, max(most, cost)
    assert spent <= 2 + 0.01 * len(steps) + most


def test_a_trial_that_is_dearer_than_any_may_be_waits_for_the_whole_credit() -> None:
    ledger = Ledger()
    assert ledger.try_for(2.5)
    waited = 0
    while not ledger.try_for(2.5):
        ledger.add_token(1.0)
        waited += 1
    assert waited == pytest.approx(250, abs=1), "0.5 too much, and 2, at 0.01 a token"


def test_neither_gains_nor_time_without_drafts_are_leave_to_lose_for_ever() -> None:
    gained, waited = Account(), Account()
    assert gained.left == 2
    for _ in range(10_000):
        gained.gain(1.0)
        waited.add_token(1.0)
    assert gained.left == waited.left == 20


def test_a_pass_that_took_very_long_once_ends_trials_for_a_while_alone() -> None:
    ledger, account, waited = Ledger(), Account(), 0
    account.spend(1000.0)
    account.spend(1.0)
    assert account.left == -2
    assert ledger.try_for(0.1)
    ledger.spend(1000.0, is_trial=True)
    while not ledger.try_for(0.1):
        ledger.add_token(1.0)
        waited += 1
    assert waited == pytest.approx(210, abs=1)


def test_a_text_that_is_read_counts_for_the_steps_that_follow() -> None:
    account = Account()
    account.invest(12.8)
    assert account.left == 2
    account.add_token(1.0)
    assert account.left == pytest.approx(2 + 0.01 - 0.1)
    for _ in range(2000):
        account.add_token(1.0)
    assert account.left == pytest.approx(2 + 20.01 - 12.8)
