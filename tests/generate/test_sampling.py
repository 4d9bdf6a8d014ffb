import math
from collections import Counter
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.options import GenerationOptions
from edgellm.sampling.gumbel import DrawKey, gumbel_draw
from edgellm.sampling.penalty_window import PenaltyWindow
from edgellm.sampling.philox import philox4x32, uniform
from edgellm.sampling.sampler import Distribution, Sampler, logprob
from edgellm.sampling.top_k import at_least, top_k

Logits = NDArray[np.float32]

SHARES = [0.1, 0.5, 0.04, 0.3, 0.06]  # ids by rank: 1 3 0 4 2
ALL_OFF = {"temp": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


def scores(*values: float) -> Logits:
    return np.array(values, np.float32)


def log(*shares: float) -> Logits:
    return scores(*(math.log(share) if share else -math.inf for share in shares))


def sample(logits: Logits, history: tuple[int, ...] = (), **options: object) -> dict[int, float]:
    """Token to probability, in the order of the distribution; stages that are not named are off."""
    sampler = Sampler(GenerationOptions.from_kwargs(**{**ALL_OFF, **options}), len(logits))
    for token in history:
        sampler.accept(token)
    ids, probabilities = sampler.apply(logits)
    return dict(zip(ids.tolist(), probabilities.tolist(), strict=True))


def is_close(found: dict[int, float], expected: dict[int, float]) -> bool:
    values = pytest.approx(list(expected.values()), rel=1e-5)
    return list(found) == list(expected) and bool(list(found.values()) == values)


def test_with_all_stages_off_it_is_the_softmax() -> None:
    assert is_close(sample(log(*SHARES)), {1: 0.5, 3: 0.3, 0: 0.1, 4: 0.06, 2: 0.04})


def test_temperature_raises_shares_to_its_inverse() -> None:
    # 0.8**2 : 0.2**2 = 16 : 1, and sqrt(0.64) : sqrt(0.16) = 2 : 1
    assert is_close(sample(log(0.2, 0.8), temp=0.5), {1: 16 / 17, 0: 1 / 17})
    assert is_close(sample(log(0.64, 0.16), temp=2), {0: 2 / 3, 1: 1 / 3})


def test_temperature_zero_is_greedy_and_ties_go_to_the_lowest_id() -> None:
    assert sample(scores(1, 3, 2, 3), temp=0) == {1: 1.0}
    assert sample(scores(1, 3, 2, 3), temp=0, top_k=2, logit_bias={2: 1.5}) == {2: 1.0}


def test_top_k_keeps_the_k_most_likely_and_the_lowest_ids_of_equals() -> None:
    assert is_close(sample(log(*SHARES), top_k=2), {1: 0.625, 3: 0.375})
    assert is_close(sample(scores(0, 1, 1, 1), top_k=2), {1: 0.5, 2: 0.5})
    assert len(sample(log(*SHARES), top_k=99)) == 5


@pytest.mark.parametrize(("top_p", "kept"), [(0, 1), (0.49, 1), (0.51, 2), (0.79, 2), (0.81, 3), (0.99, 5)])
def test_top_p_keeps_the_fewest_that_reach_it(top_p: float, kept: int) -> None:
    assert list(sample(log(*SHARES), top_p=top_p)) == [1, 3, 0, 4, 2][:kept]


@pytest.mark.parametrize(("min_p", "kept"), [(1, 1), (0.61, 1), (0.59, 2), (0.19, 3), (0.11, 4), (0.07, 5)])
def test_min_p_keeps_those_with_a_part_of_the_best(min_p: float, kept: int) -> None:
    # the best has 0.5: the others have 0.6, 0.2, 0.12 and 0.08 of it
    assert list(sample(log(*SHARES), min_p=min_p)) == [1, 3, 0, 4, 2][:kept]


def test_the_repeat_penalty_divides_positive_logits_and_multiplies_negative_ones() -> None:
    found = sample(scores(2, -1, 0, 0.5), history=(0, 1, 1, 2), repeat_penalty=2.0)
    weights = {0: math.e, 3: math.exp(0.5), 2: 1.0, 1: math.exp(-2)}
    assert is_close(found, {i: w / sum(weights.values()) for i, w in weights.items()})


def test_frequency_counts_each_time_and_presence_only_once() -> None:
    found = sample(scores(3, 3, 3), (0, 0, 0, 1), frequency_penalty=0.5, presence_penalty=0.25)
    weights = {2: 1.0, 1: math.exp(-0.75), 0: math.exp(-1.75)}
    assert is_close(found, {i: w / sum(weights.values()) for i, w in weights.items()})


@pytest.mark.parametrize(("last_n", "greedy"), [(0, 0), (1, 0), (2, 0), (3, 2), (4, 2), (-1, 2)])
def test_penalties_look_at_the_last_tokens_only(last_n: int, greedy: int) -> None:
    # 0 came three tokens ago: it falls below 2 once the window reaches it; 1 came since, and was never ahead
    found = sample(scores(2, 1, 1.5), (0, 1, 1), temp=0, repeat_penalty=2, penalty_last_n=last_n)
    assert list(found) == [greedy]


def test_a_bias_is_added_and_one_of_minus_infinity_forbids() -> None:
    found = sample(log(0.2, 0.2, 0.6), logit_bias={0: math.log(3), 2: -math.inf})
    assert is_close(found, {0: 0.75, 1: 0.25})


def test_a_bias_for_a_token_beyond_the_vocabulary_is_refused() -> None:
    with pytest.raises(OptionError, match="logit_bias has token 5: give ids below 5"):
        Sampler(GenerationOptions(logit_bias={4: 1.0, 5: 1.0}), 5)


def test_the_order_of_the_stages() -> None:
    # bias takes 4 from 0.06 to 0.6, the penalty takes 1 from 0.5 to 0.2;
    # top-k leaves 4, 3, 1 with 0.6, 0.3, 0.2; top-p 0.8 asks for 0.88 of these 1.1, so 4 and 3 do with 0.9
    # (of the 1.24 before top-k it would ask for 0.99, and keep three);
    # min-p keeps 0.3 / 0.6 (temperature first would have made it 0.09 / 0.36, too little); then 0.36 to 0.09
    options = {"logit_bias": {4: math.log(10)}, "repeat_penalty": math.log(0.2) / math.log(0.5), "top_k": 3}
    found = sample(log(*SHARES), (1,), **options, top_p=0.8, min_p=0.3, temp=0.5)
    assert is_close(found, {4: 0.8, 3: 0.2})


@pytest.mark.parametrize("options", [{}, {"top_p": 0.5}, {"repeat_penalty": 2, "logit_bias": {0: -math.inf}}])
def test_the_logits_stay_as_they_were(options: dict[str, Any]) -> None:
    logits = scores(1, math.inf, -math.inf, 0)
    sample(logits, (1,), **options)
    logprob(logits, 0)
    assert np.array_equal(logits, scores(1, math.inf, -math.inf, 0))


@pytest.mark.parametrize("temp", [0, 1])
def test_broken_and_infinite_logits(temp: float) -> None:
    with pytest.raises(EdgeLLMError, match="NaN"):
        sample(scores(1, math.nan, 2), temp=temp)
    with pytest.raises(EdgeLLMError, match="no token may come"):
        sample(log(0, 0), temp=temp)
    with pytest.raises(EdgeLLMError, match="no token may come"):
        sample(log(0.5, 0.5), temp=temp, logit_bias={0: -math.inf, 1: -math.inf})
    assert sample(scores(-math.inf, 1), temp=temp) == {1: 1.0}
    assert sample(scores(5, math.inf, -math.inf), temp=temp, logit_bias={0: 1e300}).keys() <= {0, 1}


def test_infinite_logits_share_all_the_probability_unless_forbidden() -> None:
    logits = scores(math.inf, 7, math.inf)
    assert sample(logits) == {0: 0.5, 2: 0.5}
    assert sample(logits, (0,), repeat_penalty=1e-300, logit_bias={2: -math.inf}) == {0: 1.0}
    assert logprob(logits, 2) == math.log(0.5) and logprob(logits, 1) < -1e38


def test_a_tiny_temperature_takes_the_most_likely_token() -> None:
    assert sample(log(*SHARES), temp=5e-324) == {1: 1.0}


def test_logprob_is_that_of_the_raw_logits_and_survives_large_ones() -> None:
    for shift in (0, 1e4, -1e4):
        logits = scores(0, 1, 2, 4) + np.float32(shift)
        total = math.log(1 + math.e + math.e**2 + math.e**4)
        expected = [x - total for x in (0, 1, 2, 4)]
        assert [logprob(logits, i) for i in range(4)] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(EdgeLLMError, match="NaN"):
        logprob(scores(0, math.nan), 0)


# Known answers of Random123 (tests/kat_vectors): counter, key, result.
PHILOX = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), PHILOX)
def test_philox_gives_its_known_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, int, int, int]
) -> None:
    assert philox4x32(counter, key) == words


