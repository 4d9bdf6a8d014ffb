"""`edgellm plan`: memory counted by hand, and a speed predicted from saved or measured speeds of this machine."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edgellm import EdgeLLMError, OptionError, UnsupportedModelError
from edgellm.arch import describe
from edgellm.cli.info import command as info
from edgellm.cli.plan import command
from edgellm.engine.placement import on_cpu
from edgellm.engine.recurrent_states import MAX_STATE_CHECKPOINTS
from edgellm.fmt import size
from edgellm.gguf import GGUFFile
from edgellm.options import LoadOptions
from edgellm.perf import bandwidth
from edgellm.perf import plan as plans
from edgellm.perf.bandwidth import Measurement
from edgellm.perf.machine_profile import MEMORY, load_profile, save_profile
from edgellm.perf.plan import make_plan
from edgellm.perf.roofline import Roofline, decode_tps
from support.model_file import ModelFile

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
NO_SUCH_GPU = "lists no GPU none of these|no GPU was found|wgpu is not installed|wgpu does not work here"
"""Notes about a GPU depend on the machine."""

CELL = 2 * 1 * (32 + 32) * 2
"""Bytes of a token's keys and values: 2 layers, 1 KV head, f16."""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path / "home"))


@pytest.fixture
def path(model_file: ModelFile) -> Path:
    return model_file(**SIZES)


SPEEDS = {MEMORY: 1e10, "F32": 2e10}
"""Speeds of a machine that multiplies twice as fast as it reads."""


