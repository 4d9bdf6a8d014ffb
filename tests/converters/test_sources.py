"""Tensors made of others are read in any chunks of rows, as from the whole tensor."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from converters.architectures.fused import MatrixCache, fused_part
from converters.architectures.sources import computed, padded, plus_one, stacked
from converters.tensors import Source
from edgellm.arch.tensor_names import FusedTensor
from edgellm.errors import UnsupportedModelError


def source(values: NDArray[np.float32]) -> Source:
    return computed("t", values)


def floats(found: Source, first: int, last: int) -> NDArray[np.float32]:
    return found.rows(first, last).view(np.float32)


def numbers(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(shape[-1]).standard_normal(shape, np.float32)


@given(st.data(), st.integers(1, 4), st.integers(1, 5))
def test_parts_are_stacked(data: st.DataObject, count: int, rows: int) -> None:
    values = numbers(count, rows, 3)
    found = stacked("s", [source(part) for part in values])
    assert (found.shape, found.row_count) == (values.shape, count * rows)
    first = data.draw(st.integers(0, count * rows - 1))
    last = data.draw(st.integers(first + 1, count * rows))
    assert np.array_equal(floats(found, first, last), values.reshape(-1, 3)[first:last])


@given(st.data(), st.integers(1, 5), st.integers(1, 5))
def test_rows_of_zeros_are_added(data: st.DataObject, own: int, more: int) -> None:
    values = numbers(own, 3)
    found = padded(source(values), own + more)
    assert found.shape == (own + more, 3)
    first = data.draw(st.integers(0, own + more - 1))
    last = data.draw(st.integers(first + 1, own + more))
    assert np.array_equal(floats(found, first, last), np.vstack([values, np.zeros((more, 3))])[first:last])


def test_vectors_are_stacked_as_rows() -> None:
    found = stacked("s", [source(np.full(3, i, np.float32)) for i in range(4)])
    assert found.shape == (4, 3)
    assert np.array_equal(floats(found, 1, 3), [[1, 1, 1], [2, 2, 2]])


def test_one_is_added_in_float32() -> None:
    # 2^-12 in BF16: 1 + 2^-12 has no BF16 number.
    small = Source("n", (2,), "BF16", lambda first, last: np.array([[0x80, 0x39, 0x80, 0xBF]], np.uint8)[first:last])
    found = plus_one(small)
    assert found.type == "F32"
    assert floats(found, 0, 1).tolist() == [[1 + 2**-12, 0.0]]
    half = Source("n", (1,), "F16", lambda first, last: np.array([0.5], "<f2").view(np.uint8).reshape(1, -1))
    assert floats(plus_one(half), 0, 1).tolist() == [[1.5]]


def test_parts_of_different_types_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="its parts are F32 and F16"):
        stacked("s", [source(numbers(2, 2)), Source("t", (2, 2), "F16", lambda first, last: np.zeros(1, np.uint8))])


@given(st.data(), st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.booleans(), st.booleans())
def test_parts_of_fused_experts(
    data: st.DataObject, experts: int, rows: int, count: int, transposed: bool, interleaved: bool
) -> None:
    """Matrices of `count` tensors in one, with and without other columns than rows; also their biases."""
    parts = [numbers(experts, rows, 3) + i for i in range(count)]
    together = np.stack(parts, 2).reshape(experts, -1, 3) if interleaved else np.concatenate(parts, 1)
    stored = source(np.ascontiguousarray(together.swapaxes(1, 2)) if transposed else together)
    biases = source(np.ascontiguousarray(together[:, :, 0]))
    fused, cache = FusedTensor("x", tuple("abc"[:count]), transposed, interleaved), MatrixCache()
    index = data.draw(st.integers(0, count - 1))
    found = fused_part(stored, fused, index, (experts, rows, 3), cache)
    assert (found.shape, found.row_count) == ((experts, rows, 3), experts * rows)
    for _ in range(3):
        first = data.draw(st.integers(0, experts * rows - 1))
        last = data.draw(st.integers(first + 1, experts * rows))
        assert np.array_equal(floats(found, first, last), parts[index].reshape(-1, 3)[first:last])
    bias = fused_part(biases, fused, index, (experts, rows), cache)
    assert bias.shape == (experts, rows)
    assert np.array_equal(floats(bias, 0, experts), parts[index][:, :, 0])


def test_few_transposed_matrices_are_in_memory_and_none_is_read_twice() -> None:
    values, reads = numbers(20, 3, 4), []

    def rows(first: int, last: int) -> NDArray[np.uint8]:
        reads.append((first, last))
        return values.reshape(-1, 4)[first:last].view(np.uint8)

    cache = MatrixCache()
    found = fused_part(Source("t", (20, 3, 4), "F32", rows), FusedTensor("x", ("t",), True), 0, (20, 4, 3), cache)
    for first in range(0, 80, 2):
        assert np.array_equal(floats(found, first, first + 2), values.swapaxes(1, 2).reshape(-1, 3)[first : first + 2])
    assert reads == [(3 * i, 3 * i + 3) for i in range(20)]
    assert len(cache._kept) == 3
    assert found.held == 4 * 3 * (4 + 3 * 4)
