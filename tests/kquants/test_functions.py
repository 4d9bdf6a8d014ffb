"""Functions of 16 lanes: exponentials, hyperbolic tangent and error function, against float64 over dense samples."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.kernels import compile_kernel, same_bits

F32 = np.float32
Array = NDArray[Any]
Function = Callable[[Array], Array]


@pytest.fixture(scope="module")
def functions() -> dict[str, Function]:
    """Each function as a kernel of its own, over float32 arrays of any length."""
    from kquants.activations import error_function, exponential  # here, as they take a second to import
    from kquants.simd import load_f32x16, store_f32x16

    def compiled(function: Any) -> Function:
        @compile_kernel
        def every_lane(x: int, n: int, y: int) -> None:
            for k in range(0, 4 * n, 64):
                store_f32x16(y + k, function(load_f32x16(x + k)))

        def call(x: Array) -> Array:
            padded = np.pad(x.astype(F32), (0, -len(x) % 16))
            y = np.empty_like(padded)
            every_lane(padded.ctypes.data, len(padded), y.ctypes.data)
            return y[: len(x)]

        return call

    exponentials = {name: compiled(getattr(exponential, name)) for name in ("exp", "expm1", "tanh", "softplus")}
    return exponentials | {"erf": compiled(error_function.erf)}


def samples(first: float, last: float, step: int) -> Array:
    """Every `step`-th float32 from `first` to `last`, both positive."""
    ends = np.array([first, last], F32).view(np.uint32).tolist()
    return np.arange(*ends, step, dtype=np.uint32).view(F32)


def units_in_the_last_place(y: Array, exact: Array) -> Array:
    error: Array = np.abs(y - exact) / np.spacing(np.abs(exact).astype(F32)).astype(np.float64)
    return error


def math_erf(x: Array) -> Array:
    return np.array([math.erf(value) for value in x.tolist()])


REFERENCES: dict[str, Function] = {"exp": np.exp, "expm1": np.expm1, "tanh": np.tanh, "erf": math_erf} | {
    "softplus": lambda x: np.logaddexp(0, x)
}
DENSE = [
    ("exp", 2**-30, 88.0, 87.33, 211, 2.0),
    ("expm1", 1e-37, 88.0, 104.0, 211, 2.0),
    ("tanh", 1e-37, 30.0, 30.0, 211, 3.0),
    ("softplus", 1e-37, 1e30, 87.33, 211, 4.0),
    ("erf", 1e-37, 30.0, 30.0, 2111, 2.0),
]
"""Name, first and last positive argument, the last negative one's size, which float32 are tried, error allowed."""


@pytest.mark.parametrize(("name", "first", "last", "lowest", "step", "bound"), DENSE)
def test_functions_are_right_to_the_last_places(
    functions: dict[str, Function], name: str, first: float, last: float, lowest: float, step: int, bound: float
) -> None:
    for x in (samples(first, last, step), -samples(first, lowest, step)):
        error = units_in_the_last_place(functions[name](x), REFERENCES[name](x.astype(np.float64)))
        print(f"{name}: at most {error.max():.3f} units in the last place, at {x[error.argmax()]}")
        assert error.max() <= bound


TINY = [0, -0.0, 1e-45, -1e-45]


def test_exp_at_the_edges(functions: dict[str, Function]) -> None:
    exp = functions["exp"]
    x = np.array([*TINY, -87.7, -88, -104, -1e30, -np.inf, np.nan, -np.nan, 89, np.inf], F32)
    y = exp(x)
    assert y[:4].tolist() == [1, 1, 1, 1]
    assert same_bits(y[4:9], np.zeros(5, F32)), "no negative zero and no denormal below -87.69"
    assert np.isnan(y[9:11]).all()
    assert y[11] == y[12] == exp(np.full(16, 88, F32))[0]


@pytest.mark.parametrize("name", ["expm1", "tanh", "erf"])
def test_functions_through_0_at_the_edges(functions: dict[str, Function], name: str) -> None:
    function = functions[name]
    small = np.array([*TINY, 1e-40, -1e-40, 2**-60], F32)
    slope = F32(2 / math.sqrt(math.pi)) if name == "erf" else F32(1)
    assert (np.abs(function(small) - small * slope) <= np.spacing(np.abs(small * slope))).all()
    y = function(np.array([np.nan, -np.nan, np.inf, -np.inf, 1e30, -1e30], F32))
    assert np.isnan(y[:2]).all()
    assert (y[[3, 5]] == -1).all()
    assert (y[[2, 4]] == (functions["expm1"](np.full(16, 88, F32))[0] if name == "expm1" else 1)).all()


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_odd_functions_are_odd(functions: dict[str, Function], name: str) -> None:
    x = np.concatenate([samples(1e-40, 90, 10007), [0.0]]).astype(F32)
    assert same_bits(functions[name](-x), -functions[name](x)), "the sign of 0 too"


@pytest.mark.parametrize("name", REFERENCES)
def test_a_lane_does_not_depend_on_the_others(functions: dict[str, Function], name: str) -> None:
    x = np.array([0, -0.0, 1e-45, -3, -88, -1e30, -np.inf, np.nan, 0.7, 89, np.inf, 1, 3.9, 4.1, -1, 9], F32)
    alone = np.concatenate([functions[name](np.full(16, value, F32))[:1] for value in x])
    assert same_bits(functions[name](x), alone)