def no_measuring(*_: object) -> dict[str, float]:
    raise EdgeLLMError("too little memory; close other programs")


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def edgellm(*arguments: object) -> tuple[int, str]:
    command = [sys.executable, "-m", "edgellm", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_memory_by_part(path: Path) -> None:
    with GGUFFile.open(path) as file:
        plan = make_plan(file, LoadOptions(ctx=100, threads=2))
        weights = sum(tensor.nbytes for tensor in file.tensors.values())
    assert plan.weights == weights
    assert plan.kv_cache == 128 * CELL  # two pages of 64 tokens
    assert plan.devices == [{"name": "CPU", "blocks": 2 * 2 + 1, "bytes": weights, "active": weights}]
    assert plan.total == weights + plan.kv_cache + plan.activations + plan.scratch
    # For each of 100 rows at least x, q, k, v, what attention makes, gate and up, in float32.
    assert plan.activations >= 100 * 4 * (64 + 64 + 32 + 32 + 64 + 96 + 96)
    assert plan.scratch >= 4 * 320  # the logits of one token


HYBRID: dict[str, Any] = {"arch": "qwen35", "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 96}
STATE = 2 * 4 * (3 * (2 * 16 + 2 * 16) + 2 * 16 * 32)
"""Bytes of a state of two layers: rows of the convolution, and 16 rows of two heads, padded to 32 values."""


def test_the_states_of_recurrent_layers_have_one_size(model_file: ModelFile) -> None:
    """Keys and values are those of the two layers with attention; checkpoints and KV pages share `kv_memory`."""
    save_profile(2, SPEEDS)
    path, cell = model_file(**HYBRID, types="F32", layers=4), 2 * 2 * (16 + 16) * 2
    with GGUFFile.open(path) as file:
        short, long = (make_plan(file, LoadOptions(ctx=ctx, threads=2)) for ctx in (64, 512))
        rounded = LoadOptions(ctx=512, threads=2, gpu_layers=0, kv_memory=(14 * STATE + 128 * cell) / 1e9)
        tight = make_plan(file, rounded)
    assert (short.kv_cache, long.kv_cache) == (64 * cell, 512 * cell)
    assert (short.state_bytes, short.checkpoints, short.drafts) == (STATE, MAX_STATE_CHECKPOINTS, 7)
    assert short.states == long.states == (MAX_STATE_CHECKPOINTS + 2 + 7) * STATE
    assert short.fits and not tight.fits
    assert tight.checkpoints == (14 * STATE + 128 * cell) // 4 // STATE
    room = 14 * STATE + 128 * cell - (tight.checkpoints + 2 + 7) * STATE
    assert tight.kv_tokens == room // cell // 64 * 64 < 512
    given = path, "--threads", 2, "--gpu-layers", 0
    found = json.loads(run(*given, "--ctx", 64, "--json").stdout)
    assert (found["memory"]["states"], found["state_bytes"]) == (short.states, STATE)
    assert (found["checkpoints"], found["drafts"], found["needed"]) == (512, 7, short.needed(64))
    line = next(line for line in run(*given, "--ctx", 64).stdout.splitlines() if line.startswith("states "))
    optional = f"{size(STATE)} a state; two, and up to 512 checkpoints and 7 for drafts as memory allows"
    assert line.split(maxsplit=3)[3] == f"of recurrent layers: {optional}"
    narrow = run(*given, "--ctx", 512, "--kv-memory", rounded.kv_memory).stdout
    assert f"with the states, enough for {tight.kv_tokens} tokens" in narrow
    few = run(*given, "--ctx", 512, "--kv-memory", (2 * STATE + 192 * cell) / 1e9).stdout
    assert "with the states, enough for 192 tokens" in few, "without any checkpoint"
    full = run(*given, "--ctx", 512, "--kv-memory", 2 * STATE / 1e9).stdout
    assert "with the states, too little for these\n" in full


def test_checkpoints_and_drafts_are_optional(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    save_profile(2, SPEEDS)
    path, cell = model_file(**HYBRID, types="F32", layers=4), 2 * 2 * (16 + 16) * 2
    with GGUFFile.open(path) as file:
        plan = make_plan(file, LoadOptions(threads=2, gpu_layers=0))
    assert plan.needed(plan.ctx) == plan.total - (MAX_STATE_CHECKPOINTS + 7) * STATE
    assert plan.needed(plan.ctx) - plan.needed(plan.ctx // 2) == plan.ctx // 2 * cell
    given = path, "--threads", 2, "--gpu-layers", 0
    needed = f"; {size(plan.needed(plan.ctx))} are needed, the rest is for checkpoints and drafts"
    for free, words in (
        (plan.total, needed),
        (plan.total - 1, f"{needed}; choose a smaller --kv-memory for fewer of them"),
        (plan.needed(plan.ctx) - 1, ": too little for a full context; choose a smaller --ctx"),
    ):
        monkeypatch.setattr(plans, "available_memory", lambda free=free: free)
        line = next(line for line in run(*given).stdout.splitlines() if line.startswith("total "))
        assert line.endswith(f"that are free{words}")


def test_a_plan_with_a_gpu_has_no_states_for_drafts(model_file: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a GPU depend on their batch, so that nothing is drafted."""
    gpu = plans.GPUPlan("G", 0, 0, 0, None)
    path = model_file(**HYBRID, types="F32", layers=4)
    with GGUFFile.open(path) as file:
        monkeypatch.setattr(plans, "_offload", lambda model, *_: (on_cpu(len(model.layers)), gpu, []))
        plan = make_plan(file, LoadOptions(threads=2))
    assert (plan.drafts, plan.states) == (0, (MAX_STATE_CHECKPOINTS + 2) * STATE)


def test_options_change_the_plan(path: Path) -> None:
    with GGUFFile.open(path) as file:
        small, large, f32, threads = (
            make_plan(file, LoadOptions.from_kwargs(**options))
            for options in (
                {"ctx": 64, "threads": 1},
                {"threads": 1},
                {"ctx": 64, "threads": 1, "kv_type": "f32"},
                {"ctx": 64, "threads": 3},
            )
        )
    assert (small.kv_cache, large.kv_cache, f32.kv_cache) == (64 * CELL, 512 * CELL, 64 * 2 * CELL)
    assert small.ctx == 64
    assert large.ctx == 512
    assert small.activations < large.activations
    assert threads.scratch > small.scratch


def test_kept_speeds_predict_the_decode_speed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "measure", no_measuring)
    save_profile(2, {MEMORY: 3e10, "F32": 4e10, "Q4_K": 5e10})
    found = json.loads(run(path, "--json", "--threads", 2, "--ctx", 256, "--gpu-layers", 0).stdout)
    with GGUFFile.open(path) as file:
        roofline = Roofline.of(describe(file), "f16")
    assert (found["ctx"], found["threads"], found["kv_type"], found["fits"]) == (256, 2, "f16", True)
    assert (found["bandwidth"], found["arithmetic"]) == (3e10, pytest.approx(4e10))
    assert found["decode"] == {
        "tps": pytest.approx(decode_tps(roofline, 2, load_profile(2), 2)),
        "tps_full": pytest.approx(decode_tps(roofline, 2, load_profile(2), 2, 255)),
    }
    parts = ["weights", "kv_cache", "states", "activations", "scratch"]
    assert list(found["memory"]) == [*parts, "total", "available"]
    assert found["memory"]["total"] == sum(found["memory"][part] for part in parts)
    assert (found["memory"]["states"], found["state_bytes"], found["checkpoints"]) == (0, 0, 0)


def test_active_and_total_weights(model_file: ModelFile) -> None:
    save_profile(2, SPEEDS)
    path = model_file(**SIZES, arch="qwen3moe", experts=8, used=2)
    with GGUFFile.open(path) as file:
        total = sum(tensor.nbytes for tensor in file.tensors.values())
    active = total - 2 * (8 - 2) * 4 * 3 * 64 * 96  # layers, experts, float32, matrices
    found = json.loads(run(path, "--json", "--threads", 2, "--ctx", 64, "--gpu-layers", 0).stdout)
    assert (found["total_weights"], found["active_weights"]) == (total, active)
    text = run(path, "--threads", 2, "--ctx", 64, "--gpu-layers", 0).stdout
    expected = f"{size(active)} of {size(total)} are read for a token, which uses 2 of 8 experts of a layer"
    assert re.search(rf"^active weights +{re.escape(expected)}$", text, re.MULTILINE)
    with GGUFFile.open(path) as file:
        roofline = Roofline.of(describe(file), "f16")
    assert found["decode"]["tps"] == pytest.approx(decode_tps(roofline, 2, SPEEDS, 2))


def test_a_model_without_experts_has_no_active_weights(path: Path) -> None:
    save_profile(2, SPEEDS)
    assert "active" not in run(path, "--threads", 2, "--ctx", 64, "--gpu-layers", 0).stdout


def test_unknown_speeds_are_measured_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(threads: int, wanted: list[str], progress: object) -> Measurement:
        asked.append((threads, wanted))
        return Measurement({name: SPEEDS[name] for name in wanted}, undisturbed=True)

    monkeypatch.setattr(bandwidth, "measure", measure)
    save_profile(2, {MEMORY: 1e10})
    found = [json.loads(run(path, "--json", "--threads", threads).stdout) for threads in (3, 3, 2)]
    assert asked == [(3, [MEMORY, "F32"]), (2, ["F32"])]
    assert load_profile(2) == load_profile(3) == SPEEDS
    assert found[0]["decode"] == found[1]["decode"] == found[2]["decode"]
    assert (found[0]["bandwidth"], found[0]["arithmetic"]) == (1e10, pytest.approx(2e10))


def test_memory_is_shown_before_anything_is_measured(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(threads: int, wanted: list[str], progress: Callable[[int, int], None]) -> Measurement:
        progress(0, 2)
        progress(2, 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(bandwidth, "measure", interrupted)
    result = CliRunner().invoke(command, [str(path)])
    assert result.stdout.splitlines()[-1].startswith("total ")
    assert result.stderr.startswith("compiling 2 kernels for this CPU\n")
    assert not load_profile(1)


def test_speeds_that_cannot_be_kept_are_a_note(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(bandwidth, "measure", lambda threads, wanted, progress: Measurement(SPEEDS, undisturbed=True))
    result = run(path, "--threads", 1)
    assert "10 GB/s with 1 thread" in result.stdout
    assert re.fullmatch(
        r"edgellm: note: .*cannot be saved in .*, so every plan measures them again; .*EDGELLM_HOME\n", result.stderr
    )


def test_disturbed_speeds_are_shown_but_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "measure", lambda threads, wanted, progress: Measurement(SPEEDS, undisturbed=False))
    result = run(path, "--threads", 1)
    assert "10 GB/s with 1 thread" in result.stdout
    assert re.fullmatch(
        r"edgellm: note: another program took the CPU .*; run `edgellm plan` again when .*\n", result.stderr
    )
    assert not load_profile(1)


def test_without_speeds_memory_is_shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "measure", no_measuring)
    result = run(path, "--json")
    found = json.loads(result.stdout)
    assert (found["bandwidth"], found["arithmetic"], found["decode"], found["fits"]) == (None, None, None, True)
    assert result.stderr == "edgellm: note: the speed cannot be predicted: too little memory; close other programs\n"
    assert "tokens/s" not in run(path).stdout


def test_the_text(path: Path) -> None:
    save_profile(1, SPEEDS)
    lines = run(path, "--threads", 1, "--ctx", 64).stdout.splitlines()
    assert [line.split()[0] for line in lines[:6]] == ["memory", "weights", "KV", "activations", "scratch", "total"]
    assert "16.4 kB" in lines[2]  # 64 · CELL
    assert "2 layers and the output head, all on the CPU" in lines[1]
    assert lines[6] == ""
    assert "tokens/s at first" in lines[7]
    assert "after 64 tokens" in lines[7]
    assert lines[8] == "memory bandwidth  10 GB/s with 1 thread"
    assert lines[9] == "compute limit     20 GB/s  matmul speed while the weights are in the CPU cache"


def test_a_file_larger_than_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_profile(1, SPEEDS)
    monkeypatch.setattr(plans, "available_memory", lambda: 1000)
    shown = run(path, "--threads", 1)
    assert shown.exit_code == 0
    assert "at the speed of the disk; choose a smaller quantization" in shown.stdout
    assert "tokens/s" not in shown.stdout
    found = json.loads(run(path, "--threads", 1, "--json").stdout)
    assert (found["fits"], found["decode"], found["memory"]["available"]) == (False, None, 1000)


def test_a_context_larger_than_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_profile(1, SPEEDS)
    with GGUFFile.open(path) as file:
        plan = make_plan(file, LoadOptions(threads=1))
    monkeypatch.setattr(plans, "available_memory", lambda: plan.total - 1)
    shown = run(path, "--threads", 1).stdout
    assert "too little for a full context; choose a smaller --ctx" in shown
    assert "tokens/s" in shown
    monkeypatch.setattr(plans, "available_memory", lambda: plan.total)
    assert "too little" not in run(path, "--threads", 1).stdout


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--gpu-layers", "all", "--gpu", "none of these", "--gpu-strict"), 1, NO_SUCH_GPU),
        (("--ctx", 513), 2, "ctx cannot be 513"),
        (("--ctx", -1), 2, "ctx"),
        (("--threads", 0), 2, "threads"),
        (("--kv-type", "f8"), 2, "--kv-type cannot be"),
        (("--gpu-layers", "some"), 2, "--gpu-layers cannot be"),
    ],
)
def test_errors_of_plan_are_one_line(path: Path, options: tuple[object, ...], code: int, words: str) -> None:
    status, said = edgellm("plan", path, *options)
    assert status == code
    assert said.startswith("edgellm: ")
    assert re.search(words, said)
    assert said.count("\n") == 1


def test_a_vocabulary_has_no_plan(shared: Path) -> None:
    vocabulary = min((shared / "vocab").glob("*.gguf"), key=lambda file: file.stat().st_size)
    with pytest.raises(EdgeLLMError, match=r"vocabulary|not supported"):
        run(vocabulary)


def test_an_architecture_that_is_not_computed_has_no_plan(tmp_path: Path, path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(path.read_bytes().replace(b"llama", b"lhama", 2))
    with pytest.raises(UnsupportedModelError, match="lhama is not supported"):
        run(other)


def test_a_ctx_above_the_models_is_a_wrong_option(path: Path) -> None:
    with GGUFFile.open(path) as file, pytest.raises(OptionError, match="made for up to 512 tokens"):
        make_plan(file, LoadOptions(ctx=513))


def decode_of(path: Path) -> dict[str, Any] | None:
    found: dict[str, Any] = json.loads(CliRunner().invoke(info, [str(path), "--json"]).stdout)
    decode: dict[str, Any] | None = found["decode"]
    return decode


def test_info_predicts_where_speeds_are_known(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgellm.info.default_threads", lambda _: 3)
    assert decode_of(path) == {"tps": None, "threads": 3}
    assert "`edgellm plan` measures" in CliRunner().invoke(info, [str(path)]).stdout
    save_profile(3, SPEEDS)
    planned = json.loads(run(path, "--threads", 3, "--json").stdout)["decode"]["tps"]
    assert decode_of(path) == {"tps": planned, "threads": 3}
    assert f"about {planned:,.0f} tokens/s expected with 3 threads" in CliRunner().invoke(info, [str(path)]).stdout
    for place in ("edgellm.info", "edgellm.cli.info"):
        monkeypatch.setattr(f"{place}.available_memory", lambda: path.stat().st_size - 1)
    assert decode_of(path) == {"tps": None, "threads": 3}
    assert "at the speed of the disk" in CliRunner().invoke(info, [str(path)]).stdout
