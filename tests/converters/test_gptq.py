"""Compensation of errors: the choices of the paper, nearest rounding without correlation, damping where singular."""

import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from numpy.typing import NDArray

from converters.estimate import estimate_memory
from converters.gptq.code_layouts import CODE_LAYOUTS
from converters.gptq.compensate import compensated
from converters.gptq.feedback import feedback
from converters.gptq.inputs import Input, passes
from converters.tensors import PlannedTensor, Source
from edgellm.system.folders import cache_folder
from kquants.encode import NotEncodableError, encode
from kquants.formats.iq4_nl import VALUES
from kquants.ggml import NAMED_TYPES
from kquants.round_columns import round_columns

Floats = NDArray[np.float32]
FOLDER = cache_folder()


def inputs(rows: int, columns: int, seed: int = 1) -> Floats:
    """Correlated inputs of very different sizes."""
    rng = np.random.default_rng(seed)
    mixed = rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns)) / np.sqrt(columns)
    return np.asarray(mixed * rng.lognormal(0, 1, columns), np.float32)


def some_weights(rows: int, columns: int) -> Floats:
    return np.random.default_rng(2).standard_normal((rows, columns), np.float32)


def decoded(name: str, data: NDArray[np.uint8]) -> Floats:
    """What the gguf package decodes rows of blocks to."""
    return np.asarray(quants.dequantize(data, GGMLQuantizationType[name]), np.float32)


def loss(x: Floats, errors: Floats) -> float:
    """The squared error of the product."""
    return float(np.square(x.astype(np.float64) @ errors.T.astype(np.float64)).sum())


@pytest.mark.parametrize("name", CODE_LAYOUTS)
def test_codes_are_packed_where_the_format_has_them(name: str) -> None:
    """Blocks with other codes decode to these codes' levels, and with the old codes they are as they were."""
    layout, rng = CODE_LAYOUTS[name], np.random.default_rng(3)
    blocks = encode(layout.type, some_weights(24, 512), FOLDER).data.reshape(-1, layout.type.nbytes)
    scale, shift = layout.values(blocks, FOLDER)
    codes = rng.integers(0, len(layout.levels), (len(blocks), layout.type.block)).astype(np.uint8)
    packed = layout.pack(blocks, codes)
    values = scale * layout.levels[codes] + shift
    assert np.allclose(decoded(name, packed), values, rtol=1e-6, atol=1e-6)
    every = scale[..., None] * layout.levels + shift[..., None]
    old = np.abs(decoded(name, blocks)[..., None] - every).argmin(axis=-1)
    assert np.array_equal(layout.pack(packed, old.astype(np.uint8))[scale.all(axis=1)], blocks[scale.all(axis=1)])


def test_levels_of_iq4_nl_are_those_of_the_format() -> None:
    assert tuple(CODE_LAYOUTS["IQ4_NL"].levels) == VALUES


@pytest.mark.parametrize("name", CODE_LAYOUTS)
def test_the_error_of_the_product_falls(name: str) -> None:
    """For rows of any number; what is told of the errors is what the gguf package decodes."""
    x, weights, kind = inputs(2000, 512), some_weights(19, 512), NAMED_TYPES[name]
    hessian = x.T @ x
    importance = hessian.diagonal() / np.float32(len(x))
    plain = encode(kind, weights, FOLDER, importance)
    found = compensated(kind, weights, shares(hessian), importance, FOLDER)
    values = decoded(name, found.data)
    assert loss(x, weights - values) < 0.85 * loss(x, weights - decoded(name, plain.data))
    assert found.error == pytest.approx(float(np.square(weights - values, dtype=np.float64).sum()), rel=1e-4)
    assert found.squares == pytest.approx(float(np.square(weights, dtype=np.float64).sum()))


def shares(hessian: Floats) -> Floats:
    found = feedback(hessian.copy())
    assert found is not None
    return found


def textbook(hessian: Floats, weights: Floats, scale: float) -> NDArray[np.float64]:
    """GPTQ as in the paper, algorithm 1 without blocks, on multiples of `scale`: it spreads errors by the inverse."""
    h, w = hessian.astype(np.float64), weights.astype(np.float64)
    h += 0.01 * h.diagonal().mean() * np.eye(len(h))
    upper = np.linalg.cholesky(np.linalg.inv(h)).T
    codes = np.zeros_like(w)
    for j in range(len(h)):
        codes[:, j] = np.clip(np.rint(w[:, j] / scale), -127, 127)
        error = (w[:, j] - scale * codes[:, j]) / upper[j, j]
        w[:, j:] -= error[:, None] * upper[j, j:]
    return codes


def test_it_chooses_as_the_textbook_does() -> None:
    """On a grid that is the same in all blocks; a few choices are near a tie."""
    x, weights, scale = inputs(1500, 96), some_weights(32, 96), 0.25
    hessian = x.T @ x
    passed_on, expected = shares(hessian), textbook(hessian, weights, scale)
    scales, columns = np.full((96, 32), scale, np.float32), np.ascontiguousarray(weights.T)
    levels = np.arange(-127, 128, dtype=np.float32)
    matrix = np.ascontiguousarray(passed_on.T)
    codes, errors = round_columns(columns, columns, scales, 0 * scales, matrix, levels, FOLDER)
    assert np.mean(levels[codes] != expected.T) < 0.01
    assert np.allclose(errors, columns - scales * levels[codes], atol=1e-6)
    assert np.mean(np.rint(columns / scale) != expected.T) > 0.3, "plain rounding would pass, too"


