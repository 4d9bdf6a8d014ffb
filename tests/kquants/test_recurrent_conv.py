"""Convolutions over time against float64; the same bits however rows are cut into segments."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.records import ConvOp
from support.activation_rows import ActivationRows
from support.kernels import fenced
from support.recurrent_kernels import CUTS, GROUP, OFFSET, Cut, check_any_cut, run_states

F32 = np.float32
Array = NDArray[Any]


@dataclass
class Conv:
    """Random inputs of 16 rows; with `factor`, the convolution is of factor · x, and its result times a gate."""

    channels: int
    taps: int
    silu: bool = True
    factor: bool = False
    has_bias: bool = True
    rows: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.channels)
        self.rows = {name: rng.standard_normal((16, self.channels)).astype(F32) for name in ("x", "factor", "gate")}
        self.weight = rng.standard_normal((self.channels, self.taps)).astype(F32)
        self.bias = rng.standard_normal(self.channels).astype(F32)
        padded = -(-self.channels // 16) * 16
        self.before = np.zeros((3, self.taps - 1, padded), F32)
        self.before[:, :, : self.channels] = rng.standard_normal((3, self.taps - 1, self.channels))

    @property
    def units(self) -> int:
        """A unit for each 16 channels."""
        return -(-self.channels // 16)

    def run(self, cut: Cut, before: Array, rows: slice, chunk: int) -> tuple[Array, list[Array]]:
        """What the kernel gives for these rows."""
        x, factor, gate = (ActivationRows(self.rows[name][rows]) for name in ("x", "factor", "gate"))
        y = ActivationRows(np.zeros_like(x.values))
        weight, bias = fenced(self.weight), fenced(self.bias)
        given = ConvOp(
            x=x.array,
            x_bytes=x.nbytes,
            channels=self.channels,
            taps=self.taps,
            weight=weight,
            bias=bias if self.has_bias else 0,
            silu=int(self.silu),
            factor=factor.array if self.factor else 0,
            gate=gate.array if self.factor else 0,
            y=y.array,
            y_bytes=y.nbytes,
            state_group=GROUP,
            state_offset=OFFSET,
        )
        kept = run_states("conv", given, cut, before, self.units, chunk)
        y.check()
        return y.values, kept

    def wanted(self, cut: Cut, segment: int) -> tuple[Array, Array]:
        """(y of a segment, its inputs and those before it) in float64."""
        rows = slice(cut.starts[segment], cut.starts[segment + 1])
        x, factor, gate = (self.rows[name][rows].astype(np.float64) for name in ("x", "factor", "gate"))
        before = self.before[segment, :, : self.channels] * cut.has_state[segment]
        inputs = np.concatenate([before, x * factor if self.factor else x])
        y = np.stack([(self.weight.T * inputs[t : t + self.taps]).sum(axis=0) for t in range(len(x))])
        y = y + self.bias if self.has_bias else y
        y = y / (1 + np.exp(-y)) if self.silu else y
        return y * gate if self.factor else y, inputs


CONVOLUTIONS = {
    "of a delta net": Conv(64, 4, has_bias=False),
    "of Mamba-2": Conv(40, 4),
    "of LFM2": Conv(32, 3, silu=False, factor=True, has_bias=False),
    "odd": Conv(23, 3, factor=True),
    "one channel": Conv(1, 2),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_follow_their_formula(name: str, cut: Cut) -> None:
    conv = CONVOLUTIONS[name]
    y, kept = conv.run(cut, conv.before[: len(cut.lengths)], slice(0, cut.starts[-1]), 1)
    states = iter(kept)
    for segment, (start, stop) in enumerate(zip(cut.starts, cut.starts[1:], strict=False)):
        wanted, inputs = conv.wanted(cut, segment)
        assert np.allclose(y[start:stop], wanted, rtol=1e-5, atol=1e-5)
        for t in (row - start for row in cut.kept if start <= row < stop):
            state = next(states)[:, : conv.channels]
            assert np.array_equal(state, inputs[t + 1 : t + conv.taps].astype(F32)), "rounded once, or as they are"


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_cut_changes_no_bit_of_a_convolution(name: str) -> None:
    conv = CONVOLUTIONS[name]
    check_any_cut(conv.run, conv.before[:1], 9, conv.units)


def test_odd_values_stay_in_their_channel_and_for_as_many_rows_as_there_are_taps() -> None:
    conv, cut = Conv(23, 3), Cut([9], [True])
    usual, _ = conv.run(cut, conv.before[:1], slice(0, 9), 1)
    for value in (np.nan, np.inf, 3e38):
        conv.rows["x"][2, 5] = value
        y, _ = conv.run(cut, conv.before[:1], slice(0, 9), 1)
        changed = np.zeros(y.shape, bool)
        changed[2:5, 5] = True
        assert np.array_equal(y[~changed], usual[~changed])
        assert (y[changed] != usual[changed]).all()
