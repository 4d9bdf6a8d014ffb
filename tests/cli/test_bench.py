"""`edgellm bench`: the contract of its JSON, rounds that take turns, interrupts, and errors of one line."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import cycle
from statistics import harmonic_mean
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner, Result

from edgellm import OptionError, cli
from edgellm.arch import describe
from edgellm.bench import baseline, machine_limits, rounds, setup
from edgellm.bench.cold_start import time_cold_start
from edgellm.cli.bench import command
from edgellm.engine.native_engine import NativeEngine
from edgellm.gguf import GGUFFile
from edgellm.perf.machine_profile import MEMORY
from edgellm.perf.roofline import Roofline
from support.model_file import ModelFile

TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
SHORT = ["-p", "20", "-n", "6", "--rounds", "2", "--threads", "1"]
Bench = Callable[..., Result]


@pytest.fixture
def saved() -> list[tuple[int, dict[str, float]]]:
    """The saved speeds of the machine."""
    return []


@pytest.fixture
def undisturbed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A list to fill: for each next round, whether it is undisturbed; by default it is."""
    told = list[bool]()

    class Share:
        def __init__(self, threads: int) -> None:
            self.recording, self.undisturbed = nullcontext, told.pop(0) if told else True

    monkeypatch.setattr(machine_limits, "CPUShare", Share)
    return told


@pytest.fixture
def bench(
    model_file: ModelFile,
    monkeypatch: pytest.MonkeyPatch,
    saved: list[tuple[int, dict[str, float]]],
    undisturbed: list[bool],
) -> Bench:
    """Run `edgellm bench` on a tiny model, on a machine that reads 3e9, 1e9, 4e9 bytes per second around its slices.

    Cold starts take no time, as no process begins.
    """
    measured = cycle([2e9] * 5 + [6e9] * 5 + [1e9] * 10 + [3e9] * 5 + [6e9] * 5)
    monkeypatch.setattr(setup, "memory_benchmark", lambda threads, progress: nullcontext(lambda: next(measured)))
    monkeypatch.setattr(machine_limits, "int8_peak", lambda threads: 7e9)
    monkeypatch.setattr(rounds, "time_cold_start", lambda path, options, threads, prompt: 0.25)
    products = cycle([8e9, 1e9, 2e9])
    monkeypatch.setattr(
        setup,
        "matmul_benchmark",
        lambda threads, formats, progress: nullcontext(lambda: {name: next(products) for name in formats}),
    )
    monkeypatch.setattr(machine_limits, "save_profile", lambda *what: saved.append(what))
    path = str(model_file(**TINY))
    return lambda *args: CliRunner().invoke(command, [path, *map(str, args)], catch_exceptions=False)


