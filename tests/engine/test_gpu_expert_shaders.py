"""The shaders of mixtures of experts, each on its own, against NumPy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.engine.webgpu.adapters import FEATURES, PACKED_DOT
from edgellm.engine.webgpu.commands import Buffer
from edgellm.engine.webgpu.context import GPUContext
from edgellm.engine.webgpu.shaders import shader
from support.gpus import adapter
from support.routing import Routing
from support.shaders import COLUMNS, ROWS, get, lanes, matrix, near, put, random, rows, told, whole_numbers

pytestmark = pytest.mark.gpu

Array = NDArray[Any]

EXPERTS, USED, TOKENS = 5, 2, 90
STACK = {"FIRST_MATRIX": 0, "MATRICES": EXPERTS, "STORED": ROWS, "FIRST": 0, "UP_STORED": ROWS, "UP_FIRST": 0}


@pytest.fixture(scope="module", params=[(), (*FEATURES.values(), PACKED_DOT)], ids=["all features", "no features"])
def gpu(request: pytest.FixtureRequest) -> Iterator[GPUContext]:
    gpu = GPUContext(adapter(), masked=request.param)
    yield gpu
    gpu.close()


ROUTINGS: dict[str, tuple[Routing, int]] = {
    "Qwen3": (Routing(8, normalized=True), 128),
    "Qwen2, scaled": (Routing(4, scale=2.5), 60),
    "DeepSeek V3": (Routing(6, sigmoid=True, normalized=True, groups=4, used_groups=2, scale=2.5), 32),
    "best of a group": (Routing(3, groups=8, used_groups=3, group_scores=1), 40),
    "one": (Routing(1, sigmoid=True, logit_scale=0.25), 16),
    "all": (Routing(7, normalized=True), 7),
}


@pytest.mark.parametrize("name", ROUTINGS)
@pytest.mark.parametrize("biased", [False, True])
def test_routes(gpu: GPUContext, name: str, biased: bool) -> None:
    r, experts = ROUTINGS[name]
    logits, bias, factors = random(5, experts), random(experts, seed=1) / 4, 1 + random(experts, seed=2) / 4
    logits[0] = np.arange(experts) // 3  # ties
    logits[1] = 0
    chosen, weights = put(gpu, np.full((5, r.used), 99, np.uint32)), put(gpu, np.zeros((5, r.used), np.float32))
    told_router: dict[str, Any] = {
        "LANES": 64,
        "EXPERTS": experts,
        "USED": r.used,
        "SOFTMAX": not r.sigmoid,
        "NORMALIZED": r.normalized,
        "BIASED": biased,
        "SCALED": biased,
        "GROUPS": r.groups,
        "USED_GROUPS": r.used_groups,
        "GROUP_SCORES": r.group_scores,
        "LOGIT_SCALE": r.logit_scale,
        "SCALE": r.scale,
    }
    given = [put(gpu, logits), put(gpu, bias), put(gpu, factors), chosen, weights]
    gpu.submit([gpu.dispatch(shader([lanes(gpu), "route"], told_router), given, (5, 1, 1))])
    wanted, of_wanted = r.of(logits, bias, factors) if biased else r.of(logits)
    assert (get(gpu, chosen, (5, r.used)).view(np.uint32) == wanted).all()
    assert np.allclose(get(gpu, weights, (5, r.used)), of_wanted, rtol=1e-5)


def planned(gpu: GPUContext, chosen: Array) -> tuple[Buffer, Buffer, int, int]:
    """The plan and the slots of a batch, where choices begin in it, and the tiles that a dispatch reaches."""
    tokens, used = chosen.shape
    tiles = chosen.size // 64 + min(EXPERTS, chosen.size)
    plan = put(gpu, np.full(3 * tiles + chosen.size, 99, np.uint32))
    slots = put(gpu, np.zeros(chosen.size, np.uint32))
    constants = {"LANES": 64, "EXPERTS": EXPERTS, "USED": used, "CHOICES_AT": 3 * tiles}
    source = shader(["batch", lanes(gpu), "plan"], constants)
    gpu.submit([gpu.dispatch(source, [put(gpu, rows(tokens, [])), put(gpu, chosen), plan, slots], (1, 1, 1))])
    return plan, slots, 3 * tiles, tiles


def some_choices(tokens: int) -> Array:
    """Two different experts of each row: expert 1 more often than the others, expert 3 never."""
    random = np.random.default_rng(tokens)
    rest = random.choice([0, 2, 4], tokens)
    return np.where(random.random((tokens, 1)) < 0.5, np.stack([np.full(tokens, 1), rest], 1), [[4, 2]]).astype(
        np.uint32
    )


@pytest.mark.parametrize("tokens", [1, 5, TOKENS])
def test_plans(gpu: GPUContext, tokens: int) -> None:
    """Choices are sorted by expert and then by row; a tile has up to 64 slots of one expert."""
    chosen = some_choices(tokens)
    plan, slots, choices_at, tiles = planned(gpu, chosen)
    found = get(gpu, plan, (choices_at + chosen.size,)).view(np.uint32)
    order = np.argsort(chosen.ravel(), kind="stable")
    assert (found[choices_at:] == order).all()
    assert (get(gpu, slots, (chosen.size,)).view(np.uint32)[order] == np.arange(chosen.size)).all()
    of_slots, covered = chosen.ravel()[order], list[int]()
    for expert, first, end in found[:choices_at].reshape(tiles, 3).tolist():
        assert 0 <= end - first <= 64
        assert (of_slots[first:end] == expert).all()
        covered += range(first, end)
    assert covered == list(range(chosen.size))


def stack(name: str, columns: int = COLUMNS) -> tuple[Array, Array]:
    """The matrices of a stack as a file has them, and what they mean."""
    stored, weights = zip(*(matrix(name, columns, seed) for seed in range(EXPERTS)), strict=True)
    return np.concatenate(stored), np.stack(weights)


def stack_shape(gpu: GPUContext, n: int, columns: int = COLUMNS) -> Buffer:
    return gpu.uniform([n, 0, columns, -(-columns // 32) * 8, n, n, 0, 0])


@pytest.mark.parametrize("name", ["F32", "Q4_K", "Q5_0", "MXFP4"])
def test_few_slots(gpu: GPUContext, name: str) -> None:
    """Rows of x for two slots each, some rows of each matrix, biases, and a buffer with some of the matrices."""
    (stored, weights), x, bias = stack(name), random(3, COLUMNS), random(EXPERTS * ROWS, seed=2)
    chosen, n, first = some_choices(3), 21, 10
    to, files = put(gpu, np.zeros((6, n), np.float32)), ["batch", lanes(gpu), "f_silu", "x_values", "expert_matrices"]
    nothing, per_matrix = put(gpu, np.zeros(4)), len(stored) // EXPERTS
    for begin, end in ((0, 2), (2, EXPERTS)):
        part = {"FIRST_MATRIX": begin, "MATRICES": end - begin, "FIRST": first, "SLOTS": 2}
        source = shader([*files, "matvec"], told(EACH=2, BIASED=True) | STACK | part, [name], 6)
        w = put(gpu, stored[begin * per_matrix : end * per_matrix])
        given = [stack_shape(gpu, n), put(gpu, chosen), put(gpu, x), nothing, put(gpu, bias), to, w]
        gpu.submit([gpu.dispatch(source, given, (3, 6, 1))])
    of_slots = chosen.ravel()
    wanted = np.einsum("src,sc->sr", weights[of_slots, first : first + n], x.repeat(2, axis=0))
    near(get(gpu, to, (6, n)), wanted + bias.reshape(EXPERTS, ROWS)[of_slots, first : first + n])


def test_gate_and_up_of_one_stack(gpu: GPUContext) -> None:
    """Each matrix has the rows of the gate above those of the up projection; the buffer is bound twice."""
    (stored, weights), x, half = stack("Q8_0"), random(2, COLUMNS) / 8, ROWS // 2
    chosen, w, nothing = some_choices(2), put(gpu, stored), put(gpu, np.zeros(4))
    files = ["batch", lanes(gpu), "f_silu", "x_values", "expert_matrices", "matvec"]
    source = shader(files, told(GATED=True) | STACK | {"UP_FIRST": half, "SLOTS": 2}, ["Q8_0", "Q8_0"], 6)
    to = put(gpu, np.zeros((4, half), np.float32))
    given = [stack_shape(gpu, half), put(gpu, chosen), put(gpu, x), nothing, nothing, to, w, w]
    gpu.submit([gpu.dispatch(source, given, (9, 4, 1))])
    both = np.einsum("src,sc->sr", weights[chosen.ravel()], x.repeat(2, axis=0))
    gate, up = both[:, :half], both[:, half:]
    near(get(gpu, to, (4, half)), gate / (1 + np.exp(-gate)) * up)


@pytest.mark.parametrize("packed", [False, True], ids=["floats", "integers"])
@pytest.mark.parametrize("slots", [1, USED], ids=["a row for each slot", "rows of x"])
def test_many_slots(gpu: GPUContext, slots: int, packed: bool) -> None:
    """Tiles of one expert each, of up to 64 slots; a slot reads the row of x of its choice, or its own."""
    (stored, weights), bias = stack("Q5_0"), random(EXPERTS * ROWS, seed=2)
    chosen = some_choices(TOKENS)
    plan, _, choices_at, tiles = planned(gpu, chosen)
    x = whole_numbers(TOKENS * USED // slots, COLUMNS)
    of_x = put(gpu, x)
    kernel, given = "matmul", [of_x]
    constants = told(LANES=128, BIASED=True) | STACK | {"SLOTS": slots, "CHOICES_AT": choices_at}
    if packed:
        q, scales = put(gpu, np.zeros((len(x), COLUMNS // 4))), put(gpu, np.zeros((len(x), COLUMNS // 16)))
        parts = ["formats/bits", lanes(gpu), "rounding", "x_packed", "quantize"]
        source = shader(parts, {"LANES": 64, "X_VEC4S": COLUMNS // 4})
        gpu.submit([gpu.dispatch(source, [of_x, q, scales], (1, len(x), 1))])
        kernel, given = "matmul_packed", [q, scales]
    else:
        constants |= {"W_TYPE": "f32"}
    to = put(gpu, np.zeros((chosen.size, ROWS), np.float32))
    source = shader(["batch", lanes(gpu), "matmul_tile", "expert_tiles", kernel], constants, ["Q5_0"], 4 + len(given))
    buffers = [stack_shape(gpu, ROWS), plan, *given, put(gpu, bias), to, put(gpu, stored)]
    gpu.submit([gpu.dispatch(source, buffers, (2, tiles, 1))])
    order = np.argsort(chosen.ravel(), kind="stable")
    experts, read = chosen.ravel()[order], x[order // USED] if slots > 1 else x
    near(
        get(gpu, to, (chosen.size, ROWS)),
        np.einsum("src,sc->sr", weights[experts], read) + bias.reshape(EXPERTS, -1)[experts],
    )


@pytest.mark.parametrize("is_planned", [False, True])
def test_the_weighted_sum_of_slots(gpu: GPUContext, is_planned: bool) -> None:
    x, y, weights = random(3, 96), random(6, 96, seed=1), random(3, 2, seed=2)
    slots = np.array([4, 0, 5, 2, 1, 3], np.uint32)
    constants = {"LANES": 64, "USED": 2, "X_VEC4S": 24, "PLANNED": is_planned, "FACTOR": 0.5}
    to = put(gpu, x)
    given = [put(gpu, weights), put(gpu, slots), put(gpu, y), to]
    gpu.submit([gpu.dispatch(shader([lanes(gpu), "combine"], constants), given, (1, 3, 1))])
    own = (y[slots] if is_planned else y).reshape(3, 2, 96)
    near(get(gpu, to, (3, 96)), x + 0.5 * (weights[:, :, None] * own).sum(axis=1))


def test_rows_with_a_gate(gpu: GPUContext) -> None:
    h, gate = random(3, 96), np.array([-100, 0, 2], np.float32)
    to, source = put(gpu, h), shader([lanes(gpu), "gate_rows"], {"LANES": 64, "VEC4S": 24})
    gpu.submit([gpu.dispatch(source, [to, put(gpu, gate)], (1, 3, 1))])
    near(get(gpu, to, (3, 96)), h / (1 + np.exp(-gate.astype(np.float64)))[:, None])


def test_clamped_swiglu(gpu: GPUContext) -> None:
    gate, up = 6 * random(3, 96), 6 * random(3, 96, seed=1)
    to, constants = put(gpu, gate), {"LANES": 64, "VEC4S": 24, "LIMIT": 7.0, "ALPHA": 1.702}
    gpu.submit([gpu.dispatch(shader([lanes(gpu), "clamped_swiglu"], constants), [to, put(gpu, up)], (1, 3, 1))])
    g = np.minimum(gate, 7).astype(np.float64)
    assert (gate > 7).any() and (np.abs(up) > 7).any()
    near(get(gpu, to, (3, 96)), g / (1 + np.exp(-1.702 * g)) * (np.clip(up, -7, 7) + 1))
