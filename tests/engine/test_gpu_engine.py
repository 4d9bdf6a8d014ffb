"""Layers on a GPU compute what the CPU does: for every split, and whatever happens to a sequence."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import Model
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload import OffloadRequest
from edgellm.engine.outputs import OutputSettings
from edgellm.engine.placement import CPU, GPU
from edgellm.engine.protocol import Segment, Stopped
from edgellm.engine.webgpu import device, matmul, open_device
from edgellm.engine.webgpu.fit import gpu_memory
from edgellm.engine.webgpu.shaders import FORMATS
from kquants.kv_layout import PAGE
from support.gpus import TINY, adapter, gpu_of, logits, opened, some_ids
from support.make_gguf import write_model
from support.model_file import ModelFile
from support.reference import divergence, reference_logits

MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "F16": {"types": "F16", "ffn": 100},
    "odd sizes": {"width": 72, "heads": 6, "head_dim": 20, "ffn": 100},
    "qwen2": {"arch": "qwen2"},
    "qwen3": {"arch": "qwen3", "head_dim": 40},
    "untied, biases": {"tied": False, "biases": True},
    "long heads": {"heads": 2, "kv_heads": 1, "head_dim": 128},
    "longest heads": {"heads": 2, "kv_heads": 1, "head_dim": 256},
    "short heads": {"heads": 7, "kv_heads": 1, "head_dim": 8},
    "12 heads for one": {"heads": 12, "kv_heads": 1, "head_dim": 12},
}
MASKS = [("subgroups",), ("packed dot",), ("packed dot", "f16"), ("subgroups", "f16", "packed dot")]
on = contextmanager(opened)

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("here")]


@pytest.mark.parametrize("name", MODELS)
def test_every_split_computes_the_same(model_file: ModelFile, name: str) -> None:
    path, ids = model_file(**(TINY | MODELS[name])), some_ids(2 * PAGE + 9)
    with on(path, 0) as engine:
        cpu = logits(engine, ids)
    # Where a hidden state crosses depends on no size: that is shown by one model.
    for layers in (1, 2, "all") if name == "llama" else ("all",):
        with on(path, layers) as engine:
            found = logits(engine, ids), logits(engine, ids[:5], step=1)
            assert [device["blocks"] for device in engine.devices] == {1: [3, 2], 2: [1, 4], "all": [0, 5]}[layers]
        assert divergence(cpu, found[0]) < 1e-9
        assert divergence(cpu[:5], found[1]) < 1e-9


@pytest.mark.parametrize("types", [name for name in FORMATS if name not in ("F32", "F16")])
def test_quantized_files_are_as_near_to_the_truth_as_on_the_cpu(
    model_file: ModelFile, monkeypatch: pytest.MonkeyPatch, types: str
) -> None:
    """With packed dot products, which round x; without them a token on its own is exact but for float32.

    Shaders without packed dot products are tested for each format in `test_gpu_shaders.py`.
    """
    path, ids = (
        model_file(**(TINY | {"types": types, "width": 256, "head_dim": 64, "ffn": 256, "layers": 1})),
        some_ids(40),
    )
    truth = reference_logits(path, ids)
    with on(path, 0) as engine:
        cpu = divergence(truth, logits(engine, ids))
    with on(path, "all") as engine:
        for step in (256, 1):
            assert divergence(truth, logits(engine, ids, step)) <= max(1.1 * cpu, 1e-9)
    if types in ("Q4_K", "Q8_0"):
        monkeypatch.setattr(open_device, "GPUContext", partial(open_device.GPUContext, masked=("packed dot",)))
        with on(path, "all") as engine:
            assert divergence(truth[:4], logits(engine, ids[:4], step=1)) < 1e-8


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_kv_types(model_file: ModelFile, kv_type: str) -> None:
    path, ids = model_file(**(TINY | {"head_dim": 40})), some_ids(150)
    truth = reference_logits(path, ids)
    with on(path, 0, kv_type=kv_type) as engine:
        cpu = divergence(truth, logits(engine, ids))
    with on(path, 2, kv_type=kv_type) as engine:
        found = divergence(truth, logits(engine, ids))
        one_by_one = divergence(truth[:70], logits(engine, ids[:70], step=1))
    assert cpu / 10 < found <= 1.1 * cpu, "pages are of another type"
    assert one_by_one <= 2 * cpu


def test_whatever_happened_to_a_sequence(model_file: ModelFile) -> None:
    """Chunks, trims, forks that write into a shared page, sequences side by side, and room that grows."""
    path, ids = model_file(**TINY), some_ids(3 * PAGE)
    with on(path, 0) as engine:
        wanted = logits(engine, ids)
        other = logits(engine, [*ids[: PAGE + 5], 7, 8])[-1]
    with on(path, 1) as engine:
        sequence = engine.new_sequence()
        engine.forward([Segment(sequence, ids[: PAGE + 20])])
        assert sequence.trim(PAGE + 5) == PAGE + 5
        child = sequence.fork()
        found = engine.forward([Segment(sequence, ids[PAGE + 5 : PAGE + 8], [2]), Segment(child, [7, 8], [1])])
        assert divergence(np.stack([wanted[PAGE + 7], other]), found) < 1e-9
        engine.forward([Segment(sequence, ids[PAGE + 8 : -1])])
        several = [engine.new_sequence() for _ in range(12)]  # more pages than there is room for at first
        together = engine.forward([Segment(each, ids[:90], [89]) for each in several[:2]])
        assert divergence(wanted[[89, 89]], together) < 1e-9
        for each in several[2:]:
            engine.forward([Segment(each, ids[:90])])
        for n in (3, 12):  # decoded at once: few rows, and many
            at_once = engine.forward([Segment(each, ids[len(each) : len(each) + 1], [0]) for each in several[:n]])
            assert divergence(wanted[[len(each) - 1 for each in several[:n]]], at_once) < 1e-9
        assert divergence(wanted[-1:], engine.forward([Segment(sequence, ids[-1:], [0])])) < 1e-9


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive), 2])
def test_any_history_computes_as_on_the_cpu(model_file: ModelFile, seed: int) -> None:
    """Sequences that grow alone and together, fork and shrink at random, on both in step."""
    random, path = np.random.default_rng(seed), model_file(**TINY)
    with on(path, 0) as cpu, on(path, 1 + seed) as gpu:
        live = [(cpu.new_sequence(), gpu.new_sequence())]
        for _ in range(60):
            i = int(random.integers(len(live)))
            match random.choice(["grow", "grow", "fork", "trim"]):
                case "grow":
                    chosen = [live[j % len(live)] for j in range(i, i + int(random.integers(1, len(live) + 1)))]
                    amounts = [int(n) for n in random.choice([1, 1, 3, PAGE - 1, PAGE + 1], len(chosen))]
                    parts = [
                        (pair, some_ids(n + 1, i)[1:])
                        for pair, n in zip(chosen, amounts, strict=True)
                        if len(pair[0]) + n <= 512
                    ]
                    if parts:
                        wanted, found = (
                            engine.forward([Segment(pair[k], ids, [len(ids) - 1]) for pair, ids in parts[:3]])
                            for k, engine in enumerate((cpu, gpu))
                        )
                        assert divergence(wanted, found) < 1e-8
                case "fork":
                    live = [*live, (live[i][0].fork(), live[i][1].fork())][-5:]
                case "trim":
                    n = int(random.integers(len(live[i][0]) + 1))
                    assert [sequence.trim(n) for sequence in live[i]] == [n, n]
            assert all(a.tokens == b.tokens for a, b in live)


def test_a_full_context_takes_the_planned_memory(model_file: ModelFile) -> None:
    with on(model_file(**(TINY | {"context_length": 1024})), 2, ctx=700) as engine:
        device, sequence = gpu_of(engine), engine.new_sequence()
        for ids in np.split(np.array(some_ids(700)), [256, 512]):
            engine.forward([Segment(sequence, ids.tolist())])
        planned = gpu_memory(engine._failover.model, (GPU,) * 4 + (CPU,), BatchLimits(engine.max_rows, 700, "f32"))
        (group,) = device._kv_pages.groups
        assert sum(each.buffer.size for of in group.buffers.values() for each in of) == planned["kv_cache"]


def test_a_kv_cache_larger_than_a_binding(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The KV pages of a layer are in several buffers, which attention reads one after the other."""
    path, ids = model_file(**(TINY | {"kv_heads": 4, "context_length": 1024})), some_ids(1024)
    binding = 6 * PAGE * 2 * 4 * 16 * 4  # float32 keys and values of 4 KV heads of 16
    monkeypatch.setattr(open_device, "GPUContext", partial(open_device.GPUContext, binding=binding))
    with on(path, 0, ctx=1024) as engine:
        wanted = logits(engine, ids)
    with on(path, 2, ctx=1024) as engine:
        sequence, device = engine.new_sequence(), gpu_of(engine)
        for start in range(0, 1000, 250):
            found = engine.forward([Segment(sequence, ids[start : start + 250], range(250))])
            assert divergence(wanted[start : start + 250], found) < 1e-9
        branch = sequence.fork()
        assert branch.trim(300) == 300
        for i in range(1000, 1004):
            assert divergence(wanted[i : i + 1], engine.forward([Segment(sequence, ids[i : i + 1], [0])])) < 1e-9
        assert divergence(wanted[300:303], engine.forward([Segment(branch, ids[300:303], range(3))])) < 1e-9
        assert [page // 6 for page in branch.tables[0].ids] == [0, 0, 0, 0, 2], (
            "its own page was copied to another buffer"
        )
        both = [Segment(each, ids[len(each) : len(each) + 1], [0]) for each in (sequence, branch)]
        assert divergence(wanted[[1004, 303]], engine.forward(both)) < 1e-9
        (group,) = device._kv_pages.groups
        assert [[each.pages for each in buffers] for buffers in group.buffers.values()] == 2 * [[6, 6, 6, 4]]


