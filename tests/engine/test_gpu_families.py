"""Families with windows, soft caps, norms behind blocks, fused tensors and scales: every split of them."""

from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.engine.kv_pages import FREED, most_pages
from edgellm.engine.limits import BatchLimits
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.offload import OffloadRequest
from edgellm.engine.placement import longest_run
from edgellm.engine.protocol import Segment
from edgellm.engine.webgpu.fit import gpu_memory
from edgellm.errors import EdgeLLMWarning, NoMemoryError
from edgellm.gguf import GGUFFile
from kquants.kv_layout import PAGE
from support.families.files import convert_case, widened
from support.families.references import IDS, POSITIONS, load_reference
from support.gpus import gpu_of, logits, opened
from support.model_file import FamilyFile
from support.reference import divergence

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("here")]
on = contextmanager(opened)

SPLIT = {
    "gemma3_4b": (1, 2, 7),  # windows of more than a page, not in the sixth layer; two RoPEs, GeGLU, four norms
    "phi4_mini": (1, 3),  # fused tensors, RoPE of three quarters of a head, LongRoPE
    "granite": (1, 3),  # scales of residuals, attention and logits
}
"""Models that a GPU computes whole, and layers that it computes, from the last one on: the last number is all."""

WHOLE = {
    "gemma2": "soft caps",
    "mistral_window": "a window below a page",
    "smollm3": "layers without RoPE",
    "hunyuan": "norms of heads after RoPE",
    "glm4_biases": "RoPE of neighbouring pairs, biases",
    "ministral3": "queries scaled by position",
    "olmo2": "norms of whole projections, no norms before blocks",
    "gemma4_31b": "values that are the keys, norms of values, layers of two sizes, scales of layers",
    "starcoder2": "LayerNorm with bias, GELU without a gate, biases of all products, a window below a page",
    "stablelm_1_6b": "LayerNorm with bias before SwiGLU",
    "muse_glimmer": "attention gates, norms without weights, scaled and capped logits",
}
"""More of them, and what they have."""


def some_logits(engine: NativeEngine, ends: tuple[int, ...] = (140, 141)) -> NDArray[np.float32]:
    """The logits of a prompt in chunks with these ends: by default one chunk, and a token on its own."""
    sequence, parts, start = engine.new_sequence(), [], 0
    for end in ends:
        parts.append(engine.forward([Segment(sequence, IDS[start:end], range(end - start))]))
        start = end
    return np.concatenate(parts)


@pytest.mark.parametrize("name", SPLIT)
def test_each_split_computes_the_same(family_file: FamilyFile, name: str) -> None:
    path, blocks = family_file(name), 2 * SPLIT[name][-1] + 1
    with on(path, 0) as engine:
        wanted, in_parts = some_logits(engine), some_logits(engine, (60, 140, 143))
    for layers in SPLIT[name]:
        with on(path, layers) as engine:
            assert [device["blocks"] for device in engine.devices] == [blocks - 2 * layers, 2 * layers]
            assert divergence(wanted, some_logits(engine)) < 1e-9
    with on(path, "all") as engine:
        assert [device["blocks"] for device in engine.devices] == [0, blocks]
        assert divergence(wanted, some_logits(engine)) < 1e-9
        assert divergence(in_parts, some_logits(engine, (60, 140, 143))) < 1e-9


@pytest.mark.parametrize("name", WHOLE)
def test_whole_models_are_those_of_transformers(family_file: FamilyFile, name: str) -> None:
    """A prompt in chunks, three tokens at once, and the last one on its own."""
    reference = load_reference(name)
    with on(family_file(name), "all", ctx=1024) as engine:
        found = some_logits(engine, (150, 255, 258, 299, 300))
    first = [i for i, position in enumerate(POSITIONS) if position < 300]
    assert {255, 256, 299} < set(POSITIONS)
    assert divergence(reference.logits[first], found[[POSITIONS[i] for i in first]]) < 1e-5


@pytest.mark.parametrize("name", ["wide_gemma3_1b", "wide_phi4", "wide_granite"])
def test_quantized_files_are_as_near_to_the_truth_as_on_the_cpu(tmp_path: Path, name: str) -> None:
    """The parts of fused tensors among them, which are rows of k-quants."""
    path = convert_case(tmp_path, name, "Q4_K_M")
    with on(widened(path), 0) as engine:
        truth = some_logits(engine)
    with on(path, 0) as engine:
        cpu = divergence(truth, some_logits(engine))
    with on(path, "all") as engine:
        assert divergence(truth, some_logits(engine)) <= 1.1 * cpu


