"""What is timed, and the figures made of it, computed by hand, with a clock that counts rows."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import EdgeLLMError, Model
from edgellm.arch import describe
from edgellm.arch.description import tensors_in
from edgellm.bench import baseline, cold_start, machine_limits, workload
from edgellm.bench.machine_limits import MachineLimits
from edgellm.bench.options import BenchOptions
from edgellm.bench.report import bench_report, decode_peak
from edgellm.bench.results import BenchResult, DecodeSlice, Round, SideTimes
from edgellm.bench.setup import int8_products
from edgellm.bench.workload import Workload, warm_up
from edgellm.engine import protocol
from edgellm.engine.protocol import Segment
from edgellm.gguf import GGUFFile
from edgellm.llamacpp.wire import LlamaCppParams
from edgellm.perf import cpu_share
from edgellm.perf.roofline import Roofline
from support.model_file import FamilyFile, ModelFile

TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}


class Fake(protocol.Sequence):
    """A sequence that may lose all tokens when it is trimmed."""

    forgetful = False

    def fork(self) -> "Fake":
        raise NotImplementedError

    def trim(self, n: int) -> int:
        if n < len(self.tokens):
            del self.tokens[0 if self.forgetful else n :]
        return len(self.tokens)


class Counting:
    """An engine whose clock advances by a second for each row; `calls` are (length before, tokens, wanted)."""

    vocab, max_rows = 50, 4

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.calls: list[list[tuple[int, list[int], list[int]]]] = []
        patch.setattr(workload, "perf_counter", lambda: self.now)

    def new_sequence(self) -> Fake:
        return Fake()

    def forward(self, segments: Sequence[Segment[Any]]) -> None:
        assert len({id(s.sequence) for s in segments}) == len(segments)
        self.calls.append([(len(s.sequence), list(s.tokens), list(s.wanted)) for s in segments])
        for s in segments:
            s.sequence.tokens.extend(s.tokens)
            self.now += len(s.tokens)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Counting:
    return Counting(monkeypatch)


def test_the_depth_is_computed_once_and_off_the_clock(engine: Counting) -> None:
    side = Workload(engine, depth=6, parallel=2)
    assert side.prefill(9) == 9
    assert [(at, len(tokens)) for ((at, tokens, _),) in engine.calls] == [(0, 4), (4, 2), (6, 4), (10, 4), (14, 1)]
    engine.calls.clear()
    assert side.decode(3) == 6  # rows: three steps of two sequences
    # Of the second sequence 6 tokens, a step that warms up, then those that are timed.
    assert [[at for at, _, _ in call] for call in engine.calls] == [[0], [4], [6, 6], [6, 6], [7, 7], [8, 8]]
    assert all(len(tokens) == 1 and wanted == [0] for call in engine.calls[2:] for _, tokens, wanted in call)
    engine.calls.clear()
    assert side.decode(1, before=3) == 2
    assert [[at for at, _, _ in call] for call in engine.calls] == [[9, 9], [9, 9]]
    assert side.decode(1) == 2
    assert len(engine.calls) == 4


def test_a_state_that_cannot_go_back_is_computed_again_off_the_clock(
    engine: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fake, "forgetful", True)
    side = Workload(engine, depth=4, parallel=1)
    assert [side.prefill(3), side.decode(2), side.prefill(3)] == [3, 2, 3]


def test_recurrent_layers_go_back_to_their_state_at_the_depth(model_file: ModelFile) -> None:
    """The depth of 70 tokens is computed once for each sequence, whatever is timed behind it."""
    hybrid = {"arch": "qwen35", "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 96, "layers": 2}
    with Model.open(model_file(**hybrid, types="F32"), threads=1, ctx=128) as model:
        rows = list[int]()

        class Counted:
            vocab, max_rows, new_sequence = model.engine.vocab, 128, model.engine.new_sequence

            def forward(self, segments: Sequence[Segment[Any]]) -> None:
                rows.append(sum(len(segment.tokens) for segment in segments))
                model.engine.forward(segments)

        side = Workload(Counted(), depth=70, parallel=2)
        side.decode(3)
        assert rows == [70, 70, 2, 2, 2, 2]
        side.prefill(5)
        side.decode(2, before=1)
        assert rows[6:] == [5, 1, 1, 2, 2, 2], "one token before the timed steps in each sequence"


def test_both_sides_get_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = [Counting(monkeypatch) for _ in range(2)]
    for engine in engines:
        side = Workload(engine, depth=3, parallel=2)
        warm_up(side, BenchOptions(prompt_tokens=5, tokens=2))
        side.prefill(5)
        side.decode(4)
    assert engines[0].calls == engines[1].calls
    tokens = [token for call in engines[0].calls for _, some, _ in call for token in some]
    assert all(0 <= token < Counting.vocab for token in tokens)
    assert len(set(tokens)) > 10


def result(**options: Any) -> BenchResult:
    """Three rounds of 100 tokens and 10 steps of 2 sequences, with and against llama.cpp."""
    chosen = BenchOptions(**{"prompt_tokens": 100, "tokens": 10, "parallel": 2, "against": "llama.cpp", **options})
    first = {"edgellm": SideTimes(1.0, 2.0, 0.5), "llama.cpp": SideTimes(4.0, 2.0, 1.0)}
    second = {"edgellm": SideTimes(2.0, 4.0), "llama.cpp": SideTimes(5.0, 5.0)}
    third = {"edgellm": SideTimes(2.0, 5.0), "llama.cpp": SideTimes(2.0, 10.0)}
    slices = [
        [
            DecodeSlice(4, 0, 1730.0, {"edgellm": 1.0, "llama.cpp": 1.0}),
            DecodeSlice(6, 4, 930.0, {"edgellm": 1.0, "llama.cpp": 1.0}),
        ],
        [DecodeSlice(10, 0, 1000.0, {"edgellm": 4.0, "llama.cpp": 5.0})],
        [DecodeSlice(10, 0, 455.0, {"edgellm": 5.0, "llama.cpp": 10.0})],
    ]
    rounds = [
        Round(1000.0, 9000.0, True, first, slices[0]),
        Round(2000.0, 5000.0, False, second, slices[1]),
        Round(500.0, 100.0, True, third, slices[2]),
    ]
    return BenchResult(
        chosen, 2, Roofline(weight_bytes=80, kv_bytes={None: 1}, matrix_bytes={}), 50, "0.3", False, rounds
    )


def test_products_of_a_token_without_logits(model_file: ModelFile) -> None:
    shape = {"width": 256, "heads": 4, "kv_heads": 2, "head_dim": 64, "ffn": 512, "layers": 2, "types": "Q4_K"}
    with Model.open(model_file(**shape), threads=1) as model:
        layer = 256 * (256 + 128 + 128) + 256 * 256 + 3 * 256 * 512
        assert int8_products(describe(model.file)) == layer + 256 * (256 + 128 + 128)


def test_products_of_the_experts_that_a_token_uses(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.bench.setup.QUANTIZED_FORMATS", ("F32",))
    shape = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "layers": 2, "types": "F32"}
    with GGUFFile.open(model_file(**shape, arch="qwen3moe", experts=8, used=3)) as file:
        attention = 64 * (64 + 32 + 32)
        assert int8_products(describe(file)) == 2 * attention + 64 * 64 + 8 * 64 + 3 * 3 * 64 * 96


def test_the_peak_of_several_sequences_counts_the_experts_that_they_choose() -> None:
    one = result(tokens=1)
    dense = decode_peak(one, 1e3, 1)
    one.roofline = Roofline(weight_bytes=80, kv_bytes={None: 1}, matrix_bytes={}, expert_bytes={(4, 1): 160})
    # Two tokens choose 4 · (1 - (3/4)²) = 1.75 of 4 experts, 0.75 more than one token.
    assert dense == pytest.approx(2 * 1e3 / (80 + 2))
    assert decode_peak(one, 1e3, 1) == pytest.approx(2 * 1e3 / (80 + 0.75 * 40 + 2))


def test_the_peak_counts_states_of_each_sequence_read_and_written() -> None:
    one = result(tokens=1)
    one.roofline = Roofline(weight_bytes=80, kv_bytes={None: 1}, matrix_bytes={}, state_bytes=30)
    assert decode_peak(one, 1e3, 1) == pytest.approx(2 * 1e3 / (80 + 2 + 2 * 2 * 30))


def test_layers_that_share_keys_compute_no_prompt_tokens(
    family_file: FamilyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.bench.setup.QUANTIZED_FORMATS", ("F32",))
    with GGUFFile.open(family_file("gemma4_e2b")) as file:
        model = describe(file)
        last = model.last_state_layer
        assert model.per_layer_embeddings and last < len(model.layers) - 1
        attention = model.layers[last].attention
        assert attention
        parts = [model.layers[:last], attention.q, attention.k, attention.v, model.per_layer_embeddings.projection]
        assert int8_products(model) == sum(tensor.size for tensor in tensors_in(parts) if len(tensor.shape) == 2)
        del model, attention, parts


def test_figures_by_hand() -> None:
    found = bench_report("m.gguf", [result()])
    assert found["rounds"]["prefill"] == [100, 50, 50]
    assert found["rounds"]["decode"] == [10, 5, 4]
    assert (found["bandwidth"], found["int8_peak"]) == (1000, 5000)
    # 5000 products a second for 50 a token: 100 tokens a second at most.
    half = {"tps": 50, "min": 50, "max": 100, "peak_tps": 100, "int8_share": 0.5, "int8_per_s": 2500}
    assert found["prefill"] == half
    # A step reads 80 bytes and 2 · 5.5 cells of 1: 1000 / 91 steps a second, each of two tokens.
    assert found["decode"] == pytest.approx(
        {"tps": 5, "min": 4, "max": 10, "peak_tps": 2000 / 91, "mbu": (0.2275 + 0.4) / 2}
    )
    # The turns: 4 steps a second of 1730 / (80 + 2 · 2.5) = 20.35, 6 of 930 / (80 + 2 · 7.5) = 9.8, 2.5 of 1000 / 91,
    # 2 of 5; llama.cpp's 4, 6, 2, 1 of these.
    assert found["against"]["decode"]["mbu"] == pytest.approx((4 * 85 / 1730 + 0.2) / 2)
    assert found["against"]["prefill"]["tps"] == 25
    assert found["against"]["rounds"]["decode"] == [10, 4, 2]
    assert found["ratio"]["prefill"] == {"median": 2.0, "min": 1.0, "max": 4.0}
    assert found["ratio"]["decode"] == {"median": 5 / 4, "min": 1.0, "max": 2.0}
    assert found["ratio"]["cold_start_s"] == {"median": 2.0, "min": 2.0, "max": 2.0}  # half the time: twice as fast
    assert found["cold_start_s"] == 0.5


def test_a_phase_that_was_skipped_has_no_figures() -> None:
    one = result(prompt_tokens=0, against=None)
    found = bench_report("m.gguf", [one])
    assert "prefill" not in found
    assert set(found["rounds"]) == {"decode", "cold_start_s", "bandwidth", "int8_peak", "undisturbed"}
    assert (found["against"], "ratio" in found) == (None, False)
    assert "decode" not in bench_report("m.gguf", [result(tokens=0)])


def test_no_int8_share_of_a_model_that_is_not_quantized() -> None:
    one = result()
    one.int8_products = 0
    half = bench_report("m.gguf", [one])["prefill"]
    assert (half["int8_share"], half["int8_per_s"], half["peak_tps"]) == (None, None, None)


def test_the_last_run_is_on_top_and_those_without_a_round_are_left_out() -> None:
    one, two, none = result(), result(), result()
    one.threads, none.rounds = 1, []
    found = bench_report("m.gguf", [one, two, none])
    assert [run["threads"] for run in found["runs"]] == [1, 2]
    assert {name: found[name] for name in found["runs"][1]} == found["runs"][1]
    assert bench_report("m.gguf", [none]) == {}
    assert bench_report("m.gguf", []) == {}


def test_a_round_is_disturbed_while_it_multiplies_or_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread gets half of the CPU during one of the two; its share at other times does not count."""
    now = {"wall": 0.0, "used": 0.0}
    kept: list[object] = []

    def after_a_second(share: float, found: Any) -> Any:
        now.update(wall=now["wall"] + 1, used=now["used"] + share)
        return found

    monkeypatch.setattr(cpu_share, "perf_counter", lambda: now["wall"])
    monkeypatch.setattr(cpu_share, "process_time", lambda: now["used"])
    monkeypatch.setattr(machine_limits, "save_profile", lambda threads, speeds: kept.append(speeds))
    monkeypatch.setattr(machine_limits, "int8_peak", lambda threads: after_a_second(0.0, 7.0))
    rounds = MachineLimits(
        1,
        lambda: after_a_second(now["reads"], 3.0),
        lambda: after_a_second(now["products"], {"Q4_K": 5.0}),
    )

    def undisturbed(products: float, reads: float) -> bool:
        now.update(products=products, reads=reads)
        assert rounds.begin_round() == 7
        after_a_second(0.0, None)
        assert rounds.read_memory() == [3.0] * 5
        return rounds.end_round()

    assert not undisturbed(products=0.0, reads=1.0)
    assert not undisturbed(products=1.0, reads=0.5)
    assert all([undisturbed(products=1.0, reads=1.0), undisturbed(products=1.0, reads=0.9)])
    assert kept == []
    assert undisturbed(products=1.0, reads=1.0)
    assert kept == [{"Q4_K": 5.0, "memory": 3.0}]


