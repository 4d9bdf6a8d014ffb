"""Tables by position: every position as the model's formula has it, whatever was asked for before."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.arch.positions import AttentionTemperature, Rope, RopeType
from edgellm.engine.position_tables import GrowingTable, table_in_context

ROPE = Rope(frequencies=np.array([1.0, 0.1, 0.001]), magnitude=1.5, rope_type=RopeType.NEOX)


@given(st.lists(st.integers(1, 1500), min_size=1, max_size=6))
def test_every_position_asked_for_is_there(counts: list[int]) -> None:
    table = GrowingTable(ROPE, 5000)
    for n, count in enumerate(counts):
        found, known = table.up_to(count), max(counts[: n + 1])
        assert np.array_equal(found.array[:known], ROPE.values(np.arange(known)))
        assert found.address == found.array.ctypes.data


def test_by_hand() -> None:
    table = GrowingTable(ROPE, 5000)
    found = table.up_to(11).array
    wanted = 1.5 * np.array([[np.cos(10), np.sin(10)], [np.cos(1), np.sin(1)], [np.cos(0.01), np.sin(0.01)]])
    assert np.allclose(found[10], wanted.ravel(), rtol=1e-6, atol=0)


def test_factors_of_queries_by_hand() -> None:
    """1 + 0.1 · ln(1 + floor(position / 100))."""
    found = GrowingTable(AttentionTemperature(0.1, 100), 5000).up_to(320).array
    assert found[[0, 99], 0].tolist() == [1, 1]
    assert np.allclose(found[[100, 319], 0], [1 + 0.1 * np.log(2), 1 + 0.1 * np.log(4)])


def test_long_contexts_have_a_rope_of_their_own() -> None:
    long = Rope(frequencies=np.array([0.5]), magnitude=1.2, rope_type=RopeType.NEOX)
    short = Rope(np.array([1.0]), 1.1, RopeType.NEOX, long, original_context=4096)
    assert table_in_context(short, 4096) is short
    assert table_in_context(short, 4097) is long


def test_a_table_in_use_stays_as_it_is() -> None:
    table = GrowingTable(ROPE, 5000)
    held = table.up_to(64)
    before = held.array.copy()
    assert table.up_to(5000).address != held.address
    assert np.array_equal(held.array, before)


def test_an_interrupt_loses_no_position(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Rope, positions: Any) -> Any:
        raise KeyboardInterrupt

    table = GrowingTable(ROPE, 5000)
    table.up_to(64)
    with monkeypatch.context() as patch:
        patch.setattr(Rope, "values", interrupted)
        with pytest.raises(KeyboardInterrupt):
            table.up_to(5000)
    for count in (60, 100):
        assert np.array_equal(table.up_to(count).array[:count], ROPE.values(np.arange(count)))
