"""`edgellm bench --serve` and `--clients`: the contract of its JSON, reports of 80 columns, interrupts, and errors."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from edgellm import cli
from edgellm.bench.serving import serving_bench, setup
from edgellm.bench.serving.energy import Energy
from edgellm.bench.serving.generator import LoadGenerator
from edgellm.bench.serving.outcome import ReplyCounts
from edgellm.bench.serving.serving_bench import Load, ServingBench
from edgellm.bench.serving.target import Cancellation, LoadRequest
from edgellm.cli.bench import command
from edgellm.cli.bench_serving_report import serving_report
from edgellm.cli.plot import ASCII, Plot, draw, log_axis, style_for

SHORT = ["-p", "20", "-n", "4", "--threads", "1", "--seed", "1"]
PATIENT = ["--slo-ttft", "1000", "--slo-itl", "1000"]
Bench = Callable[..., Result]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    """Run `edgellm bench builtin`, on a machine whose energy cannot be measured."""
    monkeypatch.setattr(setup, "Energy", lambda watts, is_local: Energy(watts, is_local, tmp_path))
    return lambda *args: CliRunner().invoke(command, ["builtin", *map(str, args)], catch_exceptions=False)


def test_json_of_clients(bench: Bench) -> None:
    done = bench(*SHORT, "--clients", 3, "--requests", 7, "--shared-prefix", 8, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    facts: dict[str, Any] = {
        "targets": ["edgellm"],
        "prompt_tokens": "20",
        "tokens": "4",
        "shared_prefix": 8,
        "seed": 1,
    }
    facts |= {"slo_ttft": 2, "slo_itl": 0.2, "energy": None, "left_out": 0, "server": None}
    assert {name: found[name] for name in facts} == facts
    assert found["energy_note"].endswith("has no counter of a CPU package")
    (run,) = found["runs"]
    counts: dict[str, Any] = {"clients": 3, "rate": None, "complete": True, "requests": 7, "completed": 7, "short": 0}
    counts |= {"refused": 0, "failed": 0, "unfinished": 0, "errors": {}, "joules": None, "price_per_million": None}
    counts |= {"prompt_tokens": 140, "generated_tokens": 28, "pieces": 28}
    assert {name: run[name] for name in counts} == counts
    for name in ("ttft_ms", "itl_ms", "tpot_ms", "latency_ms"):
        assert 0 < run[name]["p50"] <= run[name]["p95"] <= run[name]["p99"]
    assert run["generated_tps"] == pytest.approx(28 / run["seconds"])
    assert "bend" not in found


def test_rates_with_a_plot(bench: Bench) -> None:
    options = (
        *SHORT,
        *PATIENT,
        "--serve",
        "40,20",
        "--requests",
        5,
        "--watts",
        40,
        "--price-hour",
        0.5,
        "--price-kwh",
        0.3,
    )
    lines = bench(*options).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "builtin.gguf · prompt 20 · reply 4"
    assert [line.split()[:2] for line in lines[4:6]] == [["20", "5/5"], ["40", "5/5"]]
    assert any("●" in line for line in lines)
    assert sum(line.startswith(("energy", "cost")) for line in lines) == 2
    assert "goodput does not bend up to 40 requests/s (90% of requests are good)" in lines
    found = json.loads(bench(*options, "--json").stdout)
    assert found["bend"] == {"edgellm": {"holds": 40, "fails": None}}
    for run in found["runs"]:
        assert run["goodput"] == run["rate"]  # all are good
        assert run["joules"] == pytest.approx(40 * run["seconds"])
        cost = 0.5 * run["seconds"] / 3600 + 0.3 * run["joules"] / 3.6e6
        assert run["price_per_million"] == pytest.approx(cost / run["generated_tokens"] * 1e6)


def test_the_search_measures_until_goodput_bends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: ServingBench, load: Load, name: str, *rest: Any) -> dict[str, Any]:
        figures = {"target": name, "rate": load.rate, "complete": True, "attainment": float((load.rate or 0) < 30)}
        self.runs.append(figures)
        return figures

    monkeypatch.setattr(ServingBench, "_run", run)
    monkeypatch.setattr(serving_bench, "warm_up", lambda target, requests, at_once: 1.0)
    found = json.loads(bench(*SHORT, "--serve", "auto", "--requests", 2, "--json").stdout)
    assert found["runs"][0]["rate"] == 2  # half of the four requests of the warm-up in a second
    low, high = (found["bend"]["edgellm"][name] for name in ("holds", "fails"))
    assert low < high < 1.2 * low


def test_a_trace_is_replayed(bench: Bench, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,tokens\n0,10,3\n0.01,99999,3\n0.02,12,2\n9,1,1\n", "utf-8")
    arguments = (*PATIENT, "--trace", trace, "--duration", 8, "--threads", 1)
    found = json.loads(bench("--serve", "trace", *arguments, "--json").stdout)
    (run,) = found["runs"]
    assert (run["rate"], run["prompt_tokens"], run["generated_tokens"], found["left_out"]) == (None, 22, 5, 1)
    assert run["goodput"] == 2 / 8
    lines = bench("--serve", "trace", *arguments).stdout.splitlines()
    assert lines[0] == "builtin.gguf · trace trace.csv"
    assert lines[1] == "1 request of the trace left out: empty, or longer than the context"
    assert lines[3].startswith("times of the trace: 2 of 2 requests in ")


def test_two_targets_take_turns(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    order = list[tuple[str, tuple[int, ...]]]()

    class Target:
        is_local = True

        def __init__(self, *given: Any) -> None:
            self._name = given[0] if isinstance(given[0], str) else "edgellm"

        def complete(
            self, request: LoadRequest, on_piece: Callable[[], None], cancellation: Cancellation
        ) -> ReplyCounts:
            order.append((self._name, tuple(request.prompt)))
            on_piece()
            on_piece()
            return ReplyCounts(len(request.prompt), 0, request.tokens)

    monkeypatch.setattr(setup, "ServerTarget", Target)
    monkeypatch.setattr(setup, "LocalTarget", Target)
    url = "http://127.0.0.1:9"
    options = (*SHORT, "--clients", 1, "--requests", 2, "--against-server", url)
    found = json.loads(bench(*options, "--rounds", 3, "--json").stdout)
    names, prompts = zip(*order, strict=True)
    turns = ["edgellm", url, url, "edgellm", "edgellm", url]
    assert list(names) == ["edgellm", url, *(name for name in turns for _ in range(2))]
    assert prompts[2:4] == prompts[4:6] != prompts[6:8]
    (ratio,) = found["ratio"]
    assert ratio["rounds"] == 3
    assert {"generated_tps", "ttft_p95"} < set(ratio)
    lines = bench(*options).stdout.splitlines()
    assert lines[2] == "1 client, 3 rounds"
    assert lines[3].split() == ["edgellm", "min–max", "127.0.0.1:9", "min–max", "ratio", "min–max"]


def test_ctrl_c_shows_what_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = LoadGenerator.run

    def interrupted(self: LoadGenerator, requests: Any, on_tick: Any, drain_s: float | None = None) -> None:
        run(self, requests, on_tick, drain_s)
        if len(requests) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(LoadGenerator, "run", interrupted)
    done = bench(*SHORT, "--clients", 2, "--requests", 5, "--json")
    assert done.exit_code == 130
    assert done.stderr == "edgellm: note: interrupted; the figures are those of the requests that ended\n"
    (found,) = json.loads(done.stdout)["runs"]
    assert (found["complete"], found["completed"]) == (False, 5)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("--requests 5", "--requests does nothing without --serve or --clients: give one of them"),
        ("--serve 1 --clients 2", "--serve and --clients exclude each other: give one"),
        ("--serve 0", "--serve cannot be '0': give requests per second, several as 1,2,4, auto, or trace"),
        ("--serve 1,x", "--serve cannot be '1,x': give requests per second, several as 1,2,4, auto, or trace"),
        ("--serve nan", "--serve cannot be 'nan': give requests per second, several as 1,2,4, auto, or trace"),
        ("--serve trace", "--serve trace needs the times of a trace: give --trace FILE"),
        ("--serve auto --against-server x", "--serve auto measures one target once: leave out --against-server"),
        ("--clients 2 --duration 3", "--duration does nothing with --clients: leave it out"),
        ("--serve 2,1000 --duration 1001", "--duration cannot be 1001: give at most 1000 with this rate"),
        ("--clients 2 -d 3", "--depth does nothing with --serve and --clients: leave it out"),
        ("--clients 2 --rounds 3", "--rounds does nothing without --against-server: leave it out"),
        ("--clients 2 --server x --against-server x", "--server and --against-server are the same: give two servers"),
        ("--clients 2 --server-model x", "--server-model does nothing without --server: leave it out"),
        ("--serve 1 --server x --parallel 2", "--parallel does nothing with --server: leave it out"),
        ("--serve 1 --trace x -p 2", "--prompt-tokens does nothing with --trace: leave it out"),
        (
            "--clients 2 --threads 1,2",
            "--threads cannot be several numbers with --draft, --serve and --clients: give one",
        ),
        ("--clients 2 -n 0", "-p and -n cannot be 0 with --serve and --clients: give at least 1"),
        ("--clients 2 -p 1000 -n 1000", "-p and -n cannot be 2,000 tokens together: give at most "),
        ("--clients 2 -p 9 --shared-prefix 9", "--shared-prefix cannot be 9: give less than the 9 tokens of the "),
        ("--clients 2 --server x", "--server cannot be 'x': give a URL such as http://127.0.0.1:8080"),
        ("--clients 2 --slo-ttft 0", "--slo-ttft cannot be 0.0: give a finite number, above 0"),
        ("--clients 2 --server http://10.0.0.1 --price-kwh 1", "--price-kwh needs the energy: the server runs on "),
        ("-p 5-9", "--prompt-tokens cannot be a range without --serve or --clients: give a number"),
        ("-p 9-5", "--prompt-tokens cannot be '9-5': give a number of tokens, or a range: 128-512"),
    ],
)
def test_wrong_options_are_one_line(
    arguments: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["edgellm", "bench", "builtin", *arguments.split()])
    assert cli.run() == 2
    written = capsys.readouterr()
    assert written.err.startswith(f"edgellm: {told}")
    assert (written.err.count("\n"), written.out) == (1, "")


def test_a_server_that_fails_the_warm_up_is_an_error(bench: Bench) -> None:
    with pytest.raises(Exception, match=r"no server answers at 127\.0\.0\.1:1: start it, or check the address"):
        bench(*SHORT, "--clients", 2, "--server", "http://127.0.0.1:1")


def test_a_plot_by_hand() -> None:
    plot = Plot("title", [(0, 0), (4, 4), (8, 4)], 8, 0, 4, ("0", "4"), [((0, 2), (8, 2))])
    assert draw(plot, 16, 5, ASCII) == [
        "title           ",
        "     4|    o...o",
        "      |   .     ",
        "      |. ..  .  ",
        "      | .       ",
        "     0|o        ",
        "      +---------",
        "       0       8",
    ]


def test_a_plot_in_braille_has_eight_dots_a_character() -> None:
    plot = Plot("", [], 1, 0, 1, ("0", "1"), [])
    assert draw(plot, 9, 1 + 1, style_for("utf-8"))[1:3] == ["     1│  ", "     0│  "]
    line = Plot("", [(0, 0), (1, 1)], 1, 0, 1, ("0", "1"), [])
    (_, top, bottom, *_) = draw(line, 11, 2, style_for("utf-8"))
    assert (top[7:], bottom[7:]) == ("  ⡠●", "●⠊  ")
    assert style_for("ascii") is ASCII
    assert style_for(None) is ASCII


@pytest.mark.parametrize(("values", "ends"), [([0.02, 0.5], (-2, 0)), ([1, 1], (0, 1)), ([1, 101], (0, 3))])
def test_a_logarithmic_axis_ends_at_powers_of_ten(values: list[float], ends: tuple[int, int]) -> None:
    assert log_axis(values) == ends


def test_the_report_of_a_terminal_without_unicode_is_ascii() -> None:
    times = {"p50": 1234.5, "p95": 99999.0, "p99": 123456.0, "mean": 5.0}
    counts: dict[str, Any] = dict.fromkeys(("refused", "failed", "unfinished", "short", "cached_tokens"), 1)
    run: dict[str, Any] = {
        "target": "edgellm",
        "clients": None,
        "complete": True,
        "requests": 12345,
        "completed": 12340,
        "pieces": 5,
    }
    run |= counts | {"prompt_tokens": 9, "generated_tokens": 9, "seconds": 3.0, "generated_tps": 99999.0}
    run |= {"ttft_ms": times, "itl_ms": times, "goodput": 123.0, "attainment": 0.5, "errors": {"x\x1b": 3}}
    run |= {"tokens_per_joule": 1.0, "joules": 9.0, "price_per_million": 2.0}
    found: dict[str, Any] = {
        "model": "m.gguf",
        "targets": ["edgellm"],
        "prompt_tokens": "1-2",
        "tokens": "3",
        "trace": None,
    }
    found |= {"server": None, "shared_prefix": 0, "temp": 0.7, "left_out": 0, "slo_ttft": 2, "slo_itl": 0.2, "seed": 3}
    found |= {"energy_note": "none", "attainment": 0.9, "bend": {"edgellm": {"holds": None, "fails": 100.0}}}
    found |= {"runs": [run | {"rate": rate, "stalled_s": 43.21} for rate in (100.0, 1000.0)]}
    lines = list(serving_report(found, "ascii"))
    assert max(map(len, lines)) <= 80
    assert "\n".join(lines).isascii()
    assert "6 requests: x\\x1b" in lines
    assert "goodput bends below 100 requests/s (90% of requests are good)" in lines
    assert "18 tokens came in 10 pieces; ITL is the time between pieces" in lines
    assert "2 requests got fewer tokens than asked for" in lines
    assert "energy: not measured: none" in lines
    assert "this program stood still for 43.2 s, which its latencies contain: measure again" in lines


def test_the_comparison_fits_80_columns() -> None:
    url = "http://127.0.0.1:8932"
    values = {"edgellm": [123.4, 210.7, 198.2], url: [10_123.4, 12_345.6, 9_876.5]}
    known = {"values": values, "median": 12.34, "min": 10.01, "max": 20.02}
    load = {"clients": 8, "rate": None, "rounds": 3, "generated_tps": known}
    load["goodput"] = {"values": {"edgellm": [1.0], url: [0.0]}, "median": None, "min": None, "max": None}
    found: dict[str, Any] = {"model": "m.gguf", "targets": ["edgellm", url], "server": None, "trace": None, "runs": []}
    found |= {"prompt_tokens": "256", "tokens": "64", "shared_prefix": 128, "temp": 0, "left_out": 0, "ratio": [load]}
    found |= {"slo_ttft": 2, "slo_itl": 0.2, "energy_note": None, "seed": 3}
    lines = [click.unstyle(line) for line in serving_report(found, "utf-8")]
    assert max(map(len, lines)) <= 80
    assert " ".join(lines[4].split()) == "out tok/s 198.2 123.4–210.7 10,123 9,876–12,346 12.34 10.01–20.02"
    assert lines[5].split() == ["goodput/s", "1.00", "0.00"]
