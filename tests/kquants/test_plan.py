"""Plans: slots sorted by expert; what slots read, and their weighted sums: the same bits as NumPy's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kquants.layout import PIECE, route_scratch
from kquants.records import CombineOp, GatherOp, PlanOp, group_list_bytes
from support.activation_rows import ActivationRows, in_any_chunks, pieces
from support.kernels import batch_record, fenced, guarded, op_record, run_op, same_bits
from support.quantized_targets import Targets

F32 = np.float32
Array = NDArray[Any]


def plan(chosen: Array, experts: int) -> tuple[Array, Array, Array]:
    """(Groups as rows of expert and first slot, choices of slots, slots of choices)."""
    rows, used = chosen.shape
    groups = guarded((group_list_bytes(experts) // 8 + 1,), np.int64)
    choices, slots = (guarded((rows * used + 1,), np.int32) for _ in range(2))
    arguments = PlanOp(fenced(chosen.astype(np.int32)), experts, used, groups, choices, slots)
    run_op(op_record("plan", arguments, units=1), batch_record(rows), 1, route_scratch(experts))
    assert choices[-1] == slots[-1] == guarded((1,), np.int32)[0] and groups[-1] == guarded((1,), np.int64)[0]
    return groups[1 : 3 + 2 * groups[0]].reshape(-1, 2), choices[:-1], slots[:-1]


@st.composite
def choices_of_rows(draw: st.DrawFn) -> tuple[Array, int]:
    """The experts of some rows, all different within a row; and how many experts there are."""
    experts = draw(st.integers(1, 40))
    used, rows = draw(st.integers(1, min(experts, 8))), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    liked = rng.random(experts) ** draw(st.sampled_from([0, 1, 30])) + 1e-9  # even, uneven, a few for all
    return np.array([rng.choice(experts, used, replace=False, p=liked / liked.sum()) for _ in range(rows)]), experts


@given(choices_of_rows())
@settings(max_examples=80, deadline=None)
def test_slots_are_sorted_by_expert_and_then_by_row(case: tuple[Array, int]) -> None:
    chosen, experts = case
    groups, choices, slots = plan(chosen, experts)
    flat = chosen.ravel()
    assert (choices == np.argsort(flat, kind="stable")).all()
    assert (slots[choices] == np.arange(flat.size)).all(), "each is the inverse of the other"
    used, counts = np.unique(flat, return_counts=True)
    assert (groups[:-1, 0] == used).all()
    assert (np.diff(groups[:, 1]) == counts).all() and groups[0, 1] == 0


def test_one_expert_of_all_rows_and_all_experts() -> None:
    groups, choices, slots = plan(np.full((9, 1), 3), 5)
    assert groups.tolist()[0] == [3, 0] and groups[1, 1] == 9 and len(groups) == 2
    assert choices.tolist() == slots.tolist() == list(range(9))
    groups, _, _ = plan(np.arange(5)[None, ::-1], 5)
    assert groups[:, 1].tolist() == [0, 1, 2, 3, 4, 5]


def random_plan(rows: int, used: int) -> tuple[Array, Array, Array]:
    """(Choices, slots, weights) of rows."""
    rng = np.random.default_rng(rows)
    _, choices, slots = plan(np.array([rng.permutation(12)[:used] for _ in range(rows)]), 12)
    return fenced(choices), fenced(slots), fenced(rng.random((rows, used)).astype(F32))


@pytest.mark.parametrize("n", [1, 40, PIECE, 2 * PIECE + 24])
@pytest.mark.parametrize("with_weights", [False, True])
def test_slots_read_their_rows(with_weights: bool, n: int) -> None:
    rows, used = 5, 3
    choices, _, weights = random_plan(rows, used)
    x, units = np.random.default_rng(n).standard_normal((rows, n)).astype(F32), rows * used * pieces(n)

    def run(chunk: int) -> list[ActivationRows]:
        of, to = ActivationRows(x), ActivationRows(np.full((rows * used, n), 99, F32))
        arguments = GatherOp(
            of.array, of.nbytes, n, used, choices, weights if with_weights else 0, to.array, to.nbytes, 0, 0
        )
        run_op(op_record("gather", arguments, slots=used), batch_record(rows), units, 4 * PIECE, chunk=chunk)
        return [to, of]

    found, unchanged = in_any_chunks(run, units)
    wanted = x[choices // used] * weights.ravel()[choices][:, None] if with_weights else x[choices // used]
    assert same_bits(found, wanted)
    assert same_bits(unchanged, x)


@pytest.mark.parametrize("n", [32, 256, 768])
@pytest.mark.parametrize("with_weights", [False, True])
@pytest.mark.parametrize("with_floats", [False, True])
def test_slots_read_quantized_rows(with_floats: bool, with_weights: bool, n: int) -> None:
    """Their bytes are those of the rows quantized by themselves: `Targets.check`."""
    rows, used = 5, 3
    choices, _, weights = random_plan(rows, used)
    x = np.random.default_rng(n).standard_normal((rows, n)).astype(F32)
    to, h = Targets(rows * used, n), ActivationRows(np.zeros((rows * used, n), F32))
    arguments = GatherOp(
        x=fenced(x),
        x_bytes=x[0].nbytes,
        n=n,
        used=used,
        choices=choices,
        weights=weights if with_weights else 0,
        h=h.array if with_floats else 0,
        h_bytes=h.nbytes,
        q8=to.q8,
        super_q8=to.super_q8,
    )
    op = op_record("gather", arguments, slots=used)
    run_op(op, batch_record(rows), rows * used * pieces(n), 4 * PIECE)
    scaled = x[choices // used] * (weights.ravel()[choices][:, None] if with_weights else 1)
    to.check(scaled)
    assert same_bits(h.values, scaled if with_floats else np.zeros_like(scaled))


@pytest.mark.parametrize("n", [1, 40, PIECE, 2 * PIECE + 24])
@pytest.mark.parametrize("with_weights", [False, True])
@pytest.mark.parametrize("accumulate", [False, True])
def test_results_are_added_in_the_order_of_choices(accumulate: bool, with_weights: bool, n: int) -> None:
    rows, used, scale = 6, 5, F32(0.22)
    _, slots, weights = random_plan(rows, used)
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((rows, n)).astype(F32), rng.standard_normal((rows * used, n)).astype(F32)

    def run(chunk: int) -> list[ActivationRows]:
        to, of = ActivationRows(x if accumulate else np.full_like(x, np.nan)), ActivationRows(y)
        arguments = CombineOp(
            x=to.array,
            x_bytes=to.nbytes,
            y=of.array,
            y_bytes=of.nbytes,
            n=n,
            used=used,
            slots=slots,
            weights=weights if with_weights else 0,
            accumulate=int(accumulate),
            scale=float(scale),
        )
        run_op(op_record("combine", arguments), batch_record(rows), rows * pieces(n), chunk=chunk)
        return [to, of]

    found, unchanged = in_any_chunks(run, rows * pieces(n))
    total = np.zeros_like(x)
    for j in range(used):
        factors = weights[:, j, None] if with_weights else F32(1)
        total += factors * y[slots.reshape(rows, used)[:, j]]
    assert same_bits(found, x + scale * total if accumulate else scale * total)
    assert same_bits(unchanged, y)
