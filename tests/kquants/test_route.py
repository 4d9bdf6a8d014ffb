"""Routers: the experts that they choose and the weights of these, against the formulas in float64."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kquants.layout import route_scratch
from kquants.records import SCORES_SIGMOID, SCORES_SOFTMAX, SCORES_SPARSE_MIXER, RouteOp
from support.kernels import batch_record, fenced, guarded, op_record, run_op, same_bits
from support.routing import Routing

F32 = np.float32
Array = NDArray[Any]


def route(r: Routing, logits: Array, bias: Array | None = None, factors: Array | None = None) -> tuple[Array, Array]:
    """The experts of each row, and their weights; the same for all rows at once and for one after the other."""
    rows, experts = logits.shape
    behind = fenced(np.pad(logits.astype(F32), ((0, 0), (3, 0))))  # the last value is the end of the memory
    found = []
    scoring = SCORES_SPARSE_MIXER if r.sparse_mixer else SCORES_SIGMOID if r.sigmoid else SCORES_SOFTMAX
    for chunk in (rows, 1):
        chosen, weights = guarded((rows + 1, r.used), np.int32), guarded((rows + 1, r.used), F32)
        arguments = RouteOp(
            logits=behind.ctypes.data + 12,
            logits_bytes=behind[0].nbytes,
            experts=experts,
            used=r.used,
            scoring=scoring,
            normalized=int(r.normalized),
            selection_bias=0 if bias is None else fenced(bias),
            expert_scales=0 if factors is None else fenced(factors),
            groups=r.groups,
            used_groups=r.used_groups,
            group_scores=r.group_scores,
            chosen=chosen,
            weights=weights,
            logit_scale=r.logit_scale,
            scale=r.scale,
        )
        op = op_record("route", arguments, per_row=1)
        run_op(op, batch_record(rows), rows, route_scratch(experts), chunk=chunk)
        assert same_bits(chosen[rows:].view(F32), guarded((1, r.used), F32)), "wrote past the rows"
        assert same_bits(weights[rows:], guarded((1, r.used), F32)), "wrote past the rows"
        found.append((chosen[:rows], weights[:rows]))
    (chosen, weights), (one_by_one, their_weights) = found
    assert (chosen == one_by_one).all() and same_bits(weights, their_weights)
    return chosen, weights


ROUTINGS = {
    "qwen3moe": Routing(8, normalized=True),
    "qwen2moe": Routing(4),
    "sigmoid": Routing(8, sigmoid=True),
    "all": Routing(60, normalized=True),
    "one": Routing(1, sigmoid=True, logit_scale=0.25),
    "deepseek v2": Routing(6, groups=6, used_groups=2, group_scores=1, scale=16.0),
    "deepseek v3": Routing(8, sigmoid=True, normalized=True, groups=4, used_groups=2, scale=2.5),
    "all groups": Routing(8, sigmoid=True, normalized=True, groups=4, used_groups=4),
    "groups of one": Routing(7, groups=60, used_groups=9, group_scores=1),
}


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("name", ROUTINGS)
def test_experts_and_weights(name: str, with_bias: bool) -> None:
    r, rng = ROUTINGS[name], np.random.default_rng(5)
    logits = (rng.standard_normal((40, 60)) * 3).astype(F32)
    bias = (rng.standard_normal(60) * 0.2).astype(F32) if with_bias else None
    factors = rng.uniform(0.5, 2, 60).astype(F32) if with_bias else None
    chosen, weights = route(r, logits, bias, factors)
    wanted, exact = r.of(logits, bias, factors)
    assert (chosen == wanted).all()
    assert np.allclose(weights, exact, rtol=3e-6, atol=0)


@given(st.integers(1, 70), st.data())
@settings(max_examples=60, deadline=None)
def test_ties_go_to_the_lowest_index(experts: int, data: st.DataObject) -> None:
    """Few different logits, so that most are equal, with biases that make others equal."""
    values = st.sampled_from([-2.0, -0.0, 0.0, 0.5])
    logits = np.array([data.draw(st.lists(values, min_size=experts, max_size=experts))], F32)
    used = data.draw(st.integers(1, experts))
    chosen, weights = route(Routing(used, normalized=True), logits)
    assert chosen[0].tolist() == sorted(range(experts), key=lambda i: (-logits[0, i], i))[:used]
    assert (np.diff(weights[0]) <= 0).all() and abs(weights.sum() - 1) < 1e-5


def test_logits_that_differ_in_their_last_bit_are_no_tie() -> None:
    """Their scores are the same float32."""
    logits = np.full((1, 40), 0.01, F32)
    logits[0, 23] = np.nextafter(F32(0.01), F32(1))
    logits[0, 11] = np.nextafter(F32(0.01), F32(0))
    chosen, weights = route(Routing(39), logits)
    assert np.unique(weights).size == 1
    assert chosen[0].tolist() == [23, *(i for i in range(40) if i not in (11, 23))]
    assert route(Routing(40, sigmoid=True), logits)[0][0].tolist() == [*chosen[0].tolist(), 11]


@pytest.mark.parametrize("name", ROUTINGS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_experts_are_distinct_and_in_range_whatever_the_logits(name: str, bad: float) -> None:
    r, rng = ROUTINGS[name], np.random.default_rng(7)
    logits = np.where(rng.random((30, 60)) < np.linspace(0, 1, 30)[:, None], bad, rng.standard_normal((30, 60)))
    bias = np.where(rng.random(60) < 0.2, bad, 0.1).astype(F32)
    for given_bias in (None, bias):
        chosen, weights = route(r, logits.astype(F32), given_bias)
        assert ((chosen >= 0) & (chosen < 60)).all()
        assert all(len(set(row)) == r.used for row in chosen.tolist())
        if np.isnan(bad) and given_bias is None:
            has_nan = np.isnan(logits).any(axis=1)
            assert (np.isnan(weights).any(axis=1) == has_nan).all(), "the result shows a NaN"


def test_logits_far_apart() -> None:
    logits = np.array([[-3e38, 3e38, 0, 88], [-200, -150, -100, -120]], F32)
    chosen, weights = route(Routing(2, normalized=True), logits)
    assert chosen.tolist() == [[1, 3], [2, 3]]
    assert np.allclose(weights, [[1, 0], [1, np.exp(-20)]])
    chosen, weights = route(Routing(2, sigmoid=True, normalized=True), logits)
    assert chosen.tolist() == [[1, 3], [2, 3]]
    assert (weights[1] < 1e-10).all(), "scores that are as good as 0 weigh nothing"


@pytest.mark.parametrize("experts", [16, 60])
def test_sparse_mixer(experts: int) -> None:
    """Some logits are near others, by less than a fiftieth, and some are equal or negative."""
    rng = np.random.default_rng(3)
    logits = rng.standard_normal((200, experts)) + rng.choice([-9, 0, 9], (200, 1))
    logits = np.where(rng.random(logits.shape) < 0.2, logits[:, :1] * rng.uniform(0.97, 1.03, logits.shape), logits)
    logits[::7, 3] = logits[::7].max(axis=1)
    r = Routing(2, sparse_mixer=True)
    chosen, weights = route(r, logits)
    wanted, exact = r.of(logits.astype(F32))
    assert (chosen == wanted).all()
    assert np.allclose(weights, exact, rtol=3e-6, atol=0)
    assert (exact > 0.999).any() and (exact < 0.6).any(), "the rows are of both kinds"


def test_sparse_mixer_by_hand() -> None:
    """The second logit is near the first, and the third near the second; the first is not counted for the second."""
    chosen, weights = route(Routing(2, sparse_mixer=True), np.array([[10.0, 9.85, 9.7, 3.0], [0, -1, -1.01, -2]], F32))
    assert chosen.tolist() == [[0, 1], [0, 1]]
    near = 1 / (1 + np.exp(-0.15))
    assert np.allclose(weights, [[near, near], [1, 1 / (1 + np.exp(-0.01))]], rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_sparse_mixer_chooses_distinct_experts_in_range(bad: float) -> None:
    rng = np.random.default_rng(7)
    logits = np.where(rng.random((30, 16)) < np.linspace(0, 1, 30)[:, None], bad, rng.standard_normal((30, 16)))
    chosen, _ = route(Routing(2, sparse_mixer=True), logits)
    assert ((chosen >= 0) & (chosen < 16)).all() and (chosen[:, 0] != chosen[:, 1]).all()
