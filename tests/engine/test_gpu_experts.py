"""Models with experts on a GPU: every split, experts on the CPU, and families against `transformers`."""

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.offload import OffloadRequest
from edgellm.engine.placement import CPU, GPU
from edgellm.engine.protocol import Segment
from edgellm.engine.webgpu import open_device
from edgellm.errors import EdgeLLMWarning
from support.families.files import widened
from support.families.references import IDS, POSITIONS, load_reference
from support.gpus import TINY, gpu_of, logits, opened, some_ids
from support.make_gguf import write_model
from support.model_file import FamilyFile, ModelFile
from support.reference import divergence

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("here")]
on = contextmanager(opened)

QWEN3: dict[str, Any] = TINY | {"arch": "qwen3moe", "ffn": 48, "experts": 8, "used": 3}
Outcome = tuple[list[int], NDArray[np.float32], NDArray[np.float32]]


@pytest.fixture(params=["qwen3moe", "gpt_oss"])
def path(request: pytest.FixtureRequest, model_file: ModelFile, family_file: FamilyFile) -> Path:
    """A random model shaped as Qwen3, and one as gpt-oss, with sinks, windows, biases and clamped SwiGLU."""
    return model_file(**QWEN3) if request.param == "qwen3moe" else family_file("gpt_oss")


def ids_of(path: Path) -> list[int]:
    """Tokens of a model of either kind."""
    return [i % 256 for i in some_ids(100)]


def outcome(path: Path, layers: int | str, **request: Any) -> Outcome:
    """The blocks on the CPU and on the GPU, the logits of a prompt, and those of its first tokens in ones and twos."""
    ids = ids_of(path)
    with on(path, layers, offload=OffloadRequest(layers, strict=True, **request)) as engine:
        few = np.concatenate([logits(engine, ids[:4], step=1), logits(engine, ids[:4], step=2)])
        return [device["blocks"] for device in engine.devices], logits(engine, ids), few


def test_every_split_computes_the_same(path: Path) -> None:
    _, prompt, few = outcome(path, 0)
    blocks = None
    for layers in (1, 2, "all"):
        (there, here), found, one_by_one = outcome(path, layers)
        blocks = blocks or there + here
        assert here == (blocks if layers == "all" else 2 * int(layers))
        assert divergence(prompt, found) < 1e-9
        assert divergence(few, one_by_one) < 1e-9


