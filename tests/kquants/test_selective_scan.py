"""The scan of Mamba-1: against float64, same bits for any cut, and values at the ends of the range of float32."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.records import SelectiveScanOp
from support.activation_rows import ActivationRows
from support.kernels import fenced
from support.recurrent_kernels import (
    CUTS,
    GROUP,
    OFFSET,
    Cut,
    blocks_of,
    check_any_cut,
    check_formula,
    matrices_of,
    near,
    run_states,
)

F32 = np.float32
Array = NDArray[Any]
SIZES = [(64, 16), (48, 32), (16, 16), (240, 64)]
"""Channels and rows of the state: the last block of channels is whole, or half of it is padding."""


class Scan:
    """Random inputs of 16 rows. Steps are from 0.001 to 4 and factors `a` from -0.01 to -20: decays are any."""

    def __init__(self, channels: int, n: int) -> None:
        rng = np.random.default_rng(channels + n)
        self.channels, self.n, shape = channels, n, (16, channels)
        self.x, self.dt = (rng.standard_normal(shape).astype(F32) for _ in range(2))
        self.dt_bias = rng.uniform(-6, 3, channels).astype(F32)
        self.a = -np.exp(rng.uniform(np.log(0.01), np.log(20), (channels, n))).astype(F32)
        self.d = rng.standard_normal(channels).astype(F32)
        self.bc = rng.standard_normal((16, 2 * n)).astype(F32)
        self.before = rng.standard_normal((3, 1, n, channels)).astype(F32)

    @property
    def units(self) -> int:
        """A unit for each 32 channels."""
        return -(-self.channels // 32)

    def run(self, cut: Cut, before: Array, rows: slice, chunk: int) -> tuple[Array, list[Array]]:
        """What the kernel gives for these rows."""
        x, dt, bc = (ActivationRows(each[rows]) for each in (self.x, self.dt, self.bc))
        y, (dt_bias, a, d) = ActivationRows(np.full_like(x.values, 9)), map(fenced, (self.dt_bias, self.a, self.d))
        op = SelectiveScanOp(
            x=x.array,
            x_bytes=x.nbytes,
            channels=self.channels,
            state_dim=self.n,
            bc=bc.array,
            bc_bytes=bc.nbytes,
            dt=dt.array,
            dt_bytes=dt.nbytes,
            dt_bias=dt_bias,
            a=a,
            d=d,
            y=y.array,
            y_bytes=y.nbytes,
            state_group=GROUP,
            state_offset=OFFSET,
        )
        kept = run_states("selective_scan", op, cut, before, self.units, chunk, scratch_bytes=128 * self.n)
        y.check()
        return y.values, kept

    def step(self, t: int, state: Array) -> tuple[Array, Array]:
        """The formula in float64: (state behind row t, y)."""
        x, (b, c) = self.x[t].astype(np.float64), np.split(self.bc[t].astype(np.float64), 2)
        dt = np.logaddexp(0, self.dt[t].astype(np.float64) + self.dt_bias)
        state = np.exp(dt * self.a.T.astype(np.float64)) * state + b[:, None] * dt * x
        return state, c @ state[0] + self.d * x


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("channels", "n"), SIZES)
def test_the_scan_follows_its_formula(channels: int, n: int, cut: Cut) -> None:
    scan = Scan(channels, n)
    check_formula(scan.run, scan.step, scan.before, cut, bits=18)


@pytest.mark.parametrize(("channels", "n"), SIZES)
def test_a_cut_changes_no_bit(channels: int, n: int) -> None:
    scan = Scan(channels, n)
    check_any_cut(scan.run, blocks_of(scan.before[0])[None], 9, scan.units)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-42])
def test_odd_values_stay_in_their_sequence(value: float) -> None:
    scan = Scan(64, 16)
    blocks = np.stack([blocks_of(state) for state in scan.before[:2]])
    alone, _ = scan.run(Cut([2], [True]), blocks[1:], slice(3, 5), 1)
    scan.x[:3], scan.dt[1], scan.bc[2] = value, value, value
    blocks[0] = value
    y, kept = scan.run(Cut([3, 2], [True, True]), blocks, slice(0, 5), 1)
    assert np.array_equal(y[3:], alone)
    assert np.isfinite(kept[1]).all()


def test_a_step_of_zero_keeps_the_state_and_a_long_one_forgets_it() -> None:
    """A decay below 2**-64 is 2**-64; factors above 0 count as 0, which keep the state."""
    scan = Scan(32, 16)
    scan.dt[0], scan.dt[1] = -1000, 100
    scan.a[:16] = -20
    scan.a[16:] = 5
    first, before = scan.before[0], blocks_of(scan.before[0])[None]
    _, kept = scan.run(Cut([2], [True], [0, 1]), before, slice(0, 2), 1)
    assert np.array_equal(matrices_of(kept[0], 32), first)
    added = scan.bc[1, :16, None] * (F32(100) + scan.dt_bias) * scan.x[1]
    behind = matrices_of(kept[1], 32)[0]
    assert near(behind[:, :16], added[:, :16])
    assert near(behind[:, 16:], (first[0] + added)[:, 16:])