@pytest.mark.parametrize("tokens", [2, 32, 100])
def test_the_prompt_of_a_cold_start_has_the_given_number_of_tokens(model_file: ModelFile, tokens: int) -> None:
    with Model.open(model_file(**TINY), threads=1) as model:
        text = cold_start.prompt_of(model.tokenizer, tokens)
        ids = model.tokenizer.encode(text, add_special=True)
        shorter = model.tokenizer.encode(text.removesuffix(" a"), add_special=True)
    assert len(ids) >= tokens
    assert tokens == 2 or len(shorter) < tokens


def test_a_cold_start_that_fails_says_why(tmp_path: Path) -> None:
    path = tmp_path / "none.gguf"
    with pytest.raises(EdgeLLMError, match=r"none.gguf: edgellm generate ended with exit code 1 .*no such file"):
        cold_start.time_cold_start(path, BenchOptions(), 1, "a")


llama_cpp = pytest.mark.skipif(not baseline.find_spec("llama_cpp"), reason="needs llama-cpp-python, the baseline")


@pytest.fixture
def direct(model_file: ModelFile) -> Iterator[Any]:
    from edgellm.bench.worker import DirectEngine

    path = str(model_file(**TINY))
    yield DirectEngine(LlamaCppParams(path, 512, 0, 2, 16, 2, unified=False))  # 0: a KV cache of F32


