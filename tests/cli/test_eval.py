"""`edgellm eval`: the table, JSON output, comparisons, limits, interruptions and errors."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import edgellm.evaluation
from edgellm import cli
from edgellm.cli.eval import command
from edgellm.evaluation import evaluate
from support.imports import HEAVY, loaded
from support.model_file import ModelFile

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
CASES = [
    {"prompt": "one", "group": "odd", "expect": {"regex": "."}},
    {"prompt": "two", "group": "even", "expect": {"contains": "never said"}},
    {"prompt": "three", "group": "odd", "expect": {"regex": ["never said", "."]}},
    {"prompt": "four", "group": "even", "json_schema": {"enum": ["a"]}, "expect": {"json": "a"}},
]
"""Whatever a model replies, three of four are right: 0.75, of which the error is 0.25."""

Run = Callable[..., Result]
Complain = Callable[..., str]


@pytest.fixture
def model(model_file: ModelFile) -> Path:
    return model_file(**SIZES, tokenizer="gpt2", chat_template=TEMPLATE, context_length=2048, vocab=384)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.jsonl"
    path.write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")
    return path


@pytest.fixture
def run(model: Path, suite: Path) -> Run:
    """Run `edgellm eval` on a tiny model and the suite."""
    args = [str(model), "--suite", str(suite), "--threads", "1", "-n", "8"]
    return lambda *more: CliRunner().invoke(command, [*args, *map(str, more)])


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Complain:
    """Run a command line that fails with this exit code and prints nothing; the one line on stderr."""

    def said(code: int, *args: object) -> str:
        monkeypatch.setattr(sys, "argv", ["edgellm", "eval", *map(str, args)])
        assert cli.run() == code
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        return err.rstrip("\n")

    return said


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_table_with_standard_errors(run: Run) -> None:
    done = run()
    assert (done.exit_code, done.stderr) == (0, "")
    assert lines(done.stdout) == [
        ["score", "mean", "cases"],
        ["overall", "0.750", "±", "0.250", "4"],
        ["json_right", "1.000", "1"],
        ["json_valid", "1.000", "1"],
        ["json_right_unguided", "0.000", "1"],
        ["json_valid_unguided", "0.000", "1"],
        [],
        ["overall", "in", "mean", "cases"],
        ["odd", "1.000", "±", "0.000", "2"],
        ["even", "0.500", "±", "0.500", "2"],
    ]


def test_json_has_the_figures_and_the_replies(run: Run, model: Path, suite: Path) -> None:
    found = json.loads(run("--json", "--seed", 3).stdout)
    results = found.pop("results")
    mean = {"value": 0.75, "error": 0.25, "cases": 4}
    assert found.pop("scores")["overall"] == {"score": mean}
    assert found.pop("groups")["even"]["score"] == {"value": 0.5, "error": 0.5, "cases": 2}
    assert found == {"model": str(model), "suite": str(suite), "against": None, "seed": 3, "cases": 4, "of": 4}
    assert [each["id"] for each in results] == ["1", "2", "3", "4"]
    assert results[3]["replies"]["reply"] == {"text": '"a"'}
    assert results[0]["replies"].keys() == {"reply"} and results[3]["replies"].keys() == {"reply", "unguided"}
    assert json.loads(run("--json", "--seed", 3).stdout)["results"] == results


def test_an_earlier_result_is_a_reference(run: Run, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.json"
    found = json.loads(run("--json").stdout)
    found["results"][0]["scores"]["overall"] = 0.5
    del found["results"][1]
    earlier.write_text(json.dumps(found))
    compared = json.loads(run("--json", "--against", earlier).stdout)
    assert compared["against"] == str(earlier)
    # The differences are 0.5, 0 and 0: their mean is 1/6, the error √((1/9 + 1/36 + 1/36) / 2 / 3) = 1/6.
    sixth = pytest.approx(1 / 6)
    assert compared["scores"]["overall"] == {
        "score": {"value": 0.75, "error": 0.25, "cases": 4},
        "reference": {"value": pytest.approx(2.5 / 3), "error": sixth, "cases": 3},
        "difference": {"value": sixth, "error": sixth, "cases": 3},
    }
    table = lines(run("--against", earlier).stdout)
    assert table[0] == ["score", "mean", "cases", "reference", "difference", "pairs"]
    assert table[1] == ["overall", "0.750", "±", "0.250", "4", "0.833", "±", "0.167", "+0.167", "±", "0.167", "3"]


def test_a_model_is_a_reference(run: Run, model_file: ModelFile, model: Path) -> None:
    same, other = (
        json.loads(run("--json", "--temp", 1, "--against", path).stdout)["scores"]["overall"]["difference"]
        for path in (model, model_file(**SIZES, tokenizer="gpt2", chat_template=TEMPLATE, vocab=384, seed=1))
    )
    assert same == other == {"value": 0, "error": 0, "cases": 4}
    alike = "--against", model, "--suite", "needle", "--lengths", 300, "--limit", 3
    found = json.loads(run("--json", *alike).stdout)
    assert found["scores"]["overall"]["difference"] == {"value": 0, "error": 0, "cases": 3}


@pytest.mark.parametrize("limit", ["0.75", "overall=0.75", "json_valid=1"])
def test_scores_that_reach_their_limits(limit: str, run: Run) -> None:
    assert run("--fail-below", limit).exit_code == 0


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (["0.8"], "overall is 0.750, below 0.8 (--fail-below)"),
        (["json_valid_unguided=0.1", "0.5"], "json_valid_unguided is 0.000, below 0.1 (--fail-below)"),
        (["0.76", "json_right_unguided=1"], "overall is 0.750, below 0.76; json_right_unguided is 0.000, below 1 "),
    ],
)
def test_a_score_below_its_limit_fails(
    limits: list[str], told: str, model: Path, suite: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    given = [part for limit in limits for part in ("--fail-below", limit)]
    args = ["edgellm", "eval", str(model), "--suite", str(suite), "--threads", "1", "-n", "8", *given]
    monkeypatch.setattr(sys, "argv", args)
    assert cli.run() == 1
    out, err = capsys.readouterr()
    assert "0.750" in out
    assert err.startswith(f"edgellm: {told}") and err.count("\n") == 1


def test_a_score_without_a_reply_fails(run: Run) -> None:
    done = run("--limit", 2, "--fail-below", "json_valid=0")
    assert str(done.exception) == "json_valid has no cases (--fail-below)"


def test_cases_of_the_whole_suite(run: Run) -> None:
    found = json.loads(run("--json", "--limit", 2).stdout)
    assert ([each["id"] for each in found["results"]], found["of"]) == (["1", "3"], 2)


@pytest.mark.parametrize("name", ["needle", "copy"])
def test_suites_of_long_contexts(name: str, run: Run) -> None:
    found = json.loads(run("--json", "--suite", name, "--lengths", "200,300", "--limit", 4).stdout)
    assert next(iter(found["groups"])) == "200 tokens" and "300 tokens" in found["groups"]
    assert found["cases"] == 4 and 0 <= found["scores"]["overall"]["score"]["value"] <= 1


def test_a_model_without_calls_is_asked_for_json(model: Path) -> None:
    """In a process of its own: stderr has one line, and stdout may be limited to ASCII."""
    args = [sys.executable, "-m", "edgellm", "eval", str(model), "--suite", "tools", "--limit", "26", "-n", "4"]
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(args, capture_output=True, text=True, check=True, env=env)
    assert json.loads(CliRunner().invoke(command, [*args[4:], "--json"]).stdout)["of"] == 6
    told = f"{model} does not show how the model calls tools: 20 cases with tools left out\n"
    assert done.stderr == f"edgellm: note: the chat template of {told}"
    assert lines(done.stdout)[3][:2] == ["json_valid", "0.000"] and " +- " in done.stdout


@pytest.mark.parametrize("complete", [0, 2])
def test_ctrl_c_shows_the_scores_so_far(run: Run, monkeypatch: pytest.MonkeyPatch, complete: int) -> None:
    def interrupted(*args: Any) -> Iterator[Any]:
        results = evaluate(*args)
        for _ in range(complete):
            yield next(results)
        raise KeyboardInterrupt

    monkeypatch.setattr(edgellm.evaluation, "evaluate", interrupted)
    done = run("--json", "--fail-below", "0.9")
    assert done.exit_code == 130
    assert done.stderr == f"edgellm: note: interrupted after {complete} of 4 cases\n"
    found = json.loads(done.stdout) if complete else {}
    assert (found.get("cases", 0), found.get("of", 4)) == (complete, 4)


def test_an_error_leaves_the_scores_so_far(run: Run, suite: Path) -> None:
    suite.write_text("\n".join(map(json.dumps, [*CASES, {**CASES[0], "prompt": "word " * 4000}])), encoding="utf-8")
    done = run()
    assert "case 5: " in str(done.exception) and lines(done.stdout)[1][:2] == ["overall", "0.750"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("", "Missing option '--suite'"),
        ("--suite tools --lengths 100", "--lengths belongs to --suite needle or copy."),
        ("--suite needle --lengths 0", "give a number of tokens, or several: 1000,4000."),
        ("--suite needle --lengths 1,x", "give a number of tokens, or several: 1000,4000."),
        ("--suite needle --lengths 9000", "--lengths: 9,000 tokens do not fit the context of 2,048 tokens: give"),
        ("--suite copy --lengths 900", "--lengths: 900 tokens do not fit the context of 2,048 tokens: give lengths"),
        ("--suite copy --ctx 100", "--lengths: a context of 100 tokens is too small: choose one of 128 or more"),
        ("--suite tools --fail-below 2", "'2' is not X or NAME=X, with X from 0 to 1."),
        ("--suite tools --fail-below nan", "'nan' is not X or NAME=X"),
        ("--suite tools --fail-below =x", "'=x' is not X or NAME=X"),
        ("--suite tools --fail-below exact=1", "--fail-below: exact is no score of this suite; take one of: overall,"),
        ("--suite copy --fail-below json_valid=1", "--fail-below: json_valid is no score of this suite"),
        ("--suite tools --limit 0", "--limit cannot be 0: give a whole number, at least 1"),
        ("--suite tools --temp -1", "--temp cannot be -1.0: give a finite number, at least 0"),
        ("--suite tools --seed -1", "--seed cannot be -1"),
        ("--suite tools --template nothing", "--template: nothing is no built-in template"),
    ],
)
def test_wrong_usage(args: str, told: str, complaint: Complain, model: Path) -> None:
    assert told in complaint(2, model, *args.split())


def test_files_that_are_none(complaint: Complain, model: Path, suite: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    there_is_none = f"edgellm: {missing}: there is no such file; check the path"
    assert complaint(1, model, "--suite", missing) == there_is_none
    assert complaint(1, model, "--suite", suite, "--against", missing) == there_is_none
    assert "missing.gguf" in complaint(1, model, "--suite", suite, "--against", tmp_path / "missing.gguf")
    assert "missing.gguf" in complaint(1, tmp_path / "missing.gguf", "--suite", suite)
    bad = tmp_path / "bad.json"
    bad.write_text('{"cases": [{"prompt": "x"}]}', encoding="utf-8")
    told = f"edgellm: --suite: {bad}: case 1: expect is not an object with one of the keys"
    assert complaint(2, model, "--suite", bad).startswith(told)
    told = f"edgellm: {bad}: is no output of edgellm eval --json; give one, or a model"
    assert complaint(1, model, "--suite", suite, "--against", bad) == told


def test_a_model_without_a_template(complaint: Complain, model_file: ModelFile, model: Path, suite: Path) -> None:
    path = model_file(**SIZES, tokenizer="gpt2", vocab=384)
    told = f"edgellm: {path} has no chat template, and replies need one: give it as --template NAME|FILE"
    assert complaint(1, path, "--suite", suite) == told
    assert complaint(1, model, "--suite", suite, "--against", path) == told
    done = CliRunner().invoke(command, [str(path), "--suite", str(suite), "--template", "chatml", "-n", "4"])
    assert done.exit_code == 0


def test_a_reference_that_is_damaged(complaint: Complain, model: Path, suite: Path, tmp_path: Path) -> None:
    """It is told before the first case."""
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF")
    assert str(bad) in complaint(1, model, "--suite", suite, "--against", bad)


def test_help_is_light() -> None:
    modules = loaded("sys.argv = ['edgellm', 'eval', '--help']; from edgellm.entry import main; main()")
    assert "edgellm.cli.eval" in modules
    assert not modules & HEAVY
