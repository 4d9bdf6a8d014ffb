"""`edgellm perplexity`: its JSON and lines, what an interrupt leaves, and errors of one line."""

import json
import os
import subprocess
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import edgellm.perplexity
from edgellm import Model, cli
from edgellm.cli.perplexity import command
from edgellm.perplexity import compare, perplexity
from edgellm.perplexity.windows import evaluate_windows
from support.model_file import ModelFile

TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
TEXT = "the time was on and the rest is in an inn, the end of that thing; " * 6
Score = Callable[..., Result]
Complain = Callable[..., str]


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT + "\n", encoding="utf-8")
    return path


@pytest.fixture
def score(model_file: ModelFile, text_file: Path) -> Score:
    """Run `edgellm perplexity` on a tiny model and a text."""
    args = [str(model_file(**TINY)), str(text_file), "--ctx", "40", "--threads", "1"]
    return lambda *more: CliRunner().invoke(command, [*args, *map(str, more)], catch_exceptions=False)


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Complain:
    """Run a command line that fails with this exit code; the one line on stderr."""

    def run(code: int, *args: object) -> str:
        monkeypatch.setattr(sys, "argv", ["edgellm", "perplexity", *map(str, args)])
        assert cli.run() == code
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        return err.rstrip("\n")

    return run


def test_json_has_the_figures_of_python(score: Score, model_file: ModelFile, text_file: Path) -> None:
    path, reference = model_file(**TINY), model_file(**TINY, seed=1)
    with Model.open(path, threads=1) as model, Model.open(reference, threads=1) as other:
        alone, both = perplexity(model, TEXT, ctx=40), compare(model, other, TEXT, ctx=40)
    names = {"model": str(path), "file": str(text_file)}
    assert json.loads(score("--json").stdout) == names | {"against": None} | asdict(alone)
    against = {"against": str(reference)}
    assert json.loads(score("--json", "--against", reference).stdout) == names | against | asdict(both)


def test_a_byte_order_mark_is_no_part_of_the_text(score: Score, text_file: Path) -> None:
    plain = json.loads(score("--json").stdout)["perplexity"]
    text_file.write_bytes(BOM_UTF8 + text_file.read_bytes())
    assert json.loads(score("--json").stdout)["perplexity"] == plain


def test_a_text_on_stdin(model_file: ModelFile, text_file: Path, score: Score) -> None:
    args = [str(model_file(**TINY)), "-", "--ctx", "40", "--threads", "1", "--json"]
    piped = json.loads(CliRunner().invoke(command, args, input=text_file.read_bytes()).stdout)
    assert piped == json.loads(score("--json").stdout) | {"file": "-"}
    for wrong, told in (
        (b"", "stdin: is empty"),
        (b"GGUF\3\0\0\0", "stdin: is a GGUF model or another binary file; give a text file"),
        (b"\xff", "stdin: byte 0 is not"),
    ):
        assert told in str(CliRunner().invoke(command, args, input=wrong).exception)


def test_options_reach_the_model(score: Score) -> None:
    plain, coarse, again, other = (
        json.loads(score("--json", *more).stdout)["perplexity"]
        for more in ((), ("--kv-type", "q8_0"), ("--threads", 2), ("--ctx", 50))
    )
    assert plain == again
    assert len({plain, coarse, other}) == 3


def test_memory_is_limited(model_file: ModelFile, text_file: Path, complaint: Complain) -> None:
    """40 tokens need a page of keys and values, which has 64 tokens; each of two models may take it."""
    args = model_file(**TINY), text_file, "--ctx", 40, "--threads", 1
    said = complaint(1, *args, "--kv-memory", 1e-6)
    assert said.startswith("edgellm: the KV cache may not grow beyond 1 kB (--kv-memory)")
    limit = "--kv-memory", 64 * 2 * (32 + 32) * 2 / 1e9
    done = CliRunner().invoke(command, list(map(str, [*args, *limit, "--against", model_file(**TINY)])))
    assert done.exit_code == 0, done.output


