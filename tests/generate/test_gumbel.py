"""Draws by Gumbel-max: exact, the same for the same place, and alike for distributions that are alike."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edgellm.options import GenerationOptions
from edgellm.sampling import gumbel
from edgellm.sampling.gumbel import RESIDUAL, DrawKey, exponentials, gumbel_draw, splitmix64
from edgellm.sampling.philox import philox4x32
from edgellm.sampling.sampler import Distribution, Sampler
from support.couplings import Shares, agreement, chi_square, distribution, lower_bound, total_variation

N = 100_000
KEY = DrawKey(seed=12345, sequence=0)


def draws(of: Distribution, n: int = N, key: DrawKey = KEY) -> list[int]:
    return [gumbel_draw(of, key, position).token for position in range(n)]


def shares(of: Distribution) -> dict[int, float]:
    return dict(zip(of.ids.tolist(), of.probabilities.tolist(), strict=True))


def test_the_stream_is_that_of_its_authors() -> None:
    """The first numbers after seed 1234567 of splitmix64.c (S. Vigna, prng.di.unimi.it)."""
    first = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert splitmix64(1234567, np.arange(5)).tolist() == first
    assert splitmix64(1234567, np.array([3, 0])).tolist() == [first[3], first[0]]


def test_exponential_numbers_are_those_of_the_upper_52_bits() -> None:
    ids, key = np.array([7, 0, 2**32 - 1]), DrawKey(2**64 - 2**33 + 5, 9)
    high, low, _, _ = philox4x32((2**32 - 1, 0, 9, RESIDUAL), (2**32 - 2, 5)[::-1])
    words = [mixed((high << 32) + low, i) for i in ids.tolist()]
    expected = [-np.log((2 * (word >> 12) + 1) / 2**53) for word in words]
    assert exponentials(ids, key, 2**32 - 1, RESIDUAL).tolist() == pytest.approx(expected, rel=1e-14)


def mixed(start: int, number: int) -> int:
    """Number `number` of SplitMix64, in integers without a limit."""
    z = (start + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def test_the_extreme_numbers_are_above_zero_and_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.array([0, 2**64 - 1], np.uint64)
    monkeypatch.setattr(gumbel, "splitmix64", lambda start, ids: words)
    largest, smallest = exponentials(np.arange(2), KEY, 0).tolist()
    assert largest == pytest.approx(53 * np.log(2)) and smallest == pytest.approx(2.0**-53)


def test_a_draw_depends_on_its_place_alone() -> None:
    even = distribution(*[1.0] * 1000)
    first = draws(even, 50)
    assert [gumbel_draw(even, KEY, position).token for position in reversed(range(50))] == first[::-1]
    others = [draws(even, 50, DrawKey(*key)) for key in ((12346, 0), (12345 + 2**32, 0), (12345, 1))]
    others += [[gumbel_draw(even, KEY, position, purpose).token for position in range(50)] for purpose in (2, 3)]
    for one in others:
        assert sum(x == y for x, y in zip(one, first, strict=True)) <= 2


def sampled() -> Distribution:
    """40 of 500 tokens, behind a mask and penalties."""
    random = np.random.default_rng(5)
    sampler = Sampler(GenerationOptions(temp=1.1, top_p=1.0, min_p=0.0, repeat_penalty=1.2), 500)
    for token in range(0, 500, 3):
        sampler.accept(token)
    return sampler.apply((2 * random.standard_normal(500)).astype(np.float32), np.arange(500) % 4 > 0)


def everything() -> Distribution:
    """3,000 tokens, none of them cut."""
    logits = np.random.default_rng(6).standard_normal(3000) * 2
    sampler = Sampler(GenerationOptions(temp=1.0, top_k=0, top_p=1.0, min_p=0.0), 3000)
    return sampler.apply(logits.astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("made", [lambda: distribution(0.5, 0.3, 0.15, 0.05), sampled, everything])
def test_draws_follow_the_distribution(made: Callable[[], Distribution]) -> None:
    of = made()
    found, expected = draws(of), shares(of)
    assert chi_square(found, expected) < 1
    # The four likeliest tokens, and all others as one.
    likely = of.ids[:4].tolist()
    classes = [token if token in likely else -1 for token in found]
    mass = {token: expected[token] for token in likely} | {-1: float(of.probabilities[4:].sum())}
    mass = {token: share for token, share in mass.items() if share}
    # A share that is a tenth larger is found out, so the test can fail.
    larger = 0.1 * mass[likely[0]]
    wrong = {token: (share + larger * (token == likely[0])) / (1 + larger) for token, share in mass.items()}
    assert chi_square(classes, mass) < 1 < chi_square(classes, wrong)
    # Successive draws are independent.
    pairs = {(x, y): mass[x] * mass[y] for x in mass for y in mass}
    assert chi_square(list(pairwise(classes))[::2], pairs) < 1


@pytest.mark.slow
def test_two_distributions_agree_as_often_as_the_closed_form_says() -> None:
    left, right = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.3, 0.4, 0.1, 0.2])
    p, q, expected = distribution(*left), distribution(*right), agreement(left, right)
    assert expected == pytest.approx(0.7195, abs=5e-5)
    others = draws(q)
    found = sum(x == y for x, y in zip(draws(p), others, strict=True)) / N
    assert abs(found - expected) < 4 * (expected * (1 - expected) / N) ** 0.5
    assert chi_square(others, shares(q)) < 1


def test_agreement_by_hand() -> None:
    # Token 0: 1 / (1 + max(1, 1/4)) = 1/2. Token 1: 1 / (1 + max(1, 4)) = 1/5.
    assert agreement(np.array([0.5, 0.5]), np.array([0.8, 0.2])) == pytest.approx(0.7)
    assert agreement(np.array([0.5, 0.5, 0]), np.array([0.0, 0, 1])) == 0


SHARES = arrays(np.float64, 8, elements=st.one_of(st.just(0.0), st.floats(1e-6, 1))).filter(np.any)


@settings(deadline=None)
@given(SHARES, SHARES)
def test_agreement_is_between_its_bounds(left: Shares, right: Shares) -> None:
    p, q = left / left.sum(), right / right.sum()
    assert lower_bound(p, q) - 1e-9 <= agreement(p, q) <= 1 - total_variation(p, q) + 1e-9
    assert agreement(p, p) == pytest.approx(1)


def test_the_margin_is_that_of_the_two_best_perturbed_scores() -> None:
    of = distribution(0.5, 0.3, 0.15, 0.05)
    for position in range(100):
        scores = np.log(of.probabilities) - np.log(exponentials(of.ids, KEY, position))
        second, first = np.sort(scores)[-2:]
        drawn = gumbel_draw(of, KEY, position)
        assert drawn.token == of.ids[scores.argmax()] and drawn.margin == pytest.approx(first - second)


def test_a_token_that_is_alone_needs_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gumbel, "philox4x32", None)
    assert gumbel_draw(distribution(0, 0, 1), KEY, 4) == (2, np.inf)


def test_a_token_that_is_next_to_impossible_is_not_drawn() -> None:
    of = Distribution(np.array([4, 9]), np.array([1.0, 5e-324]))
    assert draws(of, 100) == [4] * 100
    assert gumbel_draw(of, KEY, 0).margin == np.inf