def test_an_interrupt_while_room_grows(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path, ids = model_file(**(TINY | {"context_length": 1024})), some_ids(8 * PAGE + 3)
    with on(path, 0, ctx=1024) as engine:
        wanted = logits(engine, ids)
    with on(path, 2, ctx=1024) as engine:
        sequence, gpu = engine.new_sequence(), gpu_of(engine).gpu
        for start in range(0, 8 * PAGE - 1, 255):
            engine.forward([Segment(sequence, ids[start : min(start + 255, 8 * PAGE - 1)])])
        engine.forward([Segment(sequence, ids[8 * PAGE - 1 : 8 * PAGE])])
        free, freed = gpu.free, []

        def interrupted(buffer: object) -> None:
            free(buffer)
            freed.append(buffer)
            if len(freed) == 1:
                raise KeyboardInterrupt

        monkeypatch.setattr(gpu, "free", interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.forward([Segment(sequence, ids[8 * PAGE : 8 * PAGE + 1])])
        assert sequence.trim(8 * PAGE - 1) == 8 * PAGE - 1
        for i in range(8 * PAGE - 1, 8 * PAGE + 3):
            assert divergence(wanted[i : i + 1], engine.forward([Segment(sequence, [ids[i]], [0])])) < 1e-9
        assert len(freed) == 2, "a layer's old room was freed once"


def test_a_long_sequence_is_shared_out_in_spans(model_file: ModelFile) -> None:
    path, ids = model_file(**TINY), some_ids(512)
    with on(path, 0) as engine:
        wanted = logits(engine, ids)
    with on(path, 2) as engine:
        sequence = engine.new_sequence()
        for start in (0, 250):
            engine.forward([Segment(sequence, ids[start : start + 250])])
        for i in range(500, 509):
            found = engine.forward([Segment(sequence, [ids[i]], [0])])
            assert divergence(wanted[i : i + 1], found) < 1e-9
        assert divergence(wanted[511:], engine.forward([Segment(sequence, ids[509:], [2])])) < 1e-9


@pytest.mark.parametrize("masked", MASKS, ids=", ".join)
def test_without_optional_features(
    model_file: ModelFile, monkeypatch: pytest.MonkeyPatch, masked: tuple[str, ...]
) -> None:
    monkeypatch.setattr(open_device, "GPUContext", partial(open_device.GPUContext, masked=masked))
    path, ids = model_file(**(TINY | {"types": "Q8_0"})), some_ids(20)
    truth = reference_logits(path, ids)
    with on(path, 0) as engine:
        cpu = divergence(truth, logits(engine, ids))
    with on(path, "all") as engine:
        exact = "packed dot" in masked  # then x is not rounded
        assert divergence(truth, logits(engine, ids)) <= 1.1 * cpu
        assert divergence(truth, logits(engine, ids, step=1)) <= (1e-9 if exact else 1.1 * cpu)
        assert not set(gpu_of(engine).gpu.features) & set(masked)


LARGE: dict[str, tuple[dict[str, Any], int, list[int]]] = {
    "feed-forward": ({"heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 2000, "vocab": 1000}, 150, [1, 1, 4, 2]),
    "with biases": ({"heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 2000, "biases": True}, 150, [1, 1, 4, 1]),
    "two formats": ({"head_dim": 32, "ffn": 2000, "types": {"": "F32", "ffn_up": "F16"}}, 150, [1, 1, 4, 1]),
    "attention": ({"heads": 16, "kv_heads": 1, "head_dim": 32, "biases": True}, 100, [2, 2, 1, 1]),
}
"""Sizes, the binding in KiB, and the slices of q, of attention's output, of the gate, and of the head."""


@pytest.mark.parametrize("name", LARGE)
def test_tensors_larger_than_a_binding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    sizes, binding, slices = LARGE[name]
    path, ids = write_model(tmp_path / "model.gguf", **(TINY | sizes | {"layers": 1, "tied": False})), some_ids(16)
    with on(path, 0, ctx=16, kv_type="f16") as engine:
        cpu = logits(engine, ids)
    monkeypatch.setattr(open_device, "GPUContext", partial(open_device.GPUContext, binding=binding << 10))
    with on(path, "all", ctx=16, kv_type="f16") as engine:
        device = gpu_of(engine)
        attention, ffn, head = device._attentions[0], device._feed_forwards[1], device._output
        assert head
        matrices = attention.qkv[0], attention.output[0], ffn.gate_up[0], head.output[0]
        assert [len(matrix.slices) for matrix in matrices] == slices
        assert divergence(cpu, logits(engine, ids)) < 1e-9
        assert divergence(cpu[:5], logits(engine, ids[:5], step=1)) < 1e-9


def test_feed_forwards_may_stay_on_the_cpu(model_file: ModelFile) -> None:
    path, ids = model_file(**TINY), some_ids(70)
    with on(path, 0) as engine:
        cpu = logits(engine, ids)
    with on(path, 2, offload=OffloadRequest(2, strict=True, cpu_ffn=True)) as engine:
        assert [device["blocks"] for device in engine.devices] == [3, 2]
        assert divergence(cpu, logits(engine, ids)) < 1e-9


def test_hidden_states_of_layers_on_a_gpu(model_file: ModelFile) -> None:
    """Behind the last norm, so that the head stays on the CPU, and behind a layer in the middle of a run."""
    path, asked, ids = model_file(**TINY), OutputSettings(hidden=True, taps=frozenset({0})), some_ids(9)
    with on(path, 0, outputs=asked) as engine:
        wanted = engine.compute([Segment(engine.new_sequence(), ids, [2, 8])])
    with on(path, "all", outputs=asked) as engine:
        found = engine.compute([Segment(engine.new_sequence(), ids, [2, 8])])
        assert [device["blocks"] for device in engine.devices] == [1, 4]
    for one, other in ((wanted.logits, found.logits), (wanted.hidden, found.hidden), (wanted.taps[0], found.taps[0])):
        assert one is not None
        assert other is not None
        assert np.allclose(one, other, atol=1e-4)


def test_a_token_is_one_submission_of_few_dispatches(model_file: ModelFile) -> None:
    """For all layers on the GPU: five dispatches each, six in a long context, and nothing comes back but a result."""
    path = model_file(**(TINY | {"layers": 3, "vocab": 320}))
    for layers, head, width in ((3, 0, 64), ("all", 1, 320)):
        with on(path, layers) as engine:
            sequence, counts = engine.new_sequence(), gpu_of(engine).stats
            for length, each in ((10, 5), (300, 6)):
                for start in range(len(sequence), length, 256):
                    engine.forward([Segment(sequence, some_ids(length)[start : start + 256])])
                before = replace(counts)
                engine.forward([Segment(sequence, [5], [0])])
                assert counts.submissions - before.submissions == 1
                assert counts.dispatches - before.dispatches == 3 * each + head
                assert counts.received - before.received == 4 * width
                assert counts.sent - before.sent < 4 * 64 + 300


def test_several_tiles_of_rows_in_a_workgroup(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """As large matrices have them."""
    monkeypatch.setattr(matmul, "_BUSY_WORKGROUPS", 5)
    path, ids = model_file(**(TINY | {"ffn": 100})), some_ids(6)
    with on(path, 0) as engine:
        wanted = logits(engine, ids)
    with on(path, "all") as engine:
        assert divergence(wanted, logits(engine, ids, step=1)) < 1e-9


@pytest.mark.parametrize(("seconds", "together"), [(0.001, [1, 2, 4, 8, 1]), (0.02, [1, *[2] * 7, 1]), (0.2, [1] * 16)])
def test_blocks_of_a_prompt_are_submitted_together_while_that_is_quick(
    model_file: ModelFile, monkeypatch: pytest.MonkeyPatch, seconds: float, together: list[int]
) -> None:
    """Submissions are short, so that a stop is seen soon; here each block takes this many seconds."""
    with on(model_file(**(TINY | {"layers": 8})), 8) as engine:
        gpu, blocks, clock, found = gpu_of(engine), [0], [0.0], list[int]()
        steps, wait = gpu._steps, gpu.gpu.wait

        def counted(*block: Any) -> Any:
            blocks[0] += 1
            return steps(*block)

        def timed() -> None:
            wait()
            clock[0] += seconds * blocks[0]
            found.append(blocks[0])
            blocks[0] = 0

        monkeypatch.setattr(gpu, "_steps", counted)
        monkeypatch.setattr(gpu.gpu, "wait", timed)
        monkeypatch.setattr(device, "perf_counter", lambda: clock[0])
        engine.forward([Segment(engine.new_sequence(), some_ids(20))])
        assert found == together


def test_a_stop_ends_a_prompt_between_layers(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    with on(model_file(**TINY), 2) as engine:
        gpu, done = gpu_of(engine).gpu, []
        wait = gpu.wait

        def stop_after_one() -> None:
            wait()
            done.append(1)
            engine.stop()

        monkeypatch.setattr(gpu, "wait", stop_after_one)
        sequence = engine.new_sequence()
        with pytest.raises(Stopped):
            engine.forward([Segment(sequence, some_ids(40), [39])])
        assert (len(done), len(sequence)) == (1, 0)
        monkeypatch.undo()
        engine.clear_stop()
        assert engine.forward([Segment(sequence, some_ids(40), [39])]).shape == (1, 320)


def test_stories_write_the_same_text(shared: Path) -> None:
    path = shared / "models" / "stories260K" / "stories260K-f32.gguf"
    adapter()
    texts = set()
    for layers in (0, 2, "all"):
        with Model.open(path, gpu_layers=layers, gpu_strict=True, gpu="0", threads=2) as model:
            texts.add(model.generate("Once upon a time", max_tokens=30, temp=0).text)
    assert len(texts) == 1
