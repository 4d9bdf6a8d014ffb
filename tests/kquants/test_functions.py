"""Functions of 16 lanes: exponentials, hyperbolic tangent and error function, against float64 over dense samples."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.kernels import compile_kernel

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

    exponentials = {name: compiled(getattr(exponential, name)) for name in ("exp", "expm1", "tanh")}
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


REFERENCES: dict[str, Function] = {"exp": np.exp, "expm1": np.expm1, "tanh": np.tanh, "erf": math_erf}
DENSE = [
    ("exp", 2**-30, 88.0, 87.33, 211, 2.0),
    ("expm1", 1e-37, 88.0, 104.0, 211, 2.0),
    ("tanh", 1e-37, 30.0, 30.0, 211, 3.0),
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