def test_json(bench: Bench, saved: list[tuple[int, dict[str, float]]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "time_cold_start", time_cold_start)
    done = bench(*SHORT, "--rounds", 3, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found["decode"]) == {"tps", "min", "max", "peak_tps", "mbu"}
    assert 0 < found["prefill"]["min"] <= found["prefill"]["tps"] <= found["prefill"]["max"]
    assert {name: len(values) for name, values in found["rounds"].items()} == dict.fromkeys(
        ("prefill", "decode", "cold_start_s", "bandwidth", "int8_peak", "undisturbed"), 3
    )
    facts: dict[str, Any] = {"threads": 1, "parallel": 1, "depth": 0, "kv_type": "f16"}
    facts |= {"bandwidth": 3e9, "int8_peak": 7e9, "kv_bytes_per_token": 2 * (32 + 32) * 2}
    assert {name: found[name] for name in facts} == facts
    assert (found["against"], len(found["runs"])) == (None, 1)
    assert saved == [(1, {"F32": 2e9, MEMORY: 2.5e9})]  # the medians of all rounds, and of all reads


def test_bandwidth_is_kept_after_three_rounds_only(bench: Bench, saved: list[tuple[int, dict[str, float]]]) -> None:
    bench(*SHORT, "--rounds", 2)
    assert saved == []
    bench(*SHORT, "--rounds", 3)
    assert len(saved) == 1


def test_disturbed_rounds_are_reported_and_not_kept(
    bench: Bench, saved: list[tuple[int, dict[str, float]]], undisturbed: list[bool]
) -> None:
    said = "another program took the CPU in {} of 4 rounds; measure again without it"
    undisturbed += [False, True, True, False]
    assert said.format(2) in bench(*SHORT, "--rounds", 4).stdout.splitlines()
    assert saved == []
    undisturbed += [False, True, True, True]
    assert said.format(1) in bench(*SHORT, "--rounds", 4).stdout.splitlines()
    assert saved == [(1, {"F32": 2e9, MEMORY: 2.5e9})]  # of the last three
    found = json.loads(bench(*SHORT, "--json").stdout)
    assert found["rounds"]["undisturbed"] == [True, True]
    assert "another program" not in bench(*SHORT).stdout


def test_the_memory_is_held_from_the_first_round_to_the_last(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    @contextmanager
    def memory_benchmark(threads: int, progress: object) -> Iterator[Callable[[], float]]:
        order.append("taken")
        yield lambda: [1e9, order.append("read")][0]
        order.append("given back")

    monkeypatch.setattr(setup, "memory_benchmark", memory_benchmark)
    bench(*SHORT, "--rounds", 2)
    assert order == ["taken", *["read"] * 20, "given back"]


@pytest.mark.parametrize(("left_out", "name"), [("-p", "prefill"), ("-n", "decode")])
def test_prefill_or_decode_of_no_tokens_is_left_out(bench: Bench, left_out: str, name: str) -> None:
    done = bench(*SHORT, left_out, 0, "--json")
    assert name not in json.loads(done.stdout)
    assert name not in bench(*SHORT, left_out, 0).stdout


def test_a_run_for_each_number_of_threads(bench: Bench) -> None:
    found = json.loads(bench(*SHORT, "--threads", "2,1", "--rounds", 1, "--json").stdout)
    assert [run["threads"] for run in found["runs"]] == [2, 1]
    assert found["decode"] == found["runs"][1]["decode"]


@pytest.mark.skipif(not baseline.find_spec("llama_cpp"), reason="needs llama-cpp-python, the baseline")
def test_against_the_baseline(bench: Bench) -> None:
    done = bench(*SHORT, "--against", "llama.cpp", "--parallel", 3, "-d", 30, "--json")
    found = json.loads(done.stdout)
    other = found["against"]
    assert (other["engine"], len(other["rounds"]["decode"]), len(other["rounds"]["cold_start_s"])) == (
        "llama.cpp",
        2,
        2,
    )
    assert found["ratio"]["decode"]["median"] == pytest.approx(found["decode"]["tps"] / other["decode"]["tps"])
    assert set(found["ratio"]) == {"prefill", "decode", "cold_start_s"}


class Recorder:
    """A side that takes a second for each token, and records its calls."""

    version, repacked = "0", True

    def __init__(self, name: str, order: list[str]) -> None:
        self.name, self.order = name, order

    def prefill(self, n: int) -> float:
        self.order.append(f"{self.name} reads {n}")
        return float(n)

    def decode(self, n: int, before: int = 0) -> float:
        self.order.append(f"{self.name} writes {n} after {before}")
        return float(n)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *error: object) -> None:
        pass


def test_both_programs_take_turns_between_measurements_of_the_machine(
    model_file: ModelFile, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def noted(what: str, found: Any) -> Callable[..., Any]:
        return lambda *args, **options: [found, order.append(what)][0]

    def start_cold(self: rounds.Bench, name: str, begin: rounds.OnStatus) -> float:
        order.append(f"{name} starts")
        return 1.0

    monkeypatch.setattr(setup, "Workload", lambda *args: Recorder("edgellm", order))
    monkeypatch.setattr(setup, "open_baseline", lambda *args: Recorder("llama.cpp", order))
    monkeypatch.setattr(setup, "warm_up", lambda *args: None)
    monkeypatch.setattr(machine_limits, "int8_peak", noted("int8", 1.0))
    monkeypatch.setattr(setup, "memory_benchmark", lambda threads, progress: nullcontext(noted("memory", 1.0)))
    monkeypatch.setattr(machine_limits, "_READS", 1)
    monkeypatch.setattr(rounds, "SLICE_BYTES", 0)
    monkeypatch.setattr(rounds.Bench, "_cold_start", start_cold)
    monkeypatch.setattr(rounds, "_REST_S", 0)
    monkeypatch.setattr(baseline, "check_baseline", lambda: None)
    options = ("-p", 20, "-n", 40, "--rounds", 4, "--json")
    found = json.loads(bench(*options, "--against", "llama.cpp").stdout)

    def both(first: str, second: str, *done: str) -> list[str]:
        return [f"{name} {what}" for what in done for name in (first, second)]

    expected = []
    for i in range(4):
        names = ("llama.cpp", "edgellm") if i % 2 else ("edgellm", "llama.cpp")
        expected += ["int8", *both(*names, "reads 20"), "memory"]
        for done in ("writes 13 after 0", "writes 13 after 13", "writes 14 after 26"):
            expected += [*both(*names, done), "memory"]
        expected += both(*names, "starts") if i < 3 else []
    assert order == expected
    assert found["rounds"]["decode"] == found["against"]["rounds"]["prefill"] == [1.0] * 4
    order.clear()
    bench(*options)
    turns = [f"edgellm writes {done}" for done in ("13 after 0", "13 after 13", "14 after 26")]
    assert [each for each in order if "writes" in each] == turns * 4
    order.clear()
    monkeypatch.setattr(rounds, "SLICE_BYTES", 1 << 30)  # far more than all steps of this model read
    bench(*options)
    assert [each for each in order if "writes" in each] == ["edgellm writes 40 after 0"] * 4


def test_decoding_at_the_memory_bandwidth_has_an_mbu_of_1(
    bench: Bench, model_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = [4e9, 1e9, 2e9, 5e9, 3e9], [8e9, 1e9, 1e9, 2e9, 6e9]
    reads = cycle(before + after)
    with GGUFFile.open(model_file(**TINY)) as file:
        step_bytes = Roofline.of(describe(file), "f16").bytes_per_token(4.5)  # tokens before those of the steps: 0 to 9

    class Reader(Recorder):
        def decode(self, n: int, before_them: int = 0) -> float:
            assert n == len(before + after)
            return sum(step_bytes / speed for speed in before + after)

    monkeypatch.setattr(setup, "Workload", lambda *args: Reader("edgellm", []))
    monkeypatch.setattr(setup, "warm_up", lambda *args: None)
    monkeypatch.setattr(setup, "memory_benchmark", lambda threads, progress: nullcontext(lambda: next(reads)))
    found = json.loads(bench("-p", 0, "-n", 10, "--rounds", 1, "--json").stdout)
    assert found["decode"]["mbu"] == pytest.approx(1)
    assert found["bandwidth"] == pytest.approx(harmonic_mean(before + after))


def test_without_decoding_the_bandwidth_is_that_of_five_reads(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = cycle([4e9, 1e9, 2e9, 5e9, 3e9])
    monkeypatch.setattr(setup, "memory_benchmark", lambda threads, progress: nullcontext(lambda: next(reads)))
    found = json.loads(bench(*SHORT, "-n", 0, "--json").stdout)
    assert found["bandwidth"] == pytest.approx(5 / (1 / 4e9 + 1 / 1e9 + 1 / 2e9 + 1 / 5e9 + 1 / 3e9))


def test_the_work_of_devices_is_summed_over_all_steps(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    forward, calls, seen = NativeEngine.forward, list[object](), list[tuple[int, int]]()

    def counted(self: NativeEngine, segments: Any) -> Any:
        calls.append(segments)
        return forward(self, segments)

    class DeviceCounters:
        on_gpu = True

        def __init__(self, engine: object) -> None: ...

        def begin(self) -> None:
            calls.clear()

        def end(self, tokens: int, passes: int) -> list[dict[str, Any]]:
            seen.append((passes, len(calls)))
            return []

    monkeypatch.setattr(NativeEngine, "forward", counted)
    monkeypatch.setattr(rounds, "DeviceCounters", DeviceCounters)
    monkeypatch.setattr(rounds, "_BUSY_S", 0)
    bench(*SHORT, "--rounds", 1, "--json")
    assert seen == [(1, 1), (7, 7)]


@pytest.mark.parametrize("complete", [0, 1])
def test_ctrl_c_shows_only_complete_rounds(bench: Bench, monkeypatch: pytest.MonkeyPatch, complete: int) -> None:
    given = iter([1e9] * 2 * complete)

    def read() -> float:
        for speed in given:
            return speed
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "memory_benchmark", lambda threads, progress: nullcontext(read))
    monkeypatch.setattr(machine_limits, "_READS", 1)
    done = bench(*SHORT, "--json")
    assert done.exit_code == 130
    assert (len(json.loads(done.stdout)["rounds"]["decode"]) if done.stdout else 0) == complete


def test_ctrl_c_while_it_warms_up_is_a_note(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def warming_up(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "open_bench", warming_up)
    done = bench(*SHORT)
    assert (done.exit_code, done.stdout, done.stderr) == (
        130,
        "",
        "edgellm: note: interrupted before the first round\n",
    )


@pytest.mark.parametrize(("p", "n", "options"), [(13, 2, "-p"), (12, 13, "-n"), (13, 13, "-p and -n")])
def test_more_tokens_than_the_context_are_an_error_of_one_line(
    p: int,
    n: int,
    options: str,
    model_file: ModelFile,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = str(model_file(**TINY))
    monkeypatch.setattr(sys, "argv", ["edgellm", "bench", path, "-d", "500", "-p", str(p), "-n", str(n)])
    assert cli.run() == 2
    told = f"{options} cannot be more than 12: that is what the model's context of 512 tokens has left behind 500 (-d)"
    assert capsys.readouterr().err == f"edgellm: {told}\n"


@pytest.mark.parametrize(
    ("options", "amounts"),
    [
        ("-d 500", (12, 12)),
        ("-d 500 -n 2", (12, 2)),
        ("-d 100 -p 7", (7, 64)),
        ("-d 511 -p 0", (0, 1)),
        ("", (512, 64)),
    ],
)
def test_default_amounts_are_reduced_to_the_context(bench: Bench, options: str, amounts: tuple[int, int]) -> None:
    found = json.loads(bench(*options.split(), "--threads", 1, "--rounds", 1, "--json").stdout)
    assert (found["prompt_tokens"], found["tokens"]) == amounts


def test_more_than_an_empty_context(bench: Bench) -> None:
    with pytest.raises(OptionError, match="-p cannot be more than 512: that is the context of the model"):
        bench("-p", 513)


def test_no_amount_fits_after_a_full_context(bench: Bench) -> None:
    with pytest.raises(
        OptionError, match="option depth cannot be 512: give at most 511, as the model's context has 512 tokens"
    ):
        bench("-d", 512)