def test_what_a_shader_lacks_stays_on_the_cpu(family_file: FamilyFile) -> None:
    """xIELU, which all feed-forwards have: the output head alone goes there, as no run of blocks is longer."""
    path, every = family_file("apertus"), OffloadRequest("all")
    why = "there is no shader for the activation xielu: the CPU computes 3 of 3 layers"
    with on(path, 0) as engine:
        wanted = some_logits(engine)
    with pytest.warns(EdgeLLMWarning, match=why), on(path, "all", offload=every) as engine:
        assert [device["blocks"] for device in engine.devices] == [6, 1]
        assert divergence(wanted, some_logits(engine)) < 1e-9


@pytest.mark.parametrize(
    ("name", "why", "blocks"),
    [
        ("nemotron3_nano", "recurrent mixers of type Mamba-2: the CPU computes the mixers of 2 layers", [5, 6]),
        ("nemotron3_super", "experts that read a latent, recurrent mixers of type Mamba-2", [7, 4]),
    ],
)
def test_layers_of_one_block(family_file: FamilyFile, name: str, why: str, blocks: list[int]) -> None:
    """Blocks that a layer lacks end no run; experts without a gate are computed there, those of a latent are not."""
    path, every = family_file(name), OffloadRequest("all")
    with on(path, 0) as engine:
        wanted = some_logits(engine, (140, 141, 144))
    with pytest.warns(EdgeLLMWarning, match=why), on(path, "all", offload=every) as engine:
        assert [device["blocks"] for device in engine.devices] == blocks
        assert divergence(wanted, some_logits(engine, (140, 141, 144))) < 1e-9


def test_pages_before_a_window_are_freed(family_file: FamilyFile) -> None:
    """A long sequence, forked and cut, on a GPU and on the CPU in step; freed pages are used by others."""
    path = family_file("gemma3_1b")
    with on(path, 0, ctx=1024) as cpu, on(path, "all", ctx=1024) as gpu:
        own = [engine.new_sequence() for engine in (cpu, gpu)]
        for start in range(0, 500, 125):
            for engine, sequence in zip((cpu, gpu), own, strict=True):
                engine.forward([Segment(sequence, IDS[start : start + 125])])
        assert any(FREED in table.ids for table in own[1].tables)
        forks = [sequence.fork() for sequence in own]
        others = [engine.new_sequence() for engine in (cpu, gpu)]
        assert [sequence.trim(450) for sequence in forks] == [450, 450]
        for ids in ([7], [8, 9], IDS[:70], [3]):
            wanted, found = (
                engine.forward([Segment(each, ids, [len(ids) - 1]) for each in (own[i], forks[i], others[i])])
                for i, engine in enumerate((cpu, gpu))
            )
            assert divergence(wanted, found) < 1e-9


def test_memory_of_windowed_layers_is_bounded(family_file: FamilyFile) -> None:
    """Six of seven layers have a window of 100 tokens: float16 keys and values of 2 KV heads of 32."""
    with GGUFFile.open(family_file("gemma3_4b")) as file:
        model, page = describe(file), PAGE * 2 * 2 * 32 * 2
        for ctx in (1 << 14, 1 << 15):
            memory = gpu_memory(model, longest_run([True] * 15, 8), BatchLimits(64, ctx, "f16"))
            assert memory["kv_cache"] == page * (ctx // PAGE + 6 * most_pages(100, ctx, 64))
    assert most_pages(100, 1 << 15, 64) < 50


@pytest.mark.parametrize("name", ["cohere2", "gemma4_e2b", "stablelm_12b"])
def test_families_with_obstacles_compute_the_same(family_file: FamilyFile, name: str) -> None:
    """Whatever the shaders lack there, a request for all layers gives the logits of the CPU."""
    path = family_file(name)
    with on(path, 0) as engine:
        wanted = logits(engine, IDS[:30])
    every = OffloadRequest("all")
    with pytest.warns(EdgeLLMWarning, match="there is no shader for"), on(path, "all", offload=every) as engine:
        assert divergence(wanted, logits(engine, IDS[:30])) < 1e-9


def test_a_limit_is_for_the_pages_of_all_layers(family_file: FamilyFile) -> None:
    """Those of six windowed layers count when the full layer needs more, and the other way round."""
    with on(family_file("gemma3_4b"), "all") as engine:
        pages, page = gpu_of(engine)._kv_pages, PAGE * 2 * 2 * 32 * 4  # float32
        windowed, full = pages.groups
        assert (windowed.bytes_per_page, full.bytes_per_page) == (6 * page, page)
        pages._limit = windowed.pages * 6 * page + (full.pages + 3) * page
        pages.ensure_pages(1, full.pages + 1)
        assert full.pages == 8 + 3, "as many as the limit allows, and not twice as many"
        for group in (0, 1):
            with pytest.raises(NoMemoryError, match=r"may not grow beyond .* full after \d+ tokens"):
                pages.ensure_pages(group, pages.groups[group].pages + 1)
