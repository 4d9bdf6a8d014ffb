"""What decoding a token reads and multiplies, counted by hand, and how fast it is expected to be."""

from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.arch import describe, describe_head
from edgellm.arch.description import Description
from edgellm.arch.recurrent import Recurrent
from edgellm.engine.placement import CPU, GPU
from edgellm.engine.recurrent_ops import inputs_of
from edgellm.gguf import GGUFFile
from edgellm.perf.machine_profile import MEMORY
from edgellm.perf.roofline import Roofline, decode_tps, distinct_experts
from support.make_gguf import write_model
from support.model_file import FamilyFile, ModelFile

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "vocab": 320, "layers": 2}
LAYER = 4 * (64 + 64 * 64 + 2 * 32 * 64 + 64 * 64 + 64 + 3 * 64 * 96)
"""Bytes of a layer of float32: norm, q, k and v, output, norm, gate, up and down."""


def roofline(path: Path, kv_type: str = "f16") -> Roofline:
    with GGUFFile.open(path) as file:
        return Roofline.of(describe(file), kv_type)


def test_a_token_reads_every_weight_once(model_file: ModelFile) -> None:
    tied = roofline(model_file(**SIZES, types="F32"))
    assert tied.weight_bytes == 2 * LAYER + 4 * 64 + 4 * 64 * 320
    untied = roofline(model_file(**SIZES, types="F32", tied=False))
    assert untied.weight_bytes == tied.weight_bytes + 4 * 64  # and a row of the embedding
    biased = roofline(model_file(**SIZES, types="F32", arch="qwen2"))
    assert biased.weight_bytes == tied.weight_bytes + 2 * 4 * (64 + 32 + 32)
    normed = roofline(model_file(**SIZES, types="F32", arch="qwen3"))
    assert normed.weight_bytes == tied.weight_bytes + 2 * 4 * (32 + 32)
    small = roofline(model_file(**SIZES, types="Q8_0"))
    norms = 4 * 64 * 5
    matrices = (tied.weight_bytes - norms) // 4 * 34 // 32
    assert (small.weight_bytes, small.matrix_bytes) == (norms + matrices, {"Q8_0": matrices})
    assert biased.matrix_bytes == {"F32": tied.weight_bytes - norms}


