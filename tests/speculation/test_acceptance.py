"""What is learned of drafts."""

import math

import numpy as np
import pytest

from edgellm.sampling.gumbel import Drawn
from edgellm.speculation.acceptance import CERTAIN, LOOKUP_RATES, Acceptance, signal_of


def test_the_signal_is_the_margin_in_bins() -> None:
    scores = np.array([0.0, 3.0, 1.5], np.float32)
    assert [signal_of(Drawn(1, margin), scores) for margin in (0.0, 0.1, 0.3, 3.9, 4.0, 90.0)] == [0, 1, 2, 5, 6, 6]


def test_without_temperature_the_signal_is_how_far_the_score_is_ahead() -> None:
    scores = np.array([0.0, 3.0, 1.5], np.float32)
    assert signal_of(Drawn(1, math.inf), scores) == 4, "1.5 nats"
    assert signal_of(Drawn(2, math.inf), scores) == 0, "it is behind: another rule drew it"
    assert scores.tolist() == [0.0, 3.0, 1.5]


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
    reply.record("model", 0, False)
    assert other.rate("model", 0) == reply.rate("model", 0) < other.mean("model"), "by signal, too"
    for _ in range(50):
        other.record("model", 3, False)
    assert reply.mean("model") > 0.8 > 0.5 > other.mean("model"), "texts differ"


def test_forced_tokens_are_right() -> None:
    found = Acceptance()
    found.record("model", CERTAIN, False)
    assert (found.rate("model", CERTAIN), found.rate("guide", CERTAIN), found.mean("model")) == (1, 1, 0.5)