@pytest.mark.parametrize("name", sorted(set(CODE_LAYOUTS) - {"Q8_0"}))
def test_without_correlation_it_is_the_encoder(name: str) -> None:
    """Q8_0 alone differs: its encoder rounds before its scale is rounded."""
    x = np.abs(inputs(512, 512)).mean(axis=0)
    weights, kind = some_weights(7, 512), NAMED_TYPES[name]
    found = compensated(kind, weights, shares(np.diag(x)), x, FOLDER)
    assert np.array_equal(found.data, encode(kind, weights, FOLDER, x).data)


def test_feedback_of_any_size_is_that_of_float64() -> None:
    """Also for more columns than are computed at once, of which some are always zero."""
    x = inputs(2500, 1300)
    x[:, 100:140] = 0
    hessian = x.T @ x
    found = np.triu(shares(hessian + np.tril(np.full_like(hessian, np.nan), -1)), 1)
    expected = exact_shares(hessian, 0.01)
    assert np.abs(found - expected).max() < 1e-3 * np.abs(expected).max()


def exact_shares(hessian: Floats, damping: float) -> NDArray[np.float64]:
    """F above the diagonal, by float64, from the upper triangle of a Hessian."""
    upper = np.triu(hessian.astype(np.float64))
    damped = upper + np.triu(upper, 1).T + damping * hessian.diagonal().mean() * np.eye(len(hessian))
    r = np.linalg.cholesky(damped[::-1, ::-1])[::-1, ::-1]
    return np.asarray(np.triu(r / r.diagonal(), 1))


def test_more_damping_begins_with_the_same_hessian() -> None:
    """The last columns have a factor with the least damping, the first ones have none."""
    hessian = np.eye(300, dtype=np.float32)
    hessian[2, 270] = hessian[3, 270] = 0.4
    hessian[0, 1] = 1.05
    assert np.allclose(np.triu(shares(hessian), 1), exact_shares(hessian, 0.1), atol=1e-6)


def test_what_has_no_factor_is_damped_more_or_left_alone() -> None:
    """A Hessian of rounding errors may have negative eigenvalues."""
    negative = np.eye(64, dtype=np.float32)
    negative[0, 1] = 1.05
    assert np.isfinite(np.triu(shares(negative))).all()
    negative[0, 1] = 5
    assert feedback(negative) is None
    assert feedback(np.zeros((64, 64), np.float32)) is None


@pytest.mark.parametrize(("value", "at"), [(np.nan, 3), (np.inf, 300), (1e30, 511)])
def test_a_weight_that_has_no_code_is_told(value: float, at: int) -> None:
    weights = some_weights(20, 512)
    weights[17, at] = value
    with pytest.raises(NotEncodableError, match=re.escape(f"weight {17 * 512 + at} is {value:g}")):
        compensated(NAMED_TYPES["Q4_K"], weights, np.zeros((512, 512), np.float32), np.ones(512, np.float32), FOLDER)


def test_hessians_are_read_in_as_few_passes_as_fit() -> None:
    some = [Input((name,), columns) for name, columns in (("a", 16), ("b", 16), ("c", 64), ("d", 8), ("e", 8))]
    groups = list(passes(some, 2 * 4 * 16**2))
    assert [[each.names[0] for each in group] for group in groups] == [["a", "b"], ["c"], ["d", "e"]]
    assert [len(group) for group in passes(some, 0)] == [1] * 5


def test_arrays_of_other_shapes_are_refused(tmp_path: Path) -> None:
    """Kernels check no bounds."""
    good = [np.zeros((32, 16), np.float32) for _ in range(4)]
    levels, square = np.arange(4, dtype=np.float32), np.zeros((32, 32), np.float32)
    with pytest.raises(ValueError, match="cannot be rounded"):
        round_columns(*[np.zeros((32, 15), np.float32)] * 4, square, levels, tmp_path)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="contiguous float32"):
        round_columns(*good, square.T[:, :31], levels, tmp_path)  # type: ignore[call-arg]


def test_the_estimated_memory_is_enough_for_a_chunk_and_not_much_more() -> None:
    """Besides the rows as they are read and as float32, which are there before."""
    kind, shape = NAMED_TYPES["Q4_K"], (512, 2048)
    weights = np.random.default_rng(0).standard_normal(shape, np.float32)
    source = Source("m.weight", shape, "F32", lambda first, last: weights.view(np.uint8)[first:last])
    plain, tensor = (PlannedTensor(source, kind, compensated=given) for given in (False, True))
    passed_on, importance = np.zeros((shape[1], shape[1]), np.float32), np.ones(shape[1], np.float32)
    compensated(kind, weights[:16], passed_on, importance, FOLDER)  # compiles the kernels
    tracemalloc.start()
    compensated(kind, weights, passed_on, importance, FOLDER)
    needed = tracemalloc.get_traced_memory()[1] + 2 * weights.nbytes
    tracemalloc.stop()
    process = estimate_memory([], 2)
    estimated = estimate_memory([plain, tensor], 2) - process
    assert needed <= estimated / 2 <= 1.3 * needed
