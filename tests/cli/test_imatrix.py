"""`edgellm imatrix`: sums of llama.cpp, runs that go on, warnings; and what info and verify show of the file."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from gguf import GGUFReader

import converters.importance.collect
from converters.importance.collect import ImatrixProgress
from converters.importance.sums import write_imatrix
from edgellm import Model, cli, imatrix
from edgellm.cli.imatrix import _shown, command
from edgellm.cli.info import command as info
from edgellm.cli.progress import ProgressLine
from edgellm.cli.verify import command as verify
from edgellm.errors import EdgeLLMError
from edgellm.gguf.imatrix import ImatrixEntry, read_imatrix
from edgellm.perplexity.windows import evaluate_windows
from support.model_file import ModelFile
from support.oracle import llama_cpp_squares
from support.split_files import write_parts

TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
EXPERTS: dict[str, Any] = {**TINY, "arch": "qwen3moe", "types": "F32 experts", "experts": 8, "used": 1}
TEXT = "the time was on and the rest is in an inn, the end of that thing; " * 6
Run = Callable[..., Result]


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT + "\n", encoding="utf-8")
    return path


@pytest.fixture
def run(model_file: ModelFile, text_file: Path, tmp_path: Path) -> Run:
    """Run `edgellm imatrix` on a tiny model and a text of five chunks; it writes i.gguf."""

    def invoke(*more: object, model: dict[str, Any] = TINY) -> Result:
        arguments = [model_file(**model), text_file, "-o", tmp_path / "i.gguf", "--ctx", 40, "--threads", 1, *more]
        return CliRunner().invoke(command, [*map(str, arguments)], catch_exceptions=False)

    return invoke


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command line that fails with this exit code; the one line on stderr."""

    def fail(code: int, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["edgellm", *map(str, arguments)])
        assert cli.run() == code
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        return err.rstrip("\n")

    return fail


