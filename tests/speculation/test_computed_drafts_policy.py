"""The policy of computed drafts, through the real batcher and decoder, on the clock of a made-up target and drafter."""

from collections.abc import Sequence as Ids
from itertools import count, pairwise
from random import Random
from statistics import fmean
from typing import Any

import pytest

from edgellm.engine.protocol import Segment
from edgellm.errors import NoMemoryError
from edgellm.options import MAX_DRAFT
from edgellm.sampling.philox import uniform
from edgellm.speculation.draft_policy import DraftPolicy
from edgellm.speculation.step_plan import DraftPlan
from kquants.kv_layout import PAGE
from support.draft_world import World, best, closed_form, plain_seconds, step_seconds


def speed_up(patch: pytest.MonkeyPatch, acceptance: float, share: float, tokens: int, prompt: int = 8) -> float:
    """That of a session's first reply, relative to plain steps."""
    world = World(patch, share, lambda position: (acceptance, 1.0), prompt)
    return plain_seconds(tokens) / world.reply(tokens)[-1]


def test_the_closed_form_by_hand() -> None:
    """At 0.8 three drafts give 1 + 0.8 + 0.64 + 0.512 tokens in 0.3 + 42 / 34 steps."""
    assert closed_form(0.8, 0.1, 3) == pytest.approx(2.952 / (0.3 + 42 / 34))
    assert best(0.8, 0.1, 7) == closed_form(0.8, 0.1, 3)


@pytest.mark.parametrize("share", [0.03, 0.05, 0.1, 0.15, 0.2, 0.31])
@pytest.mark.parametrize("acceptance", [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
def test_drafts_are_as_fast_as_the_best_fixed_number(
    monkeypatch: pytest.MonkeyPatch, acceptance: float, share: float
) -> None:
    found = speed_up(monkeypatch, acceptance, share, 2000)
    assert 0.95 * best(acceptance, share, MAX_DRAFT) < found < 1.05 * best(acceptance, share, MAX_DRAFT)


def test_at_acceptance_of_four_fifths_a_reply_is_written_nearly_twice_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    assert speed_up(monkeypatch, 0.8, 0.1, 4000) > 1.85


def slowest(times: list[float]) -> float:
    """The least speed of a reply relative to plain steps, wherever it ends from 32 tokens on."""
    return min(plain_seconds(tokens) / times[tokens] for tokens in range(32, len(times)))


SHARES = pytest.mark.parametrize("share", [0.03, 0.05, 0.1, 0.2, 0.31, 0.5, 0.7, 1.0])
PROMPTS = pytest.mark.parametrize("prompt", [8, 40, 500, 2000])


@SHARES
@PROMPTS
def test_drafts_that_are_never_right_cost_little(monkeypatch: pytest.MonkeyPatch, share: float, prompt: int) -> None:
    """In the first reply of a session, and in many short ones that follow."""
    world = World(monkeypatch, share, lambda position: (0.0, 1.0), prompt)
    assert slowest(world.reply(512)) >= 0.97
    assert min(slowest(world.reply(32, seed)) for seed in range(2, 9)) >= 0.97


@pytest.mark.parametrize("share", [0.03, 0.1, 0.5])
@pytest.mark.parametrize("draw_s", [0.0004, 0.002, 0.036])
def test_the_time_to_draw_a_draft_is_paid(monkeypatch: pytest.MonkeyPatch, share: float, draw_s: float) -> None:
    """From all tokens of a large vocabulary, without top-k and top-p, that takes as long as a step."""
    world = World(monkeypatch, share, lambda position: (0.0, 1.0))
    world.draw_s = draw_s
    assert slowest(world.reply(512)) >= 0.97
    assert min(slowest(world.reply(64, seed)) for seed in range(2, 9)) >= 0.97


def test_drafts_end_where_it_takes_as_long_to_draw_them_as_to_compute_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    world.draw_s = step_seconds(1)
    assert plain_seconds(512) / world.reply(512)[-1] >= 0.97


def slow_at(world: World, pass_s: dict[int, float], draw_s: dict[int, float]) -> None:
    """Set the seconds of some passes (`pass_s`) and draws (`draw_s`) of the world, by their number from 0."""
    passes, draws = count(), count()
    world.drafter.slowness = lambda rows: pass_s.get(next(passes), 0.1 * step_seconds(1)) / (0.1 * step_seconds(1))

    def draw() -> None:
        world.clock.seconds += draw_s.get(next(draws), 0.0)

    world._draw = draw  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("pass_s", "draw_s"), [({0: 0.1}, {}), ({0: 1.0}, {}), ({}, {0: 0.5}), ({}, {100: 2.0}), ({0: 0.3}, {0: 0.3})]
)
def test_one_slow_pass_or_draw_ends_no_drafts(
    monkeypatch: pytest.MonkeyPatch, pass_s: dict[int, float], draw_s: dict[int, float]
) -> None:
    """Of a drafter that lags by one token, as an assistant does: its first pass reads weights from a disk."""
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0), prompt=1)
    slow_at(world, pass_s, draw_s)
    times = world.reply(2000)
    assert plain_seconds(1000) / (times[2000] - times[1000]) > 0.9 * best(0.8, 0.1, MAX_DRAFT)
    assert plain_seconds(500) / world.reply(500, seed=2)[-1] > 0.88 * best(0.8, 0.1, MAX_DRAFT)


