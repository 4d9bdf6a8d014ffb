"""Rules of acceptance: the text has the distribution of the target, whatever is drafted."""

import numpy as np
import pytest

from edgellm.sampling.gumbel import DrawKey, gumbel_draw
from edgellm.sampling.sampler import Distribution
from edgellm.speculation.rules import DraftRule, Proposal, Rejection, SameDraw
from support.couplings import agreement, chi_square, distribution, total_variation

KEY = DrawKey(seed=12345, sequence=0)
LEFT, RIGHT = np.array([0.5, 0.3, 0.15, 0.0, 0.05]), np.array([0.3, 0.4, 0.0, 0.1, 0.2])
"""The target has a token that the drafter lacks, and the drafter one that the target lacks."""

RULES: list[DraftRule] = [SameDraw(), Rejection()]


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_drafts_are_accepted_as_often_as_the_proof_says_and_leave_the_distribution(rule: DraftRule) -> None:
    p, q, n = distribution(*LEFT), distribution(*RIGHT), 30_000
    drafts = [rule.propose(q, KEY, position).token for position in range(n)]
    text = [rule.choose(p, Proposal(draft, q), KEY, position) for position, draft in enumerate(drafts)]
    accepted = sum(x == y for x, y in zip(drafts, text, strict=True)) / n
    expected = agreement(LEFT, RIGHT) if rule.may_trim else 1 - total_variation(LEFT, RIGHT)
    assert abs(accepted - expected) < 4 * (expected * (1 - expected) / n) ** 0.5
    assert chi_square(drafts, {token: share for token, share in enumerate(RIGHT) if share}) < 1
    assert chi_square(text, {token: share for token, share in enumerate(LEFT) if share}) < 1


def test_the_same_draw_is_that_of_the_text_without_drafts() -> None:
    p, q, rule = distribution(*LEFT), distribution(*RIGHT), SameDraw()
    for position in range(50):
        alone = gumbel_draw(p, KEY, position).token
        assert rule.choose(p, Proposal(3, q), KEY, position) == rule.choose(p, None, KEY, position) == alone
        assert rule.propose(p, KEY, position).token == alone


def test_a_draft_that_was_not_drawn_changes_no_text() -> None:
    p, rule = distribution(*LEFT), Rejection()
    for position in range(50):
        alone = gumbel_draw(p, KEY, position).token
        assert rule.choose(p, None, KEY, position) == rule.choose(p, Proposal(2, None), KEY, position) == alone


def test_rejection_by_hand() -> None:
    rule = Rejection()
    surely, never = distribution(0, 1), distribution(0, 0, 1)
    assert rule.choose(surely, Proposal(1, surely), KEY, 0) == 1
    assert rule.choose(surely, Proposal(2, never), KEY, 0) == 1
    # p - q is above 0 for token 0 alone, so a rejected 1 becomes 0.
    p, q = distribution(0.9, 0.1), distribution(0.1, 0.9)
    text = [rule.choose(p, Proposal(1, q), KEY, position) for position in range(200)]
    assert set(text) == {0, 1} and 10 < text.count(1) < 40  # 1 is accepted with 0.1 / 0.9


def test_distributions_that_differ_by_rounding_leave_no_residual() -> None:
    """The draft is rejected only by a coin of 1, and what is drawn then is a token of the target."""
    p = distribution(0.5, 0.5)
    q = Distribution(p.ids, p.probabilities * (1 + 1e-15))
    always_rejected = Proposal(7, Distribution(np.array([0, 1, 7]), np.array([0.5, 0.5, 1e-15])))
    assert {Rejection().choose(p, always_rejected, KEY, position) for position in range(20)} == {0, 1}
    assert Rejection().choose(p, Proposal(0, q), KEY, 3) == 0


def test_the_margin_of_rejection_does_not_tell_what_was_drawn() -> None:
    q, rule = distribution(0.5, 0.3, 0.2), Rejection()
    drawn = [rule.propose(q, KEY, position) for position in range(50)]
    assert {each.token for each in drawn} == {0, 1, 2}
    assert [each.margin for each in drawn] == pytest.approx([np.log(0.5 / 0.3)] * 50)
    assert rule.propose(distribution(1), KEY, 0) == (0, np.inf)
