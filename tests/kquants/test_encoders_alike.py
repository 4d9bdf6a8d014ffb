"""What encoders of all formats have in common: decoders agree, rows do not depend on others, what does not fit is
named, and nothing else is touched."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kquants import ENCODED_FORMATS
from kquants.dequantize import dequantize
from kquants.encode import NotEncodableError, encode_into
from support.encoder_samples import importance
from support.encoders import GRIDS, LARGEST, SEARCHED, TERNARY, decoded, encoded, samples_for
from support.kernels import GUARD, KINDS, cache_folder, fenced, guarded, same_bits

Array = NDArray[Any]
F32 = np.float32
IMPORTANCE = importance()

of_each_format = pytest.mark.parametrize("name", ENCODED_FORMATS)


@of_each_format
def test_decoders_agree_and_the_sums_are_theirs(name: str) -> None:
    for rows in samples_for(name).values():
        for weights in (None, IMPORTANCE):
            result = encoded(name, rows, weights)
            theirs = decoded(name, result.data)
            ours = dequantize(KINDS[name], result.data.reshape(-1), cache_folder())
            assert same_bits(ours, theirs.astype(F32).reshape(-1))
            assert result.error == pytest.approx(((rows - theirs) ** 2).sum(), rel=1e-5)
            assert result.squares == pytest.approx((rows.astype(np.float64) ** 2).sum(), rel=1e-12)


@pytest.mark.parametrize("weights", [None, IMPORTANCE[:768]])
@of_each_format
def test_a_block_does_not_depend_on_others(name: str, weights: Array | None) -> None:
    """Whatever their number, their place and the calling thread; 42 super-blocks, or blocks, are no whole sixteens."""
    rows = np.concatenate([values[:2, :768] for values in samples_for(name).values()])
    whole = encoded(name, rows, weights).data
    with ThreadPoolExecutor(4) as pool:
        alone = pool.map(encoded, [name] * len(rows), rows[:, None], [weights] * len(rows))
        assert np.array_equal(np.concatenate([row.data for row in alone]), whole)
    for first, last in ((0, 1), (1, 4), (5, 12)):
        assert np.array_equal(encoded(name, rows[first:last], weights).data, whole[first:last])
    block, nbytes = KINDS[name].block, KINDS[name].nbytes
    blocks = 768 // block
    for first, last in ((0, 1), (blocks // 4, blocks // 2 + 1), (blocks - 1, blocks)):
        part = slice(first * block, last * block)
        some = encoded(name, rows[:, part], None if weights is None else weights[part].copy()).data
        assert np.array_equal(some, whole[:, first * nbytes : last * nbytes])


@of_each_format
def test_only_the_proportions_of_importance_matter(name: str) -> None:
    rows = samples_for(name)["Gaussian"]
    ones, plain = np.ones(rows.shape[1], F32), encoded(name, rows).data
    for equal in (ones, ones * 0, ones * F32(3e38), ones * F32(1e-20)):
        assert np.array_equal(encoded(name, rows, equal).data, plain)


WITH_FINE_SCALES = [name for name in SEARCHED if name not in (*TERNARY, "MXFP4")]
"""Formats whose scales adapt to few columns: not one for 256 weights, and not powers of two."""


@pytest.mark.parametrize("name", WITH_FINE_SCALES)
def test_columns_of_no_importance_are_not_far_from_what_they_were(name: str) -> None:
    rows = samples_for(name)["Gaussian"]
    half = (np.arange(rows.shape[1]) % 2).astype(F32)
    away = np.abs(decoded(name, encoded(name, rows, half).data) - rows)
    assert away[:, 1::2].mean() < 0.8 * away[:, ::2].mean()
    assert away.max() < 20 * np.abs(rows).max()


@pytest.mark.parametrize("weights", [None, IMPORTANCE[:256]])
@of_each_format
def test_the_first_weight_that_does_not_fit_is_named(name: str, weights: Array | None) -> None:
    largest = F32(LARGEST[name])
    with np.errstate(over="ignore"):  # beyond the largest float32 is Inf
        above = np.nextafter(largest, F32(np.inf))
    for bad in (np.nan, np.inf, -np.inf, above, -above):
        for index in (0, 255, 700, 1279):
            rows = np.full((5, 256), largest)
            rows.reshape(-1)[index] = bad
            rows.reshape(-1)[index + 1 :: 7] = np.nan
            with pytest.raises(NotEncodableError) as caught:
                encoded(name, rows, weights)
            assert caught.value.index == index
            assert np.array_equal(caught.value.value, bad, equal_nan=True)
            assert str(caught.value) == f"weight {index} is {bad:g}, which {name} cannot hold"


@of_each_format
def test_zeros_stay_zeros(name: str) -> None:
    rows = np.zeros((2, 256), F32)
    result = encoded(name, rows)
    assert not decoded(name, result.data).any()
    assert (result.error, result.squares) == (0, 0)
    if name in (*SEARCHED, "Q8_0"):  # the sign of a zero tells nothing
        rows[1, ::2] = -0.0
        assert np.array_equal(encoded(name, rows).data, result.data)


@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e-30, 1e-12, 1e-8, 1e-7, 3e-7, 1e-6, 1e-3])
@of_each_format
def test_weights_of_any_size_are_no_worse_than_zeros(name: str, size: float) -> None:
    rows = (np.random.default_rng(3).uniform(-1, 1, (4, 768)) * size).astype(F32)
    assert np.isfinite(decoded(name, encoded(name, rows, IMPORTANCE[:768]).data)).all()
    result = encoded(name, rows)
    assert np.isfinite(decoded(name, result.data)).all()
    assert result.error <= 1.0001 * result.squares


@of_each_format
def test_the_largest_weights_are_kept(name: str) -> None:
    rows = (np.random.default_rng(4).uniform(-1, 1, (4, 768)) * LARGEST[name]).astype(F32)
    rows[0, :2] = LARGEST[name], -LARGEST[name]
    result = encoded(name, rows)
    assert np.isfinite(decoded(name, result.data)).all()
    assert result.error < 0.12 * result.squares  # ternary weights 0.11


@pytest.mark.parametrize("name", [name for name in SEARCHED if KINDS[name].block == 256])
def test_super_blocks_of_weights_that_are_all_the_same(name: str) -> None:
    for value in (1.0, -1.0, 0.02, -3e-3, LARGEST[name], -LARGEST[name], 1e-5, -1e-12, 1e-40):
        rows = np.full((3, 256), value, F32)
        for weights in (None, importance(256)):
            found = decoded(name, encoded(name, rows, weights).data)
            # Half a step of the coarsest scale; of the tiny ones, a float16 may hold nothing better than 0.
            allowed = (2.0**-10 if name in GRIDS else 0.04) if abs(value) > 1e-3 else 1
            assert np.abs(found - rows).max() <= allowed * abs(F32(value))


@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (3, 5), (1, 33), (0, 1), (2, 0)])
@of_each_format
def test_nothing_is_touched_beside_the_rows(name: str, rows: int, blocks: int) -> None:
    kind, ones = KINDS[name], np.ones((rows, blocks * KINDS[name].block), F32)
    weights = np.ones(ones.shape[1], F32)
    room = guarded((rows * kind.row_bytes(ones.shape[1]) + 128,), np.uint8)
    target = room[64:-64].reshape(rows, kind.row_bytes(ones.shape[1]))
    values, weights = (fenced(array) if array.size else array for array in (ones, weights))
    encode_into(target, kind, values, cache_folder(), weights)
    assert (room[:64] == GUARD).all() and (room[-64:] == GUARD).all()
    assert np.array_equal(target, encoded(name, ones).data)
