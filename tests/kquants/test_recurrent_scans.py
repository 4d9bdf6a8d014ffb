"""The gated delta rule and the scan of Mamba-2, against float64; the same bits however rows are cut into segments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants.records import DeltaRuleOp, MambaOp
from support.activation_rows import ActivationRows
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


class DeltaRule:
    """Random inputs of 16 rows."""

    def __init__(self, heads: int, key_heads: int, key_dim: int, value_dim: int, grouped: bool) -> None:
        rng = np.random.default_rng(heads + key_dim)
        self.sizes, self.grouped = (heads, key_heads, key_dim, value_dim), grouped
        self.qkv = rng.standard_normal((16, 2 * key_heads * key_dim + heads * value_dim)).astype(F32)
        self.qkv[:, : 2 * key_heads * key_dim] /= np.sqrt(key_dim)
        self.gates = rng.uniform(0.05, 1, (16, 2 * heads)).astype(F32)
        self.before = rng.standard_normal((3, heads, key_dim, value_dim)).astype(F32)

    @property
    def units(self) -> int:
        """A unit for each 32 columns of a head."""
        return self.sizes[0] * -(-self.sizes[3] // 32)

    def run(self, cut: Cut, before: Array, rows: slice, chunk: int) -> tuple[Array, list[Array]]:
        """What the kernel gives for these rows."""
        heads, key_heads, key_dim, value_dim = self.sizes
        qkv, gates = ActivationRows(self.qkv[rows]), ActivationRows(self.gates[rows])
        y = ActivationRows(np.full((len(qkv.array), heads * value_dim), 9, F32))
        widths = (key_heads, heads, key_dim, value_dim, int(self.grouped))
        inputs = (qkv.array, qkv.nbytes, *widths, gates.array, gates.nbytes)
        given = DeltaRuleOp(*inputs, y.array, y.nbytes, GROUP, OFFSET)
        kept = run_states("delta_rule", given, cut, before, self.units, chunk)
        y.check()
        return y.values, kept

    def step(self, t: int, state: Array) -> tuple[Array, Array]:
        """The formula."""
        heads, key_heads, key_dim, _ = self.sizes
        of = [h // (heads // key_heads) if self.grouped else h % key_heads for h in range(heads)]
        q, k, v = np.split(self.qkv[t].astype(np.float64), [key_heads * key_dim, 2 * key_heads * key_dim])
        q, k, v = q.reshape(key_heads, -1)[of], k.reshape(key_heads, -1)[of], v.reshape(heads, -1)
        decay, beta = self.gates[t].astype(np.float64).reshape(2, heads, 1)
        state = state * decay[..., None]
        delta = beta * (v - np.einsum("hij,hi->hj", state, k))
        state = state + k[:, :, None] * delta[:, None]
        return state, np.einsum("hij,hi->hj", state, q)


class Mamba(DeltaRule):
    """Random inputs of 16 rows."""

    def __init__(self, heads: int, groups: int, state_dim: int, head_dim: int) -> None:
        super().__init__(heads, groups, state_dim, head_dim, grouped=True)
        self.d = np.random.default_rng(heads).standard_normal(heads).astype(F32)

    def run(self, cut: Cut, before: Array, rows: slice, chunk: int) -> tuple[Array, list[Array]]:
        """What the kernel gives for these rows."""
        heads, groups, state_dim, head_dim = self.sizes
        xbc, gates = ActivationRows(self.qkv[rows]), ActivationRows(self.gates[rows])
        y = ActivationRows(np.full((len(xbc.array), heads * head_dim), 9, F32))
        inputs = (xbc.array, xbc.nbytes, heads, head_dim, groups, state_dim, gates.array, gates.nbytes, self.d)
        kept = run_states("mamba", MambaOp(*inputs, y.array, y.nbytes, GROUP, OFFSET), cut, before, self.units, chunk)
        y.check()
        return y.values, kept

    def step(self, t: int, state: Array) -> tuple[Array, Array]:
        """The formula."""
        heads, groups, state_dim, head_dim = self.sizes
        width, of = heads * head_dim, [h // (heads // groups) for h in range(heads)]
        x, b, c = np.split(self.qkv[t].astype(np.float64), [width, width + groups * state_dim])
        x, b, c = x.reshape(heads, -1), b.reshape(groups, -1)[of], c.reshape(groups, -1)[of]
        decay, dt = self.gates[t].astype(np.float64).reshape(2, heads, 1)
        state = state * decay[..., None] + b[:, :, None] * (dt * x)[:, None]
        return state, np.einsum("hij,hi->hj", state, c) + self.d[:, None] * x


SCANS: dict[str, Callable[[], DeltaRule]] = {
    "delta rule": lambda: DeltaRule(4, 2, 40, 32, grouped=True),
    "delta rule, heads not grouped": lambda: DeltaRule(4, 2, 16, 48, grouped=False),
    "delta rule, one head": lambda: DeltaRule(1, 1, 7, 16, grouped=False),
    "Mamba-2": lambda: Mamba(6, 2, 24, 64),
    "Mamba-2, one head": lambda: Mamba(1, 1, 70, 16),
    "delta rule, heads of 23 values": lambda: DeltaRule(2, 1, 9, 23, grouped=True),
    "Mamba-2, heads of 37": lambda: Mamba(2, 1, 5, 37),
    "Mamba-2, heads of 80": lambda: Mamba(2, 2, 5, 80),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", SCANS)
def test_scans_follow_their_formula(name: str, cut: Cut) -> None:
    scan = SCANS[name]()
    check_formula(scan.run, scan.step, scan.before, cut)


@pytest.mark.parametrize("name", SCANS)
def test_a_cut_changes_no_bit_of_a_scan(name: str) -> None:
    scan = SCANS[name]()
    check_any_cut(scan.run, blocks_of(scan.before[0])[None], 9, scan.units)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 1e-42])
@pytest.mark.parametrize("name", ["delta rule", "Mamba-2"])
def test_odd_values_stay_in_their_sequence(name: str, value: float) -> None:
    scan = SCANS[name]()
    blocks = np.stack([blocks_of(state) for state in scan.before[:2]])
    alone, _ = scan.run(Cut([2], [True]), blocks[1:], slice(3, 5), 1)
    scan.qkv[:3], scan.gates[1] = value, value
    blocks[0] = value
    y, kept = scan.run(Cut([3, 2], [True, True]), blocks, slice(0, 5), 1)
    assert np.array_equal(y[3:], alone)
    assert np.isfinite(kept[1]).all()


def test_a_decay_of_zero_forgets() -> None:
    scan = SCANS["delta rule"]()
    scan.gates[0, :4] = 0
    blocks = blocks_of(scan.before[0])[None]
    with_state, _ = scan.run(Cut([3], [True]), blocks, slice(0, 3), 1)
    without, _ = scan.run(Cut([3], [False]), blocks, slice(0, 3), 1)
    assert np.array_equal(with_state, without)