KEPT: dict[str, tuple[dict[str, Any], Callable[[int], int]]] = {
    "all experts": ({"cpu_moe": True}, lambda layers: layers),
    "of one layer": ({"n_cpu_moe": 1}, lambda layers: 1),
    "of more layers than there are": ({"n_cpu_moe": 99}, lambda layers: layers),
    "none": ({"n_cpu_moe": 0}, lambda layers: 0),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.exhaustive) if "more" in name else name for name in KEPT]
)
def test_experts_stay_on_the_cpu(path: Path, name: str) -> None:
    """The hidden state crosses at each of their layers."""
    request, kept = KEPT[name]
    (blocks,), prompt, few = outcome(path, 0)
    (there, here), found, one_by_one = outcome(path, "all", **request)
    assert (there, here) == (kept(blocks // 2), blocks - kept(blocks // 2))
    assert divergence(prompt, found) < 1e-9
    assert divergence(few, one_by_one) < 1e-9


def test_dense_layers_stay_whole_on_the_gpu(family_file: FamilyFile) -> None:
    """The first two of four layers have no experts."""
    with on(family_file("glm4_5"), "all", offload=OffloadRequest("all", strict=True, cpu_moe=True)) as engine:
        assert engine._runner.placement == (GPU, GPU, GPU, GPU, GPU, CPU, GPU, CPU, GPU)


FAMILIES = {
    "qwen2moe": "a gated shared expert, weights that do not add up to 1",
    "granitemoe_shared": "a shared expert without a gate, scales of residuals",
    "glm4_5": "biased sigmoids, a dense layer, a shared expert, biases of attention",
    "ling2": "groups of experts",
    "gpt_oss": "biases of router and experts",
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_those_of_transformers(family_file: FamilyFile, name: str) -> None:
    """Tokens of a prompt, and the last ones in twos."""
    reference, first = load_reference(name), [i for i, position in enumerate(POSITIONS) if position < 64]
    with on(family_file(name), "all", ctx=1024) as engine:
        assert gpu_of(engine)._mixtures
        sequence, ends = engine.new_sequence(), (0, 54, *range(56, 65, 2))
        parts = [Segment(sequence, IDS[start:end], range(end - start)) for start, end in pairwise(ends)]
        found = np.concatenate([engine.forward([part]) for part in parts])
    assert divergence(reference.logits[first], found[[POSITIONS[i] for i in first]]) < 1e-5


TYPES: dict[str, dict[str, str]] = {
    "Q4_K_M": {"": "Q4_K", "ffn_down_exps": "Q6_K", "attn_v": "Q6_K", "token_embd": "Q6_K"},
    "MXFP4": {"": "Q8_0", "ffn_gate_exps": "MXFP4", "ffn_up_exps": "MXFP4", "ffn_down_exps": "MXFP4"},
    "Q5_0": {"": "Q8_0", "ffn_gate_exps": "Q5_0", "ffn_up_exps": "Q5_0", "ffn_down_exps": "Q5_0"},
}
"""Types of tensors."""


@pytest.mark.parametrize("types", TYPES)
def test_quantized_experts_are_as_near_to_the_truth_as_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, types: str
) -> None:
    sizes = {"width": 256, "head_dim": 64, "ffn": 256, "layers": 1, "types": TYPES[types]}
    path = write_model(tmp_path / "model.gguf", **(QWEN3 | sizes))
    _, truth, of_few = outcome(widened(path), 0)
    _, prompt, few = outcome(path, 0)
    _, found, one_by_one = outcome(path, "all")
    assert divergence(truth, found) <= 1.1 * divergence(truth, prompt)
    assert divergence(of_few, one_by_one) <= 1.1 * divergence(of_few, few)
    monkeypatch.setattr(open_device, "GPUContext", partial(open_device.GPUContext, masked=("packed dot",)))
    _, _, exact = outcome(path, "all")
    assert divergence(of_few, exact) < 1e-8, "x is not rounded"


def test_stacks_larger_than_a_binding(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model_file(**(QWEN3 | {"ffn": 640}))
    _, prompt, few = outcome(path, 0)
    monkeypatch.setattr(open_device, "GPUContext", partial(open_device.GPUContext, binding=3 * 4 * 640 * 64))
    with on(path, "all", ctx=64, kv_type="f16") as engine:
        mixture = gpu_of(engine)._mixtures[1]
        assert [part.matrices for part in mixture.down.slices] == [3, 3, 2]
        ids = ids_of(path)[:30]
        assert divergence(prompt[:30], logits(engine, ids)) < 1e-5
        assert divergence(few[:4], logits(engine, ids[:4], step=1)) < 1e-5


def test_experts_without_a_shader_stay_on_the_cpu(tmp_path: Path) -> None:
    """The rest of their layers goes to the GPU all the same, and a line says so."""
    path = write_model(tmp_path / "m.gguf", **(QWEN3 | {"types": {"": "F32", "ffn_down_exps": "Q5_1"}, "ffn": 64}))
    why = "there is no shader for weights of type Q5_1: the CPU computes the experts of 2 layers"
    with on(path, 0) as engine:
        prompt = logits(engine, ids_of(path))
    with pytest.warns(EdgeLLMWarning, match=why), on(path, "all", offload=OffloadRequest("all")) as engine:
        assert [device["blocks"] for device in engine.devices] == [2, 3]
        assert divergence(prompt, logits(engine, ids_of(path))) < 1e-9


def test_engines_with_experts_on_both_sides_go_on_after_trims(path: Path) -> None:
    """Forks and trims, on both in step."""
    ids = ids_of(path)
    with on(path, 0) as cpu, on(path, "all", offload=OffloadRequest("all", strict=True, n_cpu_moe=1)) as gpu:
        wanted, found = (_forked(engine, ids) for engine in (cpu, gpu))
    assert divergence(wanted, found) < 1e-9


def _forked(engine: NativeEngine, ids: list[int]) -> NDArray[np.float32]:
    sequence = engine.new_sequence()
    engine.forward([Segment(sequence, ids[:70])])
    other = sequence.fork()
    assert other.trim(40) == 40
    found = engine.forward([Segment(sequence, ids[70:72], [1]), Segment(other, ids[:3], [2])])
    return np.concatenate([found, engine.forward([Segment(each, [5], [0]) for each in (sequence, other)])])