def test_uniform_spreads_its_arguments_over_key_and_counter() -> None:
    position, sequence, seed = 0x85A308D3_243F6A88, 0x03707344_13198A2E, 0x299F31D0_A4093822
    bits = (0xD16CFE09_94FDCCEB >> 37 << 26) + (0x94FDCCEB >> 6)
    assert uniform(seed, sequence, position) == bits / 2**53
    assert 0 <= uniform(2**64 - 1, 2**64 - 1, 2**64 - 1) < 1


def naive(logits: Logits, o: GenerationOptions, history: list[int], allowed: NDArray[np.bool_]) -> dict[int, float]:
    """The chain as its definition reads, stage by stage, in Python floats."""
    x = [logit + o.logit_bias.get(i, 0.0) for i, logit in enumerate(logits.tolist())]
    window = history if o.penalty_last_n < 0 else history[max(0, len(history) - o.penalty_last_n) :]
    for i, count in Counter(window).items():
        x[i] = x[i] / o.repeat_penalty if x[i] > 0 else x[i] * o.repeat_penalty
        x[i] -= count * o.frequency_penalty + o.presence_penalty
    ids = sorted(np.flatnonzero(allowed).tolist(), key=lambda i: (-x[i], i))[: o.top_k or None]
    share = softmax([x[i] for i in ids])
    before = [0.0, *accumulate(share)]
    within = [n for n in range(len(ids)) if before[n] < o.top_p and share[n] >= o.min_p * share[0]]
    ids = [ids[n] for n in within] or ids[:1]
    return dict(zip(ids, softmax([x[i] / o.temp for i in ids]), strict=True))