@llama_cpp
def test_the_baseline_computes_the_same_logits(model_file: ModelFile, direct: Any) -> None:
    """The rows of two sequences at once, prompt and decoded: llama.cpp's logits are those of our engine."""
    texts = [[1, *range(10, 19)], [1, *range(30, 39)]]
    pair = [direct.new_sequence(), direct.new_sequence()]
    for sequence, text in zip(pair, texts, strict=True):
        direct.forward([Segment(sequence, [*text, 7, 7], [])])
        assert sequence.trim(len(text)) == len(text)
    raw = direct.forward([Segment(sequence, [5], [0]) for sequence in pair])
    with Model.open(model_file(**TINY), threads=1, kv_type="f32") as model:
        expected = [model.logits([*text, 5])[-1] for text in texts]
    assert np.abs(np.frombuffer(raw, np.float32).reshape(2, -1) - expected).max() < 1e-4


@llama_cpp
def test_the_baseline_ends_with_a_line(model_file: ModelFile, tmp_path: Path) -> None:
    options = BenchOptions(prompt_tokens=8, tokens=4, depth=3, parallel=2)
    with baseline.Baseline(model_file(**TINY), options, 1, repacked=False) as other:
        assert other.prefill(8) > 0
        assert other.decode(2) > 0
        assert other.decode(2, before=2) > 0
        with pytest.raises(EdgeLLMError, match="no room"):
            other.prefill(300)
        other._process.kill()
        with pytest.raises(baseline.BaselineExitedError, match=r"llama.cpp was ended by .*; leave --against out"):
            other.prefill(8)
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    with pytest.raises(EdgeLLMError, match="cannot load it"):
        baseline.Baseline(tmp_path / "bad.gguf", options, 1, repacked=False)


class Brittle:
    """A baseline that crashes with repacked weights."""

    opened: list["Brittle"]

    def __init__(self, path: Path, options: BenchOptions, threads: int, repacked: bool) -> None:
        self.repacked, self.closed = repacked, False
        self.opened.append(self)

    def prefill(self, n: int) -> float:
        if self.repacked:
            raise baseline.BaselineExitedError("crash")
        return 1.0

    decode = prefill

    def close(self) -> None:
        self.closed = True


def test_a_baseline_that_crashes_repacked_runs_without(monkeypatch: pytest.MonkeyPatch) -> None:
    Brittle.opened = []
    monkeypatch.setattr(baseline, "Baseline", Brittle)
    found = baseline.open_baseline(Path("m.gguf"), BenchOptions(), 1)
    assert [(each.repacked, each.closed) for each in Brittle.opened] == [(True, True), (False, False)]
    assert found is Brittle.opened[1]  # type: ignore[comparison-overlap]


def test_a_missing_baseline_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    monkeypatch.setattr(baseline, "find_spec", lambda name: None)
    with pytest.raises(EdgeLLMError, match="-m pip install 'llama-cpp-python>="):
        baseline.check_baseline()
