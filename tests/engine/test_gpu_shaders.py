"""Every shader on its own, against NumPy: matmuls of each format, and the shaders between them."""

from collections.abc import Callable, Iterator
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.engine.webgpu.adapters import FEATURES, PACKED_DOT
from edgellm.engine.webgpu.batch_layout import HEADER, ROW
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.shaders import FORMATS, shader
from support.gpus import adapter
from support.kernels import KINDS
from support.random_weights import ENCODERS

pytestmark = pytest.mark.gpu

MASKS: list[tuple[str, ...]] = [(), (*FEATURES.values(), PACKED_DOT)]
COLUMNS, ROWS, TOKENS = 512, 70, 67
Array = NDArray[Any]


@pytest.fixture(scope="module", params=MASKS, ids=["all features", "no features"])
def gpu(request: pytest.FixtureRequest) -> Iterator[GPUContext]:
    gpu = GPUContext(adapter(), masked=request.param)
    yield gpu
    gpu.close()


def put(gpu: GPUContext, array: Array) -> Buffer:
    """An array on the GPU."""
    data = np.frombuffer(array.tobytes() + bytes(-array.nbytes % 4), np.uint8)
    buffer = gpu.buffer(data.nbytes, "a test")
    gpu.write(buffer, data)
    return buffer


def get(gpu: GPUContext, buffer: Buffer, shape: tuple[int, ...]) -> NDArray[np.float32]:
    n = 4 * int(np.prod(shape))
    gpu.submit([], copies=[(buffer, 0, gpu.staging(n), 0, n)])
    return gpu.read(n).reshape(shape)


def lanes(gpu: GPUContext) -> str:
    return "lanes_subgroup" if "subgroups" in gpu.features else "lanes_tree"


def rows(n: int, outputs: list[int]) -> Array:
    """A batch of n rows."""
    batch = np.zeros(HEADER + ROW * n, np.uint32)
    batch[:2] = n, len(outputs)
    batch[HEADER:].reshape(n, ROW)[: len(outputs), 4] = outputs
    return batch


def random(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def matrix(name: str, columns: int, seed: int = 0) -> tuple[Array, NDArray[np.float64]]:
    """Rows of a format as a file has them, and what they mean."""
    kind = gguf.GGMLQuantizationType[name]
    stored = ENCODERS[kind](np.random.default_rng(seed), ROWS, columns, 1.0)
    return stored, gguf.quants.dequantize(stored, kind).astype(np.float64)


def columns_of(name: str) -> int:
    """Columns that are no whole groups of 32 where the format allows it."""
    return COLUMNS - 3 if KINDS[name].block == 1 else COLUMNS


def whole_numbers(n: int, columns: int) -> NDArray[np.float32]:
    """Rows of x that rounding to 127 steps leaves as they are, and so the only error is that of float32."""
    x = np.random.default_rng(1).integers(-127, 128, (n, columns)).astype(np.float32)
    x[:, ::32] = 127
    x[0, 32:64] = 0
    return x


def padded(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.pad(x, ((0, 0), (0, -x.shape[1] % 32)))


def near(found: Array, wanted: Array) -> None:
    scale = np.abs(wanted).max()
    assert np.abs(found - wanted).max() < 2e-6 * scale * np.sqrt(COLUMNS)


def told(**given: Any) -> dict[str, Any]:
    """The constants of the shaders of matmuls."""
    flags = dict.fromkeys(("NORMED", "BIASED", "ADDED", "GATED", "GATHERED"), False)
    return {"LANES": 64, "EACH": 1, "EPS": 1e-5, "FACTOR": 1.0, "SOFT_CAP": 0.0} | flags | given


def shape(gpu: GPUContext, columns: int, y_stride: int, first: int = 0, rows: int = ROWS) -> Buffer:
    """See `shaders/shape.wgsl`; tensors have ROWS rows each."""
    return gpu.uniform([rows, first, columns, -(-columns // 32) * 8, y_stride, ROWS, 2 * ROWS, 0])


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