def test_drafts_that_became_too_dear_are_tried_again_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a while draws take three steps each."""
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    slow_at(world, {}, dict.fromkeys(range(100, 110), 0.1))
    times = world.reply(4000)
    assert plain_seconds(1000) / (times[4000] - times[3000]) > 0.9 * best(0.8, 0.1, MAX_DRAFT)


@pytest.mark.parametrize("share", [0.03, 0.1, 0.31])
def test_drafts_are_not_tried_more_often_as_times_vary(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Of 12 batches one is disturbed by other programs, and takes up to twice as long."""
    random = Random(1)

    def slowness(rows: int) -> float:
        return random.lognormvariate(0, 0.04) * (random.uniform(1.2, 2.2) if random.random() < 1 / 12 else 1.0)

    usual = fmean(slowness(1) for _ in range(20_000))
    seconds = 0.0
    for seed in range(60):
        world = World(monkeypatch, share, lambda position: (0.0, 1.0))
        world.target.slowness = world.drafter.slowness = slowness
        seconds += world.reply(128, seed)[-1]
    assert 60 * plain_seconds(128) * usual / seconds >= 0.965


@SHARES
@PROMPTS
def test_what_one_reply_gained_is_not_lost_by_the_next(
    monkeypatch: pytest.MonkeyPatch, share: float, prompt: int
) -> None:
    chance = 1.0
    world = World(monkeypatch, share, lambda position: (chance, 5.0), prompt)
    world.reply(500)
    chance = 0.0
    assert slowest(world.reply(512, seed=2)) >= 0.97


@SHARES
@PROMPTS
def test_a_text_is_read_for_no_more_than_a_reply_can_lose(
    monkeypatch: pytest.MonkeyPatch, share: float, prompt: int
) -> None:
    """Nine of ten are right for 40 tokens, then none is: when the whole text would be read."""
    world = World(monkeypatch, share, lambda position: (0.9 if position < prompt + 40 else 0.0, 5.0), prompt)
    assert slowest(world.reply(512)) >= 0.97