def test_matrix_bytes_are_counted_by_format(tmp_path: Path) -> None:
    types = {"": "F32", "token_embd": "Q8_0", "ffn_up": "F16"}
    found = roofline(write_model(tmp_path / "m.gguf", **SIZES, types=types))
    others = LAYER - 4 * (64 + 64 + 64 * 96)  # without norms and ffn_up
    assert found.matrix_bytes == {"Q8_0": 320 * 64 * 34 // 32, "F16": 2 * 2 * 64 * 96, "F32": 2 * others}
    assert found.profile_names[0] == MEMORY
    assert set(found.profile_names[1:]) == {"Q8_0", "F16", "F32"}
    # A second for each format, so three for all of them.
    assert found.matmul_bandwidth({**found.matrix_bytes, "Q4_K": 1.0}) == pytest.approx(
        sum(found.matrix_bytes.values()) / 3
    )
    assert found.matmul_bandwidth({"Q8_0": 1.0, "F32": 1.0}) is None


@pytest.mark.parametrize(("kv_type", "size"), [("f16", 2), ("f32", 4)])
def test_a_token_reads_the_cells_of_those_before_it_and_its_own(model_file: ModelFile, kv_type: str, size: int) -> None:
    found = roofline(model_file(**SIZES, types="F32"), kv_type)
    assert found.kv_bytes_per_token == 2 * 1 * (32 + 32) * size  # layers, KV heads, key and value
    assert found.bytes_per_token(0) == found.weight_bytes + found.kv_bytes_per_token
    assert found.bytes_per_token(100) == found.weight_bytes + 101 * found.kv_bytes_per_token


def test_layers_with_a_window_read_no_more_than_it(model_file: ModelFile) -> None:
    windowed = model_file(**SIZES, types="F32", metadata=(("attention.sliding_window", 100),))
    found, cell = roofline(windowed), 2 * (32 + 32) * 2
    assert found.kv_bytes == {100: cell}
    reads = [found.bytes_per_token(depth) - found.weight_bytes for depth in (0, 98, 99, 100, 5000)]
    assert reads == [cell, 99 * cell, 100 * cell, 100 * cell, 100 * cell]


HYBRID: dict[str, Any] = {"arch": "qwen35", "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 96}
STATE = 4 * (3 * (2 * 16 + 2 * 16) + 2 * 16 * 32)
"""Bytes of a state: three rows of q, k and v for the convolution, and 16 rows of two heads, padded to 32 values."""


def test_a_token_reads_and_writes_the_states(model_file: ModelFile) -> None:
    """Of four layers, two have a state, and two keys and values."""
    found = roofline(model_file(**HYBRID, types="F32", layers=4))
    assert (found.state_bytes, found.kv_bytes) == (2 * STATE, {None: 2 * 2 * (16 + 16) * 2})
    cells = 101 * found.kv_bytes_per_token
    assert found.sequence_bytes(101) == cells + 2 * 2 * STATE
    assert found.bytes_per_token(100) == found.weight_bytes + cells + 2 * 2 * STATE
    assert roofline(model_file(**SIZES, types="F32")).state_bytes == 0
    model = describe(GGUFFile.open(model_file(**HYBRID, types="F32", layers=4)))
    on_gpu = Roofline.of_cpu(model, "f16", (CPU, GPU, GPU, GPU, CPU, GPU, GPU, GPU, GPU))
    assert (on_gpu.state_bytes, on_gpu.kv_bytes) == (2 * STATE, {}), "states stay on the CPU"
    projections = [part.weight for layer in (0, 2) for part in inputs_of(recurrent(model, layer))]
    outputs = [recurrent(model, layer).output.weight for layer in (0, 2)]
    assert on_gpu.matrix_bytes == {"F32": sum(weight.nbytes for weight in [*projections, *outputs])}


def recurrent(model: Description, layer: int) -> Recurrent:
    """The recurrent mixer of a layer."""
    found = model.layers[layer].recurrent
    assert found
    return found


EXPERTS: dict[str, Any] = {**SIZES, "arch": "qwen3moe", "experts": 8, "used": 3}
SHARED = 2 * (LAYER - 4 * 3 * 64 * 96 + 4 * 2 * 32 + 4 * 8 * 64) + 4 * 64 + 4 * 64 * 320
"""Bytes of weights that all tokens read: with norms of heads and the router's matrix, without experts."""


def test_a_token_reads_the_experts_that_it_uses(model_file: ModelFile) -> None:
    expert = 4 * 3 * 64 * 96
    found = roofline(model_file(**EXPERTS, types="F32"))
    assert found.expert_bytes == {(8, 3): 2 * 8 * expert}
    assert found.weight_bytes == SHARED + 2 * 3 * expert
    types = {"": "F32", "ffn_down_exps": "Q8_0"}
    mixed = roofline(write_model(model_file(**EXPERTS, types="F32").parent / "mixed.gguf", **EXPERTS, types=types))
    assert mixed.matrix_bytes["Q8_0"] == 2 * 3 * 64 * 96 * 34 // 32
    assert mixed.matrix_bytes["F32"] == found.matrix_bytes["F32"] - 2 * 3 * 4 * 64 * 96
    assert found.matrix_bytes["F32"] == found.weight_bytes - 4 * (64 * 5 + 2 * 2 * 32), "all but norms is multiplied"


def test_what_the_cpu_reads_where_other_blocks_are_on_a_gpu(model_file: ModelFile) -> None:
    """Experts and their routers alone; of the embedding, which is the output head as well, a row."""
    model, expert, router = describe(GGUFFile.open(model_file(**EXPERTS, types="F32"))), 4 * 3 * 64 * 96, 4 * 8 * 64
    found = Roofline.of_cpu(model, "f16", (GPU, CPU, GPU, CPU, GPU))
    assert found.expert_bytes == Roofline.of(model, "f16").expert_bytes
    assert (dict(found.kv_bytes), found.matrix_bytes) == ({}, {"F32": 2 * (3 * expert + router)})
    norms = 2 * 4 * 64
    assert found.weight_bytes == 2 * (3 * expert + router) + norms + 4 * 64
    assert Roofline.of_cpu(model, "f16", (CPU,) * 5) == Roofline.of(model, "f16")
    assert Roofline.of_cpu(model, "f16", (GPU, GPU, CPU, GPU, CPU)).expert_bytes == {}


def test_a_step_of_many_rows_reads_nearly_all_experts(model_file: ModelFile) -> None:
    found = roofline(model_file(**EXPERTS, types="F32"))
    assert found.step_weight_bytes(1) == pytest.approx(found.weight_bytes)
    assert found.step_weight_bytes(1000) == pytest.approx(SHARED + found.expert_bytes[8, 3])
    dense = roofline(model_file(**SIZES, types="F32"))
    assert dense.step_weight_bytes(8) == dense.weight_bytes


@given(st.integers(1, 6), st.data())
def test_distinct_experts(count: int, data: st.DataObject) -> None:
    """The mean over all choices of some rows."""
    used, rows = data.draw(st.integers(1, count)), data.draw(st.integers(1, 3))
    choices = list(combinations(range(count), used))
    sizes = [len(set().union(*each)) for each in product(choices, repeat=rows)]
    assert distinct_experts(count, used, rows) == pytest.approx(sum(sizes) / len(sizes))


@given(
    *(st.integers(10**5, 10**11), st.integers(0, 10**6), st.integers(1, 200)),
    *(st.floats(1e9, 5e11), st.floats(1e9, 5e11)),
)
def test_a_prediction_stays_below_both_limits(
    weights: int, cell: int, layers: int, memory: float, arithmetic: float
) -> None:
    def expected(
        depth: float = 100, layers: int = layers, memory: float = memory, more: float = 1, threads: int = 2
    ) -> float:
        tps = decode_tps(told, layers, {MEMORY: memory, "Q4_K": arithmetic * more}, threads, depth)
        assert tps is not None
        return tps

    told = Roofline(weights, {None: cell}, {"Q4_K": weights})
    tps = expected()
    assert 0 < tps < min(memory, arithmetic) / told.bytes_per_token(100)
    assert expected(depth=200) <= tps
    assert expected(layers=layers + 1) < tps
    assert min(expected(memory=2 * memory), expected(more=2)) >= tps < expected(memory=2 * memory, more=2)
    assert expected(threads=1) > tps, "one thread waits at no barrier"


@pytest.mark.parametrize("missing", [MEMORY, "Q4_K", "Q6_K"])
def test_without_one_of_the_speeds_nothing_is_expected(missing: str) -> None:
    known = {MEMORY: 4e10, "Q4_K": 5e10, "Q6_K": 4e10}
    told = Roofline(10**9, {}, {"Q4_K": 10**8, "Q6_K": 10**8})
    assert decode_tps(told, 1, known, 2)
    assert decode_tps(told, 1, {name: speed for name, speed in known.items() if name != missing}, 2) is None


Q4_K_M = Roofline(803_000_000, {None: 65_536}, {"Q4_K": 467_140_608, "Q6_K": 332_451_840})
Q8_0 = Roofline(1_316_500_000, {None: 65_536}, {"Q8_0": 1_312_981_000})
ZEN_4 = [
    (Q4_K_M, 1, {MEMORY: 32.0e9, "Q4_K": 24.0e9, "Q6_K": 19.7e9}, 22.1),
    (Q4_K_M, 2, {MEMORY: 36.1e9, "Q4_K": 46.6e9, "Q6_K": 38.4e9}, 38.6),
    (Q4_K_M, 2, {MEMORY: 62.2e9, "Q4_K": 41.5e9, "Q6_K": 34.2e9}, 41.7),
    (Q8_0, 1, {MEMORY: 30.8e9, "Q8_0": 26.4e9}, 16.7),
    (Q8_0, 2, {MEMORY: 36.3e9, "Q8_0": 49.7e9}, 25.3),
]
ZEN_5 = [
    (Q4_K_M, 1, {MEMORY: 41.8e9, "Q4_K": 74e9, "Q6_K": 61e9}, 48.3),
    (Q4_K_M, 2, {MEMORY: 45.2e9, "Q4_K": 148e9, "Q6_K": 122e9}, 54.4),
    (Q8_0, 2, {MEMORY: 81.1e9, "Q8_0": 176e9}, 52.1),
]
GRANITE_RAPIDS = [
    (Q4_K_M, 1, {MEMORY: 17.7e9, "Q4_K": 43e9, "Q6_K": 37e9}, 21.0),
    (Q4_K_M, 2, {MEMORY: 35.6e9, "Q4_K": 86e9, "Q6_K": 74e9}, 40.9),
    (Q8_0, 2, {MEMORY: 35.4e9, "Q8_0": 104e9}, 25.0),
]


@pytest.mark.parametrize(("roofline", "threads", "speeds", "tps"), ZEN_4 + ZEN_5 + GRANITE_RAPIDS)
def test_predictions_match_measurements(roofline: Roofline, threads: int, speeds: dict[str, float], tps: float) -> None:
    # The median of bench, of models with 16 layers. The Zen 4 has AVX2 alone; of the others what one thread multiplies
    # was measured.
    assert decode_tps(roofline, 16, speeds, threads) == pytest.approx(tps, rel=0.1)


def test_of_a_head_the_projection_of_its_pairs_counts(family_file: FamilyFile) -> None:
    with GGUFFile.open(family_file("glm4_5_air")) as file:
        head = describe_head(file, describe(file))
        assert head
        width, found = head.model.width, Roofline.of(head.model, "f16")
        without = Roofline.of(replace(head.model, entry=None), "f16")
    assert found.matrix_bytes["F32"] - without.matrix_bytes["F32"] == 4 * 2 * width * width
    assert found.weight_bytes - without.weight_bytes == 4 * (2 * width * width + 2 * width)