def softmax(x: list[float]) -> list[float]:
    peak = max(x)
    weights = [math.exp(value - peak) for value in x]
    total = sum(weights)
    return [weight / total for weight in weights]


OPTIONS = st.builds(
    GenerationOptions,
    temp=st.sampled_from([0.3, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 3, 40, 3000]),
    top_p=st.sampled_from([0.0, 0.413, 0.917, 1.0]),
    min_p=st.sampled_from([0.0, 0.0513, 0.4137]),
    repeat_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.7, -0.7]),
    frequency_penalty=st.sampled_from([0.0, 0.2]),
    penalty_last_n=st.sampled_from([-1, 0, 2, 64]),
    logit_bias=st.dictionaries(st.integers(0, 5), st.sampled_from([-3.0, 0.5, 4.0]), max_size=2),
)
TOKENS = st.lists(st.integers(0, 5), max_size=8)


@settings(deadline=None, derandomize=True)  # a sum within rounding of top_p may go either way
@given(st.data(), st.sampled_from([6, 50, 5000]), OPTIONS, TOKENS)
def test_it_equals_the_naive_chain(data: st.DataObject, n: int, options: GenerationOptions, history: list[int]) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    logits = (random.standard_normal(n) * 3).astype(np.float32)
    allowed = random.random(n) < data.draw(st.sampled_from([0.3, 1.0]))
    allowed[0] = True
    sampler = Sampler(options, n)
    for token in history:
        sampler.accept(token)
    ids, probabilities = sampler.apply(logits, allowed)
    expected = naive(logits, options, history, allowed)
    assert set(ids.tolist()) == set(expected)
    assert probabilities.tolist() == pytest.approx([expected[i] for i in ids.tolist()], abs=1e-5)


