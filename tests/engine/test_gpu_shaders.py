"""Every shader on its own, against NumPy: matmuls of each format, and the shaders between them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.engine.webgpu.adapters import FEATURES, PACKED_DOT
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.shaders import FORMATS, shader
from support.gpus import adapter
from support.kernels import KINDS
from support.shaders import (
    COLUMNS,
    ROWS,
    columns_of,
    get,
    lanes,
    matrix,
    near,
    padded,
    put,
    random,
    rows,
    shape,
    told,
    whole_numbers,
)

pytestmark = pytest.mark.gpu

MASKS: list[tuple[str, ...]] = [(), (*FEATURES.values(), PACKED_DOT)]
TOKENS = 67
Array = NDArray[Any]


@pytest.fixture(scope="module", params=MASKS, ids=["all features", "no features"])
def gpu(request: pytest.FixtureRequest) -> Iterator[GPUContext]:
    gpu = GPUContext(adapter(), masked=request.param)
    yield gpu
    gpu.close()


@pytest.mark.parametrize("name", FORMATS)
def test_matrix_times_vector(gpu: GPUContext, name: str) -> None:
    columns = columns_of(name)
    stored, weights = matrix(name, columns)
    x, y = random(2, columns), random(2, 200, seed=1)
    source = shader(
        ["batch", lanes(gpu), "f_silu", "x_values", "one_matrix", "matvec"], told(ADDED=True, EACH=4), [name], 6
    )
    to, nothing, sizes = put(gpu, y), put(gpu, np.zeros(4, np.uint32)), shape(gpu, columns, 200, first=100)
    buffers = [sizes, put(gpu, rows(2, [])), put(gpu, padded(x)), nothing, nothing, to, put(gpu, stored)]
    gpu.submit([gpu.dispatch(source, buffers, (5, 2, 1))])
    wanted = y.copy()
    wanted[:, 100 : 100 + ROWS] += (x @ weights.T).astype(np.float32)
    near(get(gpu, to, (2, 200)), wanted)


@pytest.mark.parametrize("columns", [COLUMNS, 4608], ids="{} columns".format)
@pytest.mark.parametrize("name", [name for name in FORMATS if KINDS[name].block > 1])
def test_matrix_times_vector_in_integers(gpu: GPUContext, name: str, columns: int) -> None:
    """The same with x rounded to 127 steps."""
    stored, weights = matrix(name, columns)
    x = whole_numbers(2, columns)
    source = shader(
        ["batch", lanes(gpu), "rounding", "f_silu", "x_packed", "one_matrix", "matvec"], told(EACH=4), [name], 6
    )
    to, nothing, sizes = put(gpu, np.zeros((2, ROWS))), put(gpu, np.zeros(4, np.uint32)), shape(gpu, columns, ROWS)
    buffers = [sizes, put(gpu, rows(2, [])), put(gpu, x), nothing, nothing, to, put(gpu, stored)]
    gpu.submit([gpu.dispatch(source, buffers, (5, 2, 1))])
    near(get(gpu, to, (2, ROWS)), x @ weights.T)


@pytest.mark.parametrize("name", ["F32", "Q4_K"])
@pytest.mark.parametrize("columns", [2048, 4608], ids="{} columns".format)
def test_long_rows(gpu: GPUContext, name: str, columns: int) -> None:
    """Rows of x that are fetched at once, or in parts; for several tiles, and a gate beside them."""
    (gate, of_gate), (up, of_up) = (matrix(name, columns, seed) for seed in (0, 1))
    x, norm = random(1, columns), random(columns, seed=1) / np.float32(columns)
    source = shader(
        ["batch", lanes(gpu), "f_silu", "x_values", "one_matrix", "matvec"],
        told(NORMED=True, GATED=True, EACH=4),
        [name, name],
        6,
    )
    to, batch, nothing = put(gpu, np.zeros(ROWS, np.float32)), put(gpu, rows(1, [])), put(gpu, np.zeros(4))
    given = [shape(gpu, columns, ROWS), batch, put(gpu, x), put(gpu, norm), nothing, to, put(gpu, gate), put(gpu, up)]
    gpu.submit([gpu.dispatch(source, given, (5, 1, 1))])
    gates, ups = (normed(x, norm) @ weights.T for weights in (of_gate, of_up))
    near(get(gpu, to, (1, ROWS)), gates / (1 + np.exp(-gates)) * ups)


@pytest.mark.parametrize("name", FORMATS)
def test_matrix_times_matrix(gpu: GPUContext, name: str) -> None:
    columns = columns_of(name)
    stored, weights = matrix(name, columns)
    x, y, bias = random(TOKENS, columns), random(TOKENS, 200, seed=1), random(200, seed=2)
    flags = told(LANES=128, BIASED=True, ADDED=True, COUNT=0, W_TYPE="f32")
    source = shader(["batch", lanes(gpu), "matmul_tile", "batch_tiles", "matmul"], flags, [name], 5)
    to, sizes = put(gpu, y), shape(gpu, columns, 200, first=90)
    buffers = [sizes, put(gpu, rows(TOKENS, [])), put(gpu, padded(x)), put(gpu, bias), to, put(gpu, stored)]
    gpu.submit([gpu.dispatch(source, buffers, (2, 2, 1))])
    wanted = y.copy()
    wanted[:, 90 : 90 + ROWS] += (x @ weights.T).astype(np.float32) + bias[90 : 90 + ROWS]
    near(get(gpu, to, (TOKENS, 200)), wanted)


@pytest.mark.parametrize("name", [name for name in FORMATS if KINDS[name].block > 1])
def test_matrix_times_matrix_in_integers(gpu: GPUContext, name: str) -> None:
    """The same with x rounded to 127 steps."""
    stored, weights = matrix(name, COLUMNS)
    x = whole_numbers(TOKENS, COLUMNS)
    packed, scales = put(gpu, np.zeros((TOKENS, COLUMNS // 4))), put(gpu, np.zeros((TOKENS, COLUMNS // 16)))
    parts = ["formats/bits", lanes(gpu), "rounding", "x_packed", "quantize"]
    source = shader(parts, {"LANES": 64, "X_VEC4S": COLUMNS // 4})
    first = gpu.dispatch(source, [put(gpu, x), packed, scales], (1, TOKENS, 1))
    flags = told(LANES=128, COUNT=1)
    source = shader(["batch", lanes(gpu), "matmul_tile", "batch_tiles", "matmul_packed"], flags, [name], 6)
    to, sizes, nothing = put(gpu, np.zeros((TOKENS, 200))), shape(gpu, COLUMNS, 200), put(gpu, np.zeros(4))
    buffers = [sizes, put(gpu, rows(TOKENS, list(range(66)))), packed, scales, nothing, to, put(gpu, stored)]
    gpu.submit([first, gpu.dispatch(source, buffers, (2, 2, 1))])
    wanted = np.zeros((TOKENS, 200))
    wanted[:66, :ROWS] = x[:66] @ weights.T
    near(get(gpu, to, (TOKENS, 200)), wanted)


def normed(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(axis=-1, keepdims=True) + 1e-5) * weight


def test_what_a_matrix_times_vector_takes_along(gpu: GPUContext) -> None:
    """A norm before, a gate behind, a bias, rows that are gathered, and three tensors of different formats."""
    x, norm, bias = random(3, COLUMNS), random(COLUMNS, seed=1), random(3 * ROWS, seed=2)
    names = ("Q4_K", "Q6_K", "F16")
    stored, weights = zip(*(matrix(name, COLUMNS, seed) for seed, name in enumerate(names)), strict=True)
    tensors, batch, nothing = [put(gpu, each) for each in stored], put(gpu, rows(3, [0, 2])), put(gpu, np.zeros(4))
    flags = told(NORMED=True, GATHERED=True, BIASED=True)
    source = shader(["batch", lanes(gpu), "f_silu", "x_values", "one_matrix", "matvec"], flags, names, 6)
    to, sizes = put(gpu, np.zeros((2, 210), np.float32)), shape(gpu, COLUMNS, 210, rows=3 * ROWS)
    given = [sizes, batch, put(gpu, x), put(gpu, norm), put(gpu, bias), to, *tensors]
    gpu.submit([gpu.dispatch(source, given, (54, 2, 1))])
    near(get(gpu, to, (2, 210)), normed(x, norm)[[0, 2]] @ np.concatenate(weights).T + bias)
    source = shader(["batch", lanes(gpu), "f_silu", "x_values", "one_matrix", "matvec"], told(GATED=True), names[:2], 6)
    to = put(gpu, np.zeros((3, 200), np.float32))
    given = [shape(gpu, COLUMNS, 200), batch, put(gpu, x / 8), nothing, nothing, to, *tensors[:2]]
    gpu.submit([gpu.dispatch(source, given, (18, 3, 1))])
    gate, up = (x / 8 @ of.T for of in weights[:2])
    near(get(gpu, to, (3, 200))[:, :ROWS], gate / (1 + np.exp(-gate)) * up)


@pytest.mark.parametrize("layer", [False, True], ids=["RMSNorm", "LayerNorm"])
def test_norms(gpu: GPUContext, layer: bool) -> None:
    x, norm, bias = 1 + random(3, 90), random(90, seed=1), random(90, seed=2)
    sizes = {"LANES": 64, "COLUMNS": 90, "X_VEC4S": 24, "EPS": 1e-5, "GATHERED": True, "LAYER": layer, "BIASED": layer}
    to, vectors = put(gpu, np.ones((2, 96), np.float32)), [put(gpu, padded(each[None])) for each in (norm, bias)]
    buffers = [put(gpu, rows(3, [1, 2])), put(gpu, padded(x)), *vectors, to]
    gpu.submit([gpu.dispatch(shader(["batch", lanes(gpu), "norm"], sizes), buffers, (2, 1, 1))])
    wanted = normed(x - x.mean(axis=-1, keepdims=True), norm) + bias if layer else normed(x, norm)
    near(get(gpu, to, (2, 96)), padded(wanted[1:].astype(np.float32)))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "f_silu": lambda z: z / (1 + np.exp(-z)),
    "f_gelu": lambda z: z / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (z + 0.044715 * z**3))),
    "f_relu2": lambda z: np.maximum(z, 0) ** 2,
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("gated", [True, False])
def test_activations(gpu: GPUContext, function: str, gated: bool) -> None:
    gate, up = 4 * random(3, 96), random(3, 96, seed=1)
    gate[0, :3] = -100, 100, 0
    to = put(gpu, gate)
    source = shader([lanes(gpu), function, "activation"], {"LANES": 64, "VEC4S": 24, "GATED": gated})
    gpu.submit([gpu.dispatch(source, [to, put(gpu, up)], (1, 3, 1))])
    near(get(gpu, to, (3, 96)), FUNCTIONS[function](gate.astype(np.float64)) * (up if gated else 1))


def test_a_norm_behind_a_block(gpu: GPUContext) -> None:
    x, y, norm = random(3, 90), random(3, 90, seed=1), random(90, seed=2)
    to, sizes = put(gpu, padded(x)), {"LANES": 64, "COLUMNS": 90, "X_VEC4S": 24, "EPS": 1e-5, "FACTOR": 0.5}
    source = shader([lanes(gpu), "add_norm"], sizes)
    gpu.submit([gpu.dispatch(source, [put(gpu, padded(y)), put(gpu, padded(norm[None])), to], (3, 1, 1))])
    near(get(gpu, to, (3, 96)), padded((x + normed(y, norm) / 2).astype(np.float32)))


@pytest.mark.parametrize("few", [True, False])
def test_what_becomes_of_the_sums_of_a_matmul(gpu: GPUContext, few: bool) -> None:
    """A scale and a soft cap of the logits, also where they are far beyond it."""
    stored, weights = matrix("F32", COLUMNS)
    x, bias = 9 * random(2, COLUMNS), random(ROWS, seed=2)
    x[1] *= 1000
    files, first = (
        (["f_silu", "x_values", "one_matrix", "matvec"], 6) if few else (["matmul_tile", "batch_tiles", "matmul"], 5)
    )
    flags = told(BIASED=True, FACTOR=0.125, SOFT_CAP=30.0, LANES=64 if few else 128, COUNT=0, W_TYPE="f32")
    nothing, to = put(gpu, np.zeros(4, np.uint32)), put(gpu, np.zeros((2, ROWS), np.float32))
    given = [shape(gpu, COLUMNS, ROWS), put(gpu, rows(2, [])), put(gpu, x), *([nothing] if few else []), put(gpu, bias)]
    source = shader(["batch", lanes(gpu), *files], flags, ["F32"], first)
    gpu.submit([gpu.dispatch(source, [*given, to, put(gpu, stored)], (18, 2, 1) if few else (2, 1, 1))])
    near(get(gpu, to, (2, ROWS)), 30 * np.tanh((x @ weights.T + bias) / 8 / 30))
