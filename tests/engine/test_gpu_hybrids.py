"""Models with recurrent layers on a GPU: their recurrent mixers, and all states, stay on the CPU."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.engine import offload_cost
from edgellm.engine.limits import BatchLimits
from edgellm.engine.native_engine import NativeEngine
from edgellm.engine.offload import OffloadRequest, empty_blocks, recurrent_blocks
from edgellm.engine.placement import CPU, GPU, runs
from edgellm.engine.protocol import Segment
from edgellm.engine.webgpu import offload_plan
from edgellm.engine.webgpu.fit import gpu_memory
from edgellm.engine.webgpu.obstacles import obstacle
from edgellm.engine.webgpu.offload_plan import plan_offload
from edgellm.errors import EdgeLLMError, EdgeLLMWarning
from edgellm.gguf import GGUFFile
from edgellm.system.folders import cache_folder
from support.archs import HYBRIDS, ArchFixture
from support.gpus import adapter, gpu_of, opened, some_ids
from support.model_file import ModelFile
from support.reference import divergence

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("here")]
on = contextmanager(opened)

SMALL: dict[str, Any] = {"arch": "qwen35", "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 96}
"""Four layers, of which the first and the third have a gated DeltaNet, and the others attention with a gate in q."""

LIMITS = BatchLimits(rows=64, ctx=512, kv_type="f16")
EVERY = OffloadRequest("all")

PLACEMENTS = {
    "qwen3_5": "010101111",
    "qwen3_5_moe": "010101111",
    "qwen3_next": "010101111",
    "lfm2": "01011101111",
    "lfm2_moe": "01011101111",
    "granitehybrid": "010111011",
    "nemotron_h": "00010011111",
    "nemotron_h_moe": "00010011111",
    "falcon_h1": "0101011",
    "mamba2": "0000001",
}
"""Where `--gpu-layers all` puts the blocks of each fixture: recurrent mixers, and what is empty behind them, on 0."""


def test_all_fixtures_are_here() -> None:
    assert PLACEMENTS.keys() == HYBRIDS.keys()


@pytest.fixture
def path(model_file: ModelFile) -> Path:
    return model_file(**SMALL, layers=4, types="Q8_0")


@pytest.fixture
def model(path: Path) -> Iterator[Description]:
    with GGUFFile.open(path) as file:
        yield describe(file)


@contextmanager
def quietly(path: Path, request: OffloadRequest, **options: Any) -> Iterator[NativeEngine]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeLLMWarning)
        with on(path, request.layers, offload=request, **options) as engine:
            yield engine


def some_logits(engine: NativeEngine, ids: list[int]) -> NDArray[np.float32]:
    """The logits of a prompt in chunks, of single tokens, and of a fork beside its parent."""
    sequence, parts = engine.new_sequence(), []
    for start, end in ((0, 20), (20, 23), (23, 24), (24, 30)):
        parts.append(engine.forward([Segment(sequence, ids[start:end], range(end - start))]))
    fork = sequence.fork()
    parts.append(engine.forward([Segment(fork, ids[30:32], range(2)), Segment(sequence, ids[40:41], [0])]))
    return np.concatenate(parts)


@pytest.mark.parametrize("name", PLACEMENTS)
def test_each_family_computes_the_same(shared: Path, name: str) -> None:
    fixture = ArchFixture.of(shared, name)
    with on(fixture.gguf, 0) as engine:
        wanted = some_logits(engine, fixture.ids)
    part = OffloadRequest("all", cpu_moe=True) if name.endswith("moe") else OffloadRequest(2)
    for request in (EVERY, part):
        with quietly(fixture.gguf, request) as engine:
            placement = engine._runner.placement
            if request == EVERY:
                assert "".join(map(str, placement)) == PLACEMENTS[name]
            assert all(placement[block] == CPU for block in recurrent_blocks(engine._failover.model))
            assert divergence(wanted, some_logits(engine, fixture.ids)) < 1e-9


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_kinds_of_kv_pages(path: Path, kv_type: str) -> None:
    """As near to the truth as on the CPU: quantized weights, whose rows of q and its gate are apart on the GPU."""
    ids = some_ids(48)
    with on(path, 0, kv_type="f32") as engine:
        truth = some_logits(engine, ids)
    with on(path, 0, kv_type=kv_type) as engine:
        cpu = divergence(truth, some_logits(engine, ids))
    with quietly(path, EVERY, kv_type=kv_type) as engine:
        assert len(gpu_of(engine)._attentions) == 2
        assert divergence(truth, some_logits(engine, ids)) < 1.1 * cpu


def test_what_stays_on_the_cpu_is_told(path: Path, model: Description) -> None:
    adapter()
    why = "there is no shader for recurrent mixers of type gated DeltaNet"
    assert [obstacle(model, block, "f16") is None for block in range(9)] == [block not in (0, 4) for block in range(9)]
    assert obstacle(model, 0, "f16") == "recurrent mixers of type gated DeltaNet"
    with pytest.warns(EdgeLLMWarning, match=f"{why}: the CPU computes the mixers of 2 layers$"):
        NativeEngine(GGUFFile.open(path), **options(EVERY)).close()
    with pytest.warns(EdgeLLMWarning, match=f"{why}: the CPU computes the mixers of 1 layer$"):
        NativeEngine(GGUFFile.open(path), **options(OffloadRequest(3))).close()
    with pytest.raises(EdgeLLMError, match=f"{why}.* without --gpu-strict the CPU would compute"):
        NativeEngine(GGUFFile.open(path), **options(OffloadRequest("all", strict=True)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NativeEngine(GGUFFile.open(path), **options(OffloadRequest(1, strict=True))).close()


def options(request: OffloadRequest) -> dict[str, Any]:
    return {"threads": 1, "ctx": 256, "kv_type": "f16", "cache": cache_folder(), "offload": request}


def test_states_take_no_memory_of_the_gpu(path: Path, model: Description) -> None:
    """Neither states nor KV pages of layers without attention: f16 pages of 2 KV heads of 16 values."""
    with quietly(path, EVERY, ctx=512, kv_type="f16") as engine:
        placement = engine._runner.placement
        assert [len(group.page_bytes) for group in gpu_of(engine)._kv_pages.groups] == [2]
        assert engine._runner.cpu._program.page_bytes == [0]
        assert engine._runner.cpu._program.state_bytes == model.state_bytes > 0
        gpu, cpu = (device["bytes"] for device in reversed(engine.devices))
        mixers = [model.layers[i].recurrent for i in (0, 2)]
        assert cpu >= sum(each.qkv.weight.nbytes + each.output.weight.nbytes for each in mixers if each)  # type: ignore[union-attr]
    memory = gpu_memory(model, placement, LIMITS)
    assert memory["weights"] == gpu
    assert memory["kv_cache"] == 2 * (512 * 2 * 2 * 16 * 2)


def planned(model: Description, **changes: Any) -> offload_plan.OffloadPlan:
    """What auto does with a GPU of 1 GB."""
    found = plan_offload(model, LIMITS, OffloadRequest("auto", gpu=adapter().name, memory=10**9, **changes))
    assert found
    return found


def test_auto_weighs_each_way_to_the_gpu_and_back(model: Description, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs are behind recurrent mixers: feed-forward, attention, feed-forward, and as much with the output head.

    Each goes there where a crossing takes less time than it saves.
    """
    saved = [
        sum(offload_cost.active_bytes(model, block) for block in run)
        * (1 / offload_cost.CPU_BANDWIDTH - 1 / offload_cost.GPU_BANDWIDTH)
        for run in (range(1, 4), range(5, 9))
    ]
    assert saved[0] < saved[1]
    for crossing, expected in (
        (saved[0] * 0.9, "011101111"),
        (saved[0] * 1.1, "000001111"),
        (saved[1] * 1.1, "000000000"),
    ):
        monkeypatch.setattr(offload_cost, "CROSSING_S", crossing)
        found = planned(model)
        assert "".join(map(str, found.placement)) == expected
        lost = expected.count("0") - 2
        assert (f"{lost} blocks that it could compute would lose time there" in found.choice) == (lost > 0)
    assert found.notes[0].startswith(f"no block goes on {adapter().name}: 7 blocks that it could compute would lose")
    for asked in (OffloadRequest("all"), OffloadRequest(4), OffloadRequest(5)):
        whole = plan_offload(model, LIMITS, asked)
        assert whole
        assert [device for device, _ in runs(whole.placement)].count(GPU) == 2, "as asked, whatever it costs"


