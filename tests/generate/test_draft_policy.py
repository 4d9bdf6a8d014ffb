"""How many draft tokens a step computes: by the acceptance rate of drafts and the time of steps."""

from edgellm.engine.limits import MAX_DRAFT
from edgellm.generate.draft_policy import DraftPolicy


def test_the_policy_follows_the_acceptance_rate() -> None:
    policy, never = DraftPolicy(), DraftPolicy()
    assert policy.draft_length(MAX_DRAFT, 4) == 0, "the time of a step is not known yet"
    for each in policy, never:
        each.record_step(0, 0.02)
    for _ in range(50):
        policy.record_outcome(2, True)
        never.record_outcome(2, False)
    assert (policy.draft_length(MAX_DRAFT, 2), policy.draft_length(2, 2), policy.draft_length(0, 0)) == (
        MAX_DRAFT,
        2,
        0,
    )
    assert (never.draft_length(MAX_DRAFT, 2), never.draft_length(MAX_DRAFT, 4)) == (0, 3), (
        "shorter matches say nothing of longer ones"
    )


def test_the_policy_follows_the_time_of_steps() -> None:
    """If a third of the drafts is right, a further row may cost up to a third of a step; costs may change."""

    def after(one: float, two: float, four: float, eight: float) -> DraftPolicy:
        policy = DraftPolicy()
        for _ in range(200):
            policy.record_outcome(1, True)
            policy.record_outcome(1, False)
            policy.record_outcome(1, False)
            for count, seconds in (0, one), (1, two), (3, four), (MAX_DRAFT, eight):
                policy.record_step(count, seconds)
        return policy

    assert after(0.02, 0.021, 0.04, 0.04).draft_length(MAX_DRAFT, 1) == 1
    assert after(0.02, 0.03, 0.05, 0.06).draft_length(MAX_DRAFT, 1) == 0
    assert after(0.02, 0.021, 0.021, 0.04).draft_length(MAX_DRAFT, 1) == 3
    assert after(0.02, 0.021, 0.04, 0.021).draft_length(MAX_DRAFT, 1) == MAX_DRAFT
    policy = after(0.02, 0.04, 0.05, 0.06)
    tried = next(i for i in range(1000) if policy.draft_length(MAX_DRAFT, 1) or policy.record_step(0, 0.02))
    assert 100 < tried < 400, "it is not tried for a long time, but then again"
    policy = DraftPolicy()
    for _ in range(9):
        policy.record_outcome(4, True)
        for count, seconds in (0, 0.02), (1, 0.021), (3, 0.022):
            policy.record_step(count, seconds)
    assert policy.draft_length(MAX_DRAFT, 4) == 3
    assert any(policy.record_step(3, 0.022) or policy.draft_length(MAX_DRAFT, 4) == MAX_DRAFT for _ in range(400)), (
        "what was never tried, too"
    )


def test_the_policy_is_not_misled_by_disturbed_steps() -> None:
    """The first step of a class is believed; one that takes much longer than those before is not, at first."""

    def after(*seconds: float) -> int:
        policy = DraftPolicy()
        policy.record_step(0, 0.02)
        policy.record_step(3, 0.04)
        for _ in range(50):
            policy.record_outcome(2, True)
        for each in seconds:
            policy.record_step(MAX_DRAFT, each)
        return policy.draft_length(MAX_DRAFT, 2)

    assert (after(), after(0.04), after(0.04, 100, 100), after(0.2), after(0.04, *[0.2] * 20)) == (
        MAX_DRAFT,
        MAX_DRAFT,
        MAX_DRAFT,
        3,
        3,
    )
