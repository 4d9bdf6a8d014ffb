"""The table of rotations: every position as the model's formula has it, whatever was asked for before."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgellm.arch.description import Rope
from edgellm.engine.rotations import Rotations

ROPE = Rope(frequencies=np.array([1.0, 0.1, 0.001]), magnitude=1.5, halves=True)


@given(st.lists(st.integers(1, 1500), min_size=1, max_size=6))
def test_every_position_asked_for_is_there(counts: list[int]) -> None:
    rotations = Rotations(ROPE)
    for n, count in enumerate(counts):
        rotations.reach(count)
        known = max(counts[: n + 1])
        assert np.array_equal(rotations.table[:known], ROPE.rotations(np.arange(known)))
        assert rotations.address == rotations.table.ctypes.data


def test_by_hand() -> None:
    rotations = Rotations(ROPE)
    rotations.reach(11)
    wanted = 1.5 * np.array([[np.cos(10), np.sin(10)], [np.cos(1), np.sin(1)], [np.cos(0.01), np.sin(0.01)]])
    assert np.allclose(rotations.table[10], wanted, rtol=1e-6, atol=0)


def test_a_table_in_use_stays_as_it_is() -> None:
    rotations = Rotations(ROPE)
    rotations.reach(64)
    held, before = rotations.table, rotations.table.copy()
    rotations.reach(5000)
    assert rotations.table is not held
    assert np.array_equal(held, before)