def test_what_is_left_of_auto_weighs_them_too(model: Description, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the memory was full, and fewer layers are tried."""
    monkeypatch.setattr(offload_cost, "CROSSING_S", 1.0)
    found = plan_offload(model, LIMITS, OffloadRequest(3, was_auto=True))
    assert found
    assert GPU not in found.placement


def test_empty_blocks_are_where_the_block_before_is(shared: Path) -> None:
    """Nemotron-H has one part in a layer: Mamba-2, attention or a feed-forward."""
    with GGUFFile.open(ArchFixture.of(shared, "nemotron_h").gguf) as file:
        model = describe(file)
    assert len(empty_blocks(model)) == len(model.layers)
    found = plan_offload(model, LIMITS, EVERY)
    assert found
    crossings = [run for device, run in runs(found.placement) if device == GPU]
    assert all(any(block not in empty_blocks(model) for block in run) for run in crossings)


def test_a_lost_gpu_has_the_states_computed_again(path: Path) -> None:
    """The reply goes on as if all had been on the CPU; a fork has its state, too."""
    from wgpu.backends.wgpu_native import lib

    ids = some_ids(48)
    with on(path, 0, kv_type="f16") as engine:
        wanted = some_logits(engine, ids)
    with quietly(path, EVERY, kv_type="f16") as engine:
        sequence = engine.new_sequence()
        engine.forward([Segment(sequence, ids[:30])])
        fork = sequence.fork()
        lib.wgpuDeviceDestroy(gpu_of(engine).gpu._device._internal)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EdgeLLMWarning)
            found = engine.forward([Segment(fork, ids[30:32], range(2)), Segment(sequence, ids[40:41], [0])])
        assert len(engine.devices) == 1
        assert np.array_equal(found, wanted[-3:])