@pytest.mark.parametrize("kind", [TINY, EXPERTS])
def test_the_file_has_the_sums_and_counts_of_llama_cpp(
    run: Run, model_file: ModelFile, text_file: Path, tmp_path: Path, kind: dict[str, Any]
) -> None:
    """Each chunk begins with BOS, and all of its tokens count; names and shapes are those of llama.cpp."""
    path = model_file(**kind)
    assert run("--kv-type", "f32", model=kind).exit_code == 0
    with Model.open(path, threads=1) as model:
        ids = model.tokenizer.encode(TEXT, add_special=True)
    expected: dict[str, Any] = {}
    for first in range(0, len(ids) - 39, 40):
        for name, found in llama_cpp_squares(path, [1, *ids[first + 1 : first + 40]]).items():
            expected[name] = [a + b for a, b in zip(expected.get(name, (0, 0)), found, strict=True)]
    reader = GGUFReader(tmp_path / "i.gguf")
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    assert tensors.keys() == {name + suffix for name in expected for suffix in (".in_sum2", ".counts")}
    for name, (sums, counts) in expected.items():
        assert np.array_equal(tensors[f"{name}.counts"], counts[:, None].astype(np.float32)), name
        ours = tensors[f"{name}.in_sum2"]
        assert ours.shape == (len(counts), sums.size // len(counts))
        assert np.linalg.norm(ours.ravel() - sums.ravel()) <= 1e-5 * np.linalg.norm(sums), name
    metadata = {key: field.contents() for key, field in reader.fields.items() if "imatrix." in key or "type" in key}
    told = {"general.type": "imatrix", "imatrix.datasets": [str(text_file)]}
    assert metadata.items() >= {"imatrix.chunk_count": 5, "imatrix.chunk_size": 40}.items()
    assert {key: metadata[key] for key in told} == told


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    def interrupted(*args: Any, **options: Any) -> Iterator[Any]:
        windows = evaluate_windows(*args, **options)
        for _ in range(after):
            yield next(windows)
        raise KeyboardInterrupt

    monkeypatch.setattr(converters.importance.collect, "evaluate_windows", interrupted)


def test_a_run_that_was_interrupted_goes_on_to_the_same_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "i.gguf"
    run()
    whole = path.read_bytes()
    path.unlink()
    for chunks, told in ((0, "0 of 5 chunks; nothing was written"), (2, f"2 of 5 chunks; {path} has them, and the")):
        with monkeypatch.context() as patched:
            interrupt(patched, after=chunks)
            done = run()
        assert (done.exit_code, done.stdout) == (130, "")
        assert f"interrupted after {told}" in done.stderr
        assert path.exists() == bool(chunks)
    assert read_imatrix(path).chunks == 2
    done = run("--chunks", 4, "--threads", 2)
    assert f"{path} has 2 chunks of 4; going on" in done.stderr
    assert done.stdout == f"{path}: 15 tensors, 4 chunks of 40 tokens\n"
    run()
    assert path.read_bytes() == whole
    done = run("--chunks", 3)
    assert f"{path} has 5 chunks already, more than --chunks 3, and keeps them; --force starts anew" in done.stderr
    assert path.read_bytes() == whole
    assert f"{path} has all 5 chunks already" in run("--chunks", 5).stderr
    run("--chunks", 3, "--force")
    assert read_imatrix(path).chunks == 3


def test_a_note_begins_on_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal the line of progress goes first."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for before, told in ((2, "i.gguf has 2 chunks of 5; going on"), (5, "i.gguf has all 5 chunks already")):
        line = ProgressLine()
        line.working("reading the text")
        _shown(line, [], "i.gguf")(ImatrixProgress(before, 5, before))
        assert capsys.readouterr().err == f"\r\x1b[Kreading the text\r\x1b[Kedgellm: note: {told}\n"


def test_a_text_that_got_longer_goes_on(run: Run, text_file: Path, tmp_path: Path) -> None:
    run()
    text_file.write_text(TEXT + TEXT, encoding="utf-8")
    assert "has 5 chunks of 10; going on" in run().stderr
    longer = (tmp_path / "i.gguf").read_bytes()
    run("--force")
    assert (tmp_path / "i.gguf").read_bytes() == longer


def test_another_model_text_or_chunk_does_not_go_on(
    complaint: Callable[..., str], run: Run, model_file: ModelFile, text_file: Path, tmp_path: Path
) -> None:
    run()
    path, other = tmp_path / "i.gguf", tmp_path / "other.txt"
    other.write_text(f"a {TEXT}", encoding="utf-8")
    before, given = path.read_bytes(), ["-o", path, "--ctx", 40]
    for changed, problem in (
        ([model_file(**TINY, seed=1), text_file, *given], "is of another model, or of another --kv-type"),
        ([model_file(**TINY), text_file, *given, "--kv-type", "f32"], "is of another model, or of another --kv-type"),
        ([model_file(**TINY), other, *given], "is of a text that begins otherwise"),
        ([model_file(**TINY), text_file, "-o", path, "--ctx", 50], "has chunks of 40 tokens, not 50"),
    ):
        advice = "choose another name, or start anew with --force"
        assert complaint(1, "imatrix", *changed) == f"edgellm: {path}: exists, and {problem}; {advice}"
    assert "choose another name" in complaint(1, "imatrix", model_file(**TINY), other, "-o", other, "--ctx", 40)
    assert path.read_bytes() == before
    path.write_bytes(before[:200])
    for existing, problem in ((other, "is no importance matrix"), (path, "is cut off or damaged")):
        told = complaint(1, "imatrix", model_file(**TINY), text_file, "-o", existing, "--ctx", 40)
        assert f"{existing}: {problem}" in told and told.endswith("; choose another name, or start anew with --force")


def test_a_file_whose_sums_have_other_sizes_does_not_go_on(run: Run, tmp_path: Path) -> None:
    """Its marks say that it is of this model."""
    run("--chunks", 2)
    path, name = tmp_path / "i.gguf", "blk.0.ffn_down.weight"
    found = read_imatrix(path)
    write_imatrix(
        replace(found, entries={**found.entries, name: ImatrixEntry(np.ones((2, 48), np.float32), np.ones(2, int))})
    )
    before = path.read_bytes()
    with pytest.raises(EdgeLLMError, match=f"the file to go on with has other sizes for {name}; choose another name"):
        run()
    assert path.read_bytes() == before


def test_experts_with_few_tokens_are_named(run: Run, model_file: ModelFile, tmp_path: Path) -> None:
    """Those with the fewest first, and what to do; info shows them, too."""
    done = run(model=EXPERTS)
    entries = read_imatrix(tmp_path / "i.gguf").entries
    counts = [entries[f"blk.{layer}.ffn_up_exps.weight"].counts.tolist() for layer in (0, 1)]
    found = sorted((n, layer, expert) for layer, of in enumerate(counts) for expert, n in enumerate(of))
    few = [each for each in found if each[0] < 64]
    assert len(few) > 4
    named = ", ".join(f"expert {expert} of layer {layer} ({n})" for n, layer, expert in few[:4])
    told = f"{len(few)} experts saw fewer than 64 tokens: {named} and {len(few) - 4} more; append more text"
    assert told in done.stderr
    shown = CliRunner().invoke(info, [str(tmp_path / "i.gguf")], catch_exceptions=False).stdout
    n, layer, expert = found[0]
    assert f"tokens seen: {n} by expert {expert} of layer {layer}, " in shown
    shown = CliRunner().invoke(info, [str(tmp_path / "i.gguf"), "--json"], catch_exceptions=False).stdout
    assert json.loads(shown)["fewest_tokens"][0] == {"layer": layer, "expert": expert, "tokens": n}


def test_info_and_verify_show_what_it_is(run: Run, text_file: Path, tmp_path: Path) -> None:
    run()
    path = str(tmp_path / "i.gguf")
    lines = CliRunner().invoke(info, [path, "--tensors"], catch_exceptions=False).stdout.splitlines()
    shown = [" ".join(line.split()) for line in lines]
    assert {"entries 15 tensors", f"texts {text_file}", "read 5 chunks of 40 tokens"} < {*shown}
    assert "blk.0.ffn_down.weight 96 200" in shown
    found = json.loads(CliRunner().invoke(info, [path, "--json", "--tensors"], catch_exceptions=False).stdout)
    assert (found["kind"], found["chunks"], found["datasets"]) == ("imatrix", 5, [str(text_file)])
    assert {"name": "blk.0.ffn_down.weight", "values": 96, "tokens": [200]} in found["tensors"]
    ok = CliRunner().invoke(verify, [path], catch_exceptions=False)
    assert (ok.exit_code, ok.stdout.startswith(f"ok: {path}, importance matrix of 15 tensors")) == (0, True)
    found = json.loads(CliRunner().invoke(verify, [path, "--json"], catch_exceptions=False).stdout)
    assert (found["ok"], found["tensors"]) == (True, 15)


def test_python_gives_the_same_file(run: Run, model_file: ModelFile, text_file: Path, tmp_path: Path) -> None:
    run()
    seen = []
    path = tmp_path / "other.gguf"
    found = imatrix(
        model_file(**TINY), TEXT, path, dataset=str(text_file), ctx=40, threads=2, progress=lambda p: seen.append(p)
    )
    assert path.read_bytes() == (tmp_path / "i.gguf").read_bytes()
    assert (found.path, found.chunks, [each.chunks for each in seen]) == (path, 5, [0, 1, 2, 3, 4, 5])
    assert seen[-1].perplexity and seen[-1].perplexity > 1


def test_wrong_use_is_one_line(
    complaint: Callable[..., str], run: Run, model_file: ModelFile, text_file: Path, tmp_path: Path
) -> None:
    run()
    model, made = model_file(**TINY), tmp_path / "i.gguf"
    assert "--out" in complaint(2, "imatrix", model, text_file)
    assert "--chunks" in complaint(2, "imatrix", model, text_file, "-o", made, "--chunks", 0)
    told = complaint(1, "imatrix", model, text_file, "-o", tmp_path / "new")
    assert told.startswith(f"edgellm: {text_file} has ")
    assert told.endswith(" tokens, and at least 1,024 are needed: give a longer text, or a smaller --ctx")
    told = complaint(2, "imatrix", model, text_file, "more.txt", "-o", tmp_path / "new")
    assert "not more.txt too; several by: cat A.txt B.txt | edgellm imatrix MODEL - -o FILE" in told
    assert "there is no folder" in complaint(1, "imatrix", model, text_file, "-o", tmp_path / "none" / "i")
    assert "choose another name" in complaint(1, "imatrix", model, text_file, "-o", model)
    parts = write_parts(tmp_path)
    assert "is read by this command" in complaint(1, "imatrix", parts[0], text_file, "-o", parts[2], "--force")
    assert "holds an importance matrix, not a model" in complaint(1, "imatrix", made, text_file, "-o", tmp_path / "new")
    assert "holds an importance matrix, not a model" in complaint(1, "plan", made)
    assert not (tmp_path / "new").exists()


def test_help_is_light() -> None:
    code = (
        "import sys; sys.argv = ['edgellm', 'imatrix', '--help']; "
        "from edgellm.cli import run; run(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "numba", "llama_cpp"} & set(done.stdout.split())
