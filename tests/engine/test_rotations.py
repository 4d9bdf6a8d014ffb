"""The table of rotations: every position as the model's formula has it, whatever was asked for before."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.arch.description import Rope
from edgellm.engine.rotations import Rotations

ROPE = Rope(frequencies=np.array([1.0, 0.1, 0.001]), magnitude=1.5, halves=True)


@given(st.lists(st.integers(1, 1500), min_size=1, max_size=6))
def test_every_position_asked_for_is_there(counts: list[int]) -> None:
    rotations = Rotations(ROPE, 5000)
    for n, count in enumerate(counts):
        table, known = rotations.reach(count), max(counts[: n + 1])
        assert np.array_equal(table.array[:known], ROPE.rotations(np.arange(known)))
        assert table.address == table.array.ctypes.data


def test_by_hand() -> None:
    rotations = Rotations(ROPE, 5000)
    table = rotations.reach(11).array
    wanted = 1.5 * np.array([[np.cos(10), np.sin(10)], [np.cos(1), np.sin(1)], [np.cos(0.01), np.sin(0.01)]])
    assert np.allclose(table[10], wanted, rtol=1e-6, atol=0)


def test_a_table_in_use_stays_as_it_is() -> None:
    rotations = Rotations(ROPE, 5000)
    held = rotations.reach(64)
    before = held.array.copy()
    assert rotations.reach(5000).address != held.address
    assert np.array_equal(held.array, before)


def test_an_interrupt_loses_no_position(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Rope, positions: Any) -> Any:
        raise KeyboardInterrupt

    rotations = Rotations(ROPE, 5000)
    rotations.reach(64)
    with monkeypatch.context() as patch:
        patch.setattr(Rope, "rotations", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rotations.reach(5000)
    for count in (60, 100):
        assert np.array_equal(rotations.reach(count).array[:count], ROPE.rotations(np.arange(count)))
