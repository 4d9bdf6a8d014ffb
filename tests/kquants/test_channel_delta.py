"""The delta rule with a decay for each channel of keys, and what it reads: against float64, same bits for any cut."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.records import ChannelDeltaInputsOp, ChannelDeltaRuleOp
from support.activation_rows import ActivationRows, in_any_chunks
from support.kernels import batch_record, fenced, op_record, run_op
from support.recurrent_kernels import (
    CUTS,
    GROUP,
    OFFSET,
    Cut,
    blocks_of,
    check_any_cut,
    check_formula,
    run_states,
)

F32 = np.float32
Array = NDArray[Any]
SIZES = [(4, 32), (3, 48), (2, 23), (1, 16), (2, 128)]
"""Heads and their values."""


class Scan:
    """Random inputs of 16 rows."""

    def __init__(self, heads: int, n: int) -> None:
        rng = np.random.default_rng(heads + n)
        self.heads, self.n, shape = heads, n, (16, heads * n)
        self.q, self.k = ((rng.standard_normal(shape) / np.sqrt(n)).astype(F32) for _ in range(2))
        self.v, self.decay = rng.standard_normal(shape).astype(F32), rng.uniform(0, 1, shape).astype(F32)
        self.beta = rng.uniform(0, 1, (16, heads)).astype(F32)
        self.before = rng.standard_normal((3, heads, n, n)).astype(F32)

    @property
    def units(self) -> int:
        """A unit for each 32 columns of a head."""
        return self.heads * -(-self.n // 32)

    def run(self, cut: Cut, before: Array, rows: slice, chunk: int) -> tuple[Array, list[Array]]:
        """What the kernel gives for these rows."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            decayed_k = self.decay * self.k
        inputs = [ActivationRows(each[rows]) for each in (self.q, self.k, self.v, self.decay, decayed_k)]
        y, beta = ActivationRows(np.full_like(self.q[rows], 9)), ActivationRows(self.beta[rows])
        op = ChannelDeltaRuleOp(
            *(each.array for each in (*inputs, y)),
            row_bytes=y.nbytes,
            heads=self.heads,
            head_dim=self.n,
            beta=beta.array,
            beta_bytes=beta.nbytes,
            state_group=GROUP,
            state_offset=OFFSET,
        )
        kept = run_states("channel_delta_rule", op, cut, before, self.units, chunk)
        y.check()
        return y.values, kept

    def step(self, t: int, state: Array) -> tuple[Array, Array]:
        """The formula in float64: (state behind row t, y)."""
        rows = (each[t].astype(np.float64).reshape(self.heads, -1) for each in (self.q, self.k, self.v, self.decay))
        q, k, v, decay = rows
        state = state * decay[..., None]
        delta = self.beta[t].astype(np.float64)[:, None] * (v - np.einsum("hij,hi->hj", state, k))
        state = state + k[:, :, None] * delta[:, None]
        return state, np.einsum("hij,hi->hj", state, q).reshape(-1)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("heads", "n"), SIZES)
def test_the_scan_follows_its_formula(heads: int, n: int, cut: Cut) -> None:
    scan = Scan(heads, n)
    check_formula(scan.run, scan.step, scan.before, cut)


@pytest.mark.parametrize(("heads", "n"), SIZES)
def test_a_cut_changes_no_bit(heads: int, n: int) -> None:
    scan = Scan(heads, n)
    check_any_cut(scan.run, blocks_of(scan.before[0])[None], 9, scan.units)


def test_a_decay_of_zero_forgets_its_channel_alone() -> None:
    scan = Scan(2, 32)
    scan.decay[0, 5] = 0
    other = scan.before[0].copy()
    other[0, 5] = 7
    (y, _), (same, _) = (
        scan.run(Cut([3], [True]), blocks_of(each)[None], slice(0, 3), 1) for each in (scan.before[0], other)
    )
    assert np.array_equal(y, same)
    other[0, 6] = 7
    changed, _ = scan.run(Cut([3], [True]), blocks_of(other)[None], slice(0, 3), 1)
    assert not np.array_equal(y, changed)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 1e-42])
def test_odd_values_stay_in_their_sequence(value: float) -> None:
    scan = Scan(2, 32)
    blocks = np.stack([blocks_of(state) for state in scan.before[:2]])
    alone, _ = scan.run(Cut([2], [True]), blocks[1:], slice(3, 5), 1)
    scan.k[:3], scan.v[:3], scan.decay[1], blocks[0] = value, value, value, value
    y, kept = scan.run(Cut([3, 2], [True, True]), blocks, slice(0, 5), 1)
    assert np.array_equal(y[3:], alone)
    assert np.isfinite(kept[1]).all()


@pytest.mark.parametrize(("heads", "n"), [(32, 128), (18, 48), (1, 16)])
def test_inputs(heads: int, n: int) -> None:
    rng, rows, eps = np.random.default_rng(n), 3, float(F32(1e-6))
    q, k, alpha = (rng.standard_normal((rows, heads * n)).astype(F32) for _ in range(3))
    beta, bias = rng.standard_normal((rows, heads)).astype(F32), rng.standard_normal(heads * n).astype(F32)
    a, units = -np.abs(rng.standard_normal(heads)).astype(F32), rows * (heads + -(-heads // 16))
    fenced_a, fenced_bias = fenced(a), fenced(bias)

    def run(chunk: int) -> list[ActivationRows]:
        made = [ActivationRows(each) for each in (q, k, alpha, np.zeros_like(q), beta)]
        *given, betas = made
        sizes = (given[0].nbytes, heads, n, eps, fenced_a, fenced_bias)
        op = ChannelDeltaInputsOp(*(each.array for each in given), *sizes, betas.array, betas.nbytes)
        run_op(op_record("channel_delta_inputs", op), batch_record(rows), units, chunk=chunk)
        return made

    found = in_any_chunks(run, units)
    as_heads = [each.astype(np.float64).reshape(rows, heads, n) for each in (q, k, alpha + bias)]
    unit_q, unit_k = (v / np.sqrt((v**2).sum(axis=-1, keepdims=True) + eps) for v in as_heads[:2])
    decay = np.exp(a[:, None] * np.logaddexp(0, as_heads[2]))
    wanted = [unit_q / np.sqrt(n), unit_k, decay, decay * unit_k]
    for each, exact in zip(found, wanted, strict=False):
        assert np.allclose(each, exact.reshape(rows, -1), rtol=8e-6, atol=1e-30)
    assert np.allclose(found[4], 1 / (1 + np.exp(-beta.astype(np.float64))), rtol=4e-6)