def test_drafts_that_are_not_known_to_pay_are_tried_at_any_cost_that_a_reply_can_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A draft that takes as long as a step, behind 16 tokens of the text, costs 2.85 steps."""
    world = World(monkeypatch, 1.0, lambda position: (0.0, 1.0), 500)
    world.reply(64)
    assert not world.drafter.rows
    world.reply(128, seed=2)
    assert world.drafter.rows == [16]


@pytest.mark.parametrize("share", [0.03, 0.1])
def test_drafts_that_take_longer_than_expected_are_paid_for_as_they_are(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """Batches with drafts are 1.8 times as slow as those of as many rows elsewhere."""
    world = World(monkeypatch, share, lambda position: (0.0, 1.0))
    world.target.slowness = lambda rows: 1.8 if rows > 1 else 1.0
    assert plain_seconds(256) / world.reply(256)[-1] >= 0.97


def test_drafts_whose_step_found_no_memory_are_paid_and_tried_again_a_page_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paid, tried = list[float](), list[int]()

    class Paid(DraftPolicy):
        def settle(self, plan: DraftPlan, seconds: float) -> None:
            paid.append(seconds)
            super().settle(plan, seconds)

    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", Paid)
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    forward = world.target.forward

    def without_memory(segments: Ids[Segment[Any]]) -> Any:
        if segments[0].drafts:
            tried.append(len(segments[0].sequence))
            raise NoMemoryError("full")
        return forward(segments)

    monkeypatch.setattr(world.target, "forward", without_memory)
    seconds = world.reply(4 * PAGE)[-1]
    assert len(tried) == 4
    assert min(after - before for before, after in pairwise(tried)) >= PAGE
    assert sum(paid) == pytest.approx(seconds - plain_seconds(4 * PAGE))
    assert min(paid) > 0


def test_cold_first_batches_do_not_hide_that_drafts_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    seen = set[int]()

    def slowness(rows: int) -> float:
        kind = (rows - 1).bit_length()
        is_first = kind not in seen
        seen.add(kind)
        return 1.8 if is_first else 1.0

    world.target.slowness = slowness
    assert plain_seconds(1000) / world.reply(1000)[-1] > 0.95 * best(0.8, 0.1, MAX_DRAFT)


@pytest.mark.parametrize("prompt", [500, 4000])
def test_a_long_prompt_is_not_read_for_drafts_that_are_never_right(
    monkeypatch: pytest.MonkeyPatch, prompt: int
) -> None:
    assert speed_up(monkeypatch, 0.0, 0.1, 128, prompt) >= 0.97


def test_a_prompt_is_read_for_drafts_that_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0), 500)
    assert plain_seconds(1000) / world.reply(1000)[-1] > 1.75
    assert max(world.drafter.rows) > 400, "the whole prompt, once it was known that drafts pay"


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_drafts_end_and_begin_again_as_the_text_changes(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Right and never right in turn, 500 tokens each."""
    world = World(monkeypatch, share, lambda position: (0.0 if position // 500 % 2 else 0.8, 1.0))
    times = world.reply(3000)
    parts = [plain_seconds(500) / (end - start) for start, end in pairwise(times[::500])]
    assert min(parts[1::2]) >= 0.97
    for start in 1000, 2000:
        assert plain_seconds(300) / (times[start + 500] - times[start + 200]) > 0.9 * best(0.8, share, MAX_DRAFT)


def test_margins_that_tell_which_drafts_are_right_are_worth_more_than_any_fixed_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of the drafts is right, and their margin tells."""

    def coin(position: int) -> tuple[float, float]:
        return (1.0, 5.0) if uniform(9, 3, position) < 0.5 else (0.0, 0.05)

    world = World(monkeypatch, 0.1, coin)
    assert plain_seconds(3000) / world.reply(3000)[-1] > 1.05 * best(0.5, 0.1, MAX_DRAFT)


def test_a_session_begins_its_replies_with_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 0.8 three drafts are best: a first reply tries single ones before, the next one begins with three."""
    plans = list[DraftPlan]()

    class Planned(DraftPolicy):
        def settle(self, plan: DraftPlan, seconds: float) -> None:
            plans.append(plan)
            super().settle(plan, seconds)

    monkeypatch.setattr("edgellm.generate.speculative_decoder.DraftPolicy", Planned)
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    world.reply(500)
    assert plans[0].is_trial
    plans.clear()
    world.target.rows.clear()
    world.reply(40, seed=2)
    assert plans and not any(plan.is_trial for plan in plans)
    assert world.target.rows[0] == 4


def test_a_disturbed_step_has_no_lasting_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of four rows that takes a second is one that takes twice as long as those before; soon it is corrected."""
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    world.reply(300)
    world.session.drafts.times.record(4, 1.0)
    assert plain_seconds(300) / world.reply(300, seed=2)[-1] > 0.88 * best(0.8, 0.1, MAX_DRAFT)


def test_rows_whose_bits_depend_on_their_batch_have_drafts_if_a_drafter_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    world.target.batch_invariant, world.session.drafts.are_asked_for = False, True
    assert plain_seconds(300) / world.reply(300)[-1] > 1.5
    world.session.drafts.are_asked_for = False
    assert plain_seconds(300) / world.reply(300, seed=2)[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("replies", [2, 4])
def test_replies_that_share_batches_draft_together(monkeypatch: pytest.MonkeyPatch, replies: int) -> None:
    """At 0.8 two replies are 1.45 times as fast with three drafts each, four of them 1.25 times.

    One that is unlucky at first waits for long, as it may lose little: so replies are as long as a thousand steps.
    """
    world = World(monkeypatch, 0.1, lambda position: (0.8, 1.0))
    plain = 2000 * step_seconds(replies)
    assert plain / world.replies(replies, 2000) > 0.9 * best(0.8, 0.1, MAX_DRAFT, replies)


def test_replies_that_share_batches_lose_little_by_drafts_that_are_never_right(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.1, lambda position: (0.0, 1.0))
    assert 400 * step_seconds(4) / world.replies(4, 400) >= 0.97