@settings(deadline=None)
@given(arrays(np.float32, 40, elements=st.floats(-50, 50, width=32)), OPTIONS, arrays(np.bool_, 40), TOKENS)
def test_a_distribution_is_one(
    logits: Logits, options: GenerationOptions, allowed: NDArray[np.bool_], history: list[int]
) -> None:
    allowed[7] = True
    sampler = Sampler(options, 40)
    for token in history:
        sampler.accept(token)
    ids, probabilities = sampler.apply(logits, allowed)
    assert probabilities.sum() == pytest.approx(1) and (probabilities > 0).all()
    assert (np.diff(probabilities) <= 0).all() and len(set(ids.tolist())) == len(ids)
    assert allowed[ids].all() and (options.top_k == 0 or len(ids) <= options.top_k)
    assert gumbel_draw(Distribution(ids, probabilities), DrawKey(1, 2), 3).token in ids


@given(OPTIONS, TOKENS, TOKENS)
def test_rollback_undoes_accept(options: GenerationOptions, kept: list[int], tried: list[int]) -> None:
    logits = np.linspace(-2, 2, 6, dtype=np.float32)
    straight, turned = Sampler(options, 6), Sampler(options, 6)
    for token in kept:
        straight.accept(token)
        turned.accept(token)
    for token in tried:
        turned.accept(token)
    turned.rollback(len(tried))
    for found, expected in zip(turned.apply(logits), straight.apply(logits), strict=True):
        assert np.array_equal(found, expected)


@given(st.sampled_from([-1, 0, 1, 3]), st.lists(st.one_of(st.integers(0, 4), st.integers(-9, -1))))
def test_the_last_tokens_are_counted(n: int, steps: list[int]) -> None:
    recent, tokens = PenaltyWindow(n), list[int]()
    for step in steps:
        if step < 0:
            recent.rollback(-step)
            del tokens[step:]
        else:
            recent.accept(step)
            tokens.append(step)
        ids, counts = recent.counts()
        window = tokens if n < 0 else tokens[max(0, len(tokens) - n) :]
        assert dict(zip(ids.tolist(), counts.tolist(), strict=True)) == Counter(window)


ODD = [0.0, -0.0, math.inf, -math.inf, 1e-45, -1e-45, 3e38, -3e38]


@pytest.mark.parametrize("kind", ["ties", "spread", "odd", "few"])
@pytest.mark.parametrize("k", [1, 40, 700, 5000, 32_003, 99_999])
def test_the_top_of_a_large_vocabulary_is_exact(k: int, kind: str) -> None:
    random, n = np.random.default_rng(k), 32_003
    made = {"ties": random.integers(-30, 30, n), "spread": random.normal(0, 3, n), "odd": random.choice(ODD, n)}
    made["few"] = np.where(random.random(n) < 0.001, made["spread"], -math.inf)
    values = made[kind].astype(np.float32)
    order = sorted(range(n), key=lambda i: (-values[i], i))
    possible = int(np.count_nonzero(values > -math.inf))
    assert top_k(values, k).tolist() == order[: min(k, possible)]
    floor = float(values[order[min(k, n) - 1]])
    assert at_least(values, floor).tolist() == order[: int(np.count_nonzero(values >= floor))]