def test_recurrent_layers(model_file: ModelFile, text_file: Path) -> None:
    """States go from chunk to chunk of a window, and each window begins without: any chunks give the same figures."""
    hybrid = {"arch": "qwen35", "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 96, "types": "F32"}
    path = model_file(**hybrid)
    args = [str(path), str(text_file), "--ctx", "40", "--json", "--threads"]
    found, coarse = (
        json.loads(CliRunner().invoke(command, [*args, *more], catch_exceptions=False).stdout)["perplexity"]
        for more in (["1"], ["2", "--kv-type", "q8_0"])
    )
    with Model.open(path, threads=1) as model:
        assert perplexity(model, TEXT, ctx=40).perplexity == found
        model.engine.max_rows = 7
        assert perplexity(model, TEXT, ctx=40).perplexity == found
    assert coarse != found
    assert coarse == pytest.approx(found, rel=0.01)


def test_lines(score: Score, model_file: ModelFile) -> None:
    done = score("--against", model_file(**TINY, seed=1))
    assert (done.exit_code, done.stderr) == (0, "")
    found = json.loads(score("--against", model_file(**TINY, seed=1), "--json").stdout)
    p, q, ratio, kl = (
        f"{found[name]:.{digits}f} ± {found[name + '_error']:.{digits}f}"
        for name, digits in (("perplexity", 4), ("reference_perplexity", 4), ("ratio", 4), ("kl", 6))
    )
    median, p99, largest = (f"{found['kl_' + name]:.6f}" for name in ("median", "p99", "max"))
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[:7] == [
        f"perplexity {p}",
        f"reference {q}",
        f"ratio {ratio}",
        f"KL divergence {kl}",
        f"median {median}",
        f"99 % {p99}",
        f"max {largest}",
    ]
    assert lines[7] == f"same top token {100 * found['top1']:.2f} ± {100 * found['top1_error']:.2f} %"
    assert lines[8:] == [f"{found['tokens']} tokens scored, in {found['windows']} windows of 40"]
    assert len({line.index(".") for line in done.stdout.splitlines()[:8]}) == 1
    alone = score().stdout.splitlines()
    assert [alone[0], alone[-1]] == [done.stdout.splitlines()[0], lines[8]]


def test_an_encoding_without_the_plus_minus_sign(model_file: ModelFile, text_file: Path) -> None:
    args = [sys.executable, "-m", "edgellm", "perplexity", str(model_file(**TINY)), str(text_file), "--ctx", "40"]
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(args, capture_output=True, check=True, env=env)
    assert b" +- " in done.stdout.splitlines()[0]


@pytest.mark.parametrize("complete", [0, 2])
def test_ctrl_c_shows_the_figures_so_far(score: Score, monkeypatch: pytest.MonkeyPatch, complete: int) -> None:
    def interrupted(*args: Any) -> Iterator[Any]:
        windows = evaluate_windows(*args)
        for _ in range(complete):
            yield next(windows)
        raise KeyboardInterrupt

    whole = json.loads(score("--json").stdout)
    monkeypatch.setattr(edgellm.perplexity.evaluate, "evaluate_windows", interrupted)
    done = score("--json")
    assert done.exit_code == 130
    found = json.loads(done.stdout) if complete else {}
    assert (found.get("windows", 0), found.get("of", whole["of"])) == (complete, whole["of"])
    note = f"edgellm: note: interrupted after {complete} of {whole['of']} windows\n"
    assert done.stderr == (note if complete else "")


def test_a_file_that_is_no_text(complaint: Complain, tmp_path: Path) -> None:
    """Errors of the text are reported before a model is opened."""
    path = tmp_path / "text"
    assert complaint(1, "no-model", path) == f"edgellm: {path}: there is no such file; check the path"
    assert complaint(1, "no-model", tmp_path) == f"edgellm: {tmp_path}: Is a directory; give a text file"
    assert complaint(1, "no-model", "") == "edgellm: the name of the file is empty; give a text file"
    for data, problem in [
        (b"\n", "is empty; give a text"),
        (b"GGUF\3\0\0\0", "is a GGUF model or another binary file; give a text file"),
        (b"caf\xe9", "byte 3 is not UTF-8; convert it to UTF-8 text"),
    ]:
        path.write_bytes(data)
        assert complaint(1, "no-model", path) == f"edgellm: {path}: {problem}"


def test_less_than_two_windows(complaint: Complain, model_file: ModelFile, text_file: Path) -> None:
    said = complaint(1, model_file(**TINY), text_file)
    assert said.endswith("has 206 tokens, and at least 1,024 are needed: give a longer text, or a smaller --ctx")


def test_wrong_options(complaint: Complain, model_file: ModelFile, text_file: Path) -> None:
    path = model_file(**TINY)
    assert "--ctx" in complaint(2, path, text_file, "--ctx", "4")
    assert "made for up to 512 tokens" in complaint(2, path, text_file, "--ctx", "513")
    assert "--kv-type cannot be" in complaint(2, path, text_file, "--kv-type", "q5")
    assert "MODEL" in complaint(2)
    assert "FILE" in complaint(2, path)


def test_a_reference_model_that_does_not_match(
    complaint: Complain, model_file: ModelFile, text_file: Path, tmp_path: Path
) -> None:
    path, other = model_file(**TINY), model_file(**TINY, vocab=321)
    said = complaint(1, path, text_file, "--ctx", 40, "--against", other)
    assert said.startswith(f"edgellm: {other}: has 321 tokens, but {path} has 320; ")
    assert "missing.gguf" in complaint(1, path, text_file, "--against", tmp_path / "missing.gguf")


def test_help_is_light() -> None:
    code = (
        "import sys; sys.argv = ['edgellm', 'perplexity', '--help']; "
        "from edgellm.cli import run; run(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "numba", "llama_cpp"} & set(done.stdout.split())
