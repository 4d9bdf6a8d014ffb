"""`edgellm convert`: from a checkpoint folder to a file that computes, here and in llama.cpp."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader

import edgellm
from converters import convert, quantize
from converters.output import temporary_path
from edgellm import Model
from edgellm.cli import run
from edgellm.errors import EdgeLLMError, ModelFileError
from edgellm.fmt import size
from edgellm.gguf import GGUFFile
from edgellm.gguf.check import find_problems
from support.eagle3_heads import TARGET, Head, write_head
from support.families import CASES
from support.families.checkpoint import write_family_checkpoint
from support.families.references import load_reference
from support.make_checkpoint import write_checkpoint
from support.oracle import llama_cpp_greedy, llama_cpp_logits
from support.quantized_checkpoints import write_pair
from support.quantized_weights import gptq

Capture = pytest.CaptureFixture[str]
IDS = [1, 5, 300, 77, 12, 250, 9, 33]


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["edgellm", "convert", *map(str, arguments)])
    return run()


@pytest.mark.parametrize("family", ["llama", "mistral", "smollm2", "qwen2", "qwen3"])
def test_every_family_computes_alike_here_and_in_llama_cpp(family: str, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    convert(write_checkpoint(tmp_path / "in", family=family, shards=2), out, "Q8_0")
    with GGUFFile.open(out) as file:
        assert not list(find_problems(file))
    with Model.open(out) as model:
        ours = model.logits(IDS)
    theirs = llama_cpp_logits(out, IDS)
    assert np.linalg.norm(ours - theirs) < 0.05 * np.linalg.norm(theirs)


def test_a_draft_head_needs_its_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    target = write_checkpoint(tmp_path / "target", **TARGET)
    head, out = write_head(tmp_path / "head", Head()), tmp_path / "out.gguf"
    assert call(monkeypatch, head, "-o", out) == 2
    assert capsys.readouterr().err.endswith("drafts for another model: name that with --target\n")
    assert call(monkeypatch, head, "-o", out, "--target", target, "--type", "Q8_0") == 0
    with GGUFFile.open(out) as file:
        assert file.architecture == "eagle3"
        assert not list(find_problems(file))
    assert call(monkeypatch, head, "-o", out, "--target", out, "--force") == 1
    assert "holds an EAGLE-3 head" in capsys.readouterr().err


def test_a_quantized_checkpoint_computes_alike_here_in_llama_cpp_and_in_floats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The integers of GPTQ in Q4_0, beside the floats that they stand for; the command says so in one line."""
    settings = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    quantized, exact = write_pair(tmp_path, gptq, settings, "qwen2", head_dim=16)
    out = tmp_path / "out.gguf"
    floats = ("--tensor-type", "token_embd=F16", "--tensor-type", "^output=F16")
    assert call(monkeypatch, quantized, "-o", out, "--type", "Q4_0", *floats) == 0
    note = capsys.readouterr().out.splitlines()[-2]
    assert note.endswith(
        "by GPTQ at 4 bits in groups of 32, so the new file is at best that good; Q4_0 holds its weights exactly"
    )
    assert call(monkeypatch, quantized, "-o", out, "--type", "F16", "--dry-run") == 0
    assert "--type Q4_0 holds its weights exactly" in capsys.readouterr().out
    convert(exact, tmp_path / "exact.gguf", "F16")
    logits = []
    for path in (out, tmp_path / "exact.gguf"):
        with Model.open(path) as model:
            logits.append(model.logits(IDS))
    for found in (logits[0], llama_cpp_logits(out, IDS)):
        assert np.linalg.norm(found - logits[1]) < 0.05 * np.linalg.norm(logits[1])


def test_one_pass_gives_the_same_file_as_two(tmp_path: Path) -> None:
    """llama.cpp converts to F16 first, and then to Q4_K_M. F16 checkpoints lose nothing by that."""
    folder = write_checkpoint(tmp_path / "in", dtype="F16")
    convert(folder, tmp_path / "one.gguf", "Q4_K_M")
    convert(folder, tmp_path / "f16.gguf", "F16")
    quantize(tmp_path / "f16.gguf", tmp_path / "two.gguf", "Q4_K_M")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


def test_the_command_writes_shows_and_exits_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder, out = write_checkpoint(tmp_path / "in"), tmp_path / "out.gguf"
    assert call(monkeypatch, folder, "-o", out, "--tensor-type", "attn_k=Q8_0") == 0
    shown = capsys.readouterr().out
    assert "blk.0.attn_k.weight and 1 more  Q8_0  Q8_0 by --tensor-type attn_k" in shown
    assert "bits per weight, in " in shown
    with GGUFFile.open(out) as file:
        assert file.get_int("general.file_type") == 15
        assert {file.tensors[f"blk.{i}.attn_k.weight"].type.name for i in (0, 1)} == {"Q8_0"}


@pytest.mark.parametrize(
    ("family", "use"),
    [("qwen3_5", "--draft auto drafts with it"), ("ling2", "edgellm does not compute it")],
)
def test_layers_for_multi_token_prediction_are_told_with_their_size(
    family: str, use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    checkpoint = write_family_checkpoint(tmp_path / "in", CASES[family], load_reference(family).tensors)
    out = tmp_path / "out.gguf"
    told = []
    for arguments in (["--dry-run"], []):
        assert call(monkeypatch, checkpoint, "-o", out, "--type", "Q8_0", *arguments) == 0
        told += [line for line in capsys.readouterr().out.splitlines() if "multi-token" in line]
    tensors = GGUFReader(out).tensors
    last = max(int(t.name.split(".")[1]) for t in tensors if t.name.startswith("blk."))
    nbytes = sum(int(t.n_bytes) for t in tensors if t.name.startswith(f"blk.{last}."))
    assert told == [f"1 layer for multi-token prediction takes {size(nbytes)} of the file; {use}"] * 2


def test_python_has_the_arguments_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, one, two = write_checkpoint(tmp_path / "in"), tmp_path / "one.gguf", tmp_path / "two.gguf"
    assert call(monkeypatch, folder, "-o", one, "--type", "q5_k_m", "--tensor-type", "attn_k=Q8_0") == 0
    given: dict[str, Any] = {"tensor_types": ["attn_k=Q8_0"], "threads": 1}
    two.write_bytes(b"kept")
    plan = edgellm.convert(folder, two, "q5_k_m", dry_run=True, **given)
    assert (plan.nbytes, plan.path, two.read_bytes()) == (one.stat().st_size, two, b"kept")
    with pytest.raises(EdgeLLMError, match="exists"):
        edgellm.convert(folder, two, "q5_k_m", **given)
    report = edgellm.convert(str(folder), str(two), "q5_k_m", force=True, **given)
    assert two.read_bytes() == one.read_bytes()
    assert (report.nbytes, [t.name for t in report.tensors]) == (plan.nbytes, [t.name for t in plan.tensors])
    assert "tensors" not in repr(report)


def test_python_fetches_a_checkpoint_that_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, asked = write_checkpoint(tmp_path / "in"), list[str]()
    monkeypatch.setattr("edgellm.hub.fetch_checkpoint", lambda name, watcher, needed: asked.append(name) or folder)
    monkeypatch.chdir(tmp_path)
    assert edgellm.convert("org/name", "one.gguf", "Q8_0").path == tmp_path / "one.gguf"
    assert asked == ["org/name"]
    (tmp_path / "org").mkdir()
    folder.rename(tmp_path / "org/name")
    edgellm.convert("org/name", "two.gguf", "Q8_0")
    assert asked == ["org/name"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows limits no sizes of files")
def test_a_file_that_may_not_be_so_long_is_the_one_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    import resource

    folder, out = write_checkpoint(tmp_path / "in"), tmp_path / "out.gguf"
    assert call(monkeypatch, folder, "--dry-run", "--type", "F16") == 0  # its kernels are compiled
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    capsys.readouterr()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
        assert call(monkeypatch, folder, "-o", out, "--type", "F16") == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert capsys.readouterr().err.startswith(f"edgellm: {out}: cannot be written (File too large); make room")
    assert list(tmp_path.iterdir()) == [folder]


def test_nothing_is_written_for_a_dry_run_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder, out = write_checkpoint(tmp_path / "in", shards=2), tmp_path / "out.gguf"
    cut = shutil.copytree(folder, tmp_path / "cut")
    shard = cut / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-100])
    index, text = folder / "model.safetensors.index.json", folder / "text.txt"
    text.write_text("a text")
    cases: list[tuple[list[str | Path], int, str]] = [
        ([folder, "-o", out, "--dry-run"], 0, ""),
        ([folder, "-o", "-"], 2, "a GGUF file cannot go to stdout"),
        ([folder, "-o", ""], 2, "has an empty name"),
        ([folder, out], 2, f"give OUT with -o: -o {out}"),
        ([folder, "q8_0"], 2, "q8_0 is a type: give it with --type q8_0"),
        (["", "-o", out], 2, "the checkpoint has an empty name"),
        ([folder, "-o", f"{folder}/"], 1, f"such as {folder}/model.gguf"),
        ([folder, "-o", f"{tmp_path}/none/"], 1, "/none/: there is no such folder; make it first"),
        ([folder, "--type", "Q9"], 2, "choose one of"),
        ([folder, "-o", out, "--type", "Q9"], 2, "choose one of"),
        ([tmp_path / "none", "-o", out], 1, "no such folder"),
        ([cut, "-o", out], 1, shard.name),
        ([index, "-o", out], 1, "is not a folder"),
        ([folder, "-o", index, "--force"], 1, "is read by this command"),
        (["org/name", "-o", text, "--gptq", text, "--force"], 1, "is read by this command"),
    ]
    for arguments, code, problem in cases:
        assert call(monkeypatch, *arguments) == code, arguments
        shown = capsys.readouterr()
        assert problem in shown.err
        assert shown.err.count("\n") == (code != 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut", "in"]


def test_without_a_name_the_file_is_called_by_its_model_and_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    folder = write_checkpoint(tmp_path / "Tale-1B")
    cached = write_checkpoint(tmp_path / "models--org--Tale-2B" / "snapshots" / "0a1b")
    assert call(monkeypatch, folder, "--dry-run") == 0
    assert not list(here.iterdir())
    assert call(monkeypatch, folder, "--type", "q8_0") == 0
    assert "Tale-1B-Q8_0.gguf: " in capsys.readouterr().out
    content = (here / "Tale-1B-Q8_0.gguf").read_bytes()
    (here / "Tale-2B-Q4_K_M.gguf").write_bytes(b"mine")
    assert call(monkeypatch, cached) == 1
    assert "Tale-2B-Q4_K_M.gguf: exists; choose another name" in capsys.readouterr().err
    assert (here / "Tale-2B-Q4_K_M.gguf").read_bytes() == b"mine"
    assert call(monkeypatch, cached, "--force") == 0
    assert call(monkeypatch, "../Tale-1B/", "-o", "b.gguf", "--type", "q8_0") == 0
    assert (here / "b.gguf").read_bytes() == content
    assert sorted(path.name for path in here.iterdir()) == ["Tale-1B-Q8_0.gguf", "Tale-2B-Q4_K_M.gguf", "b.gguf"]


def test_an_existing_output_is_an_error_before_any_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("edgellm.hub.fetch_checkpoint", lambda *given: pytest.fail("a hub was asked"))
    (tmp_path / "Tale-1B-Q4_K_M.gguf").write_bytes(b"mine")
    assert call(monkeypatch, "org/Tale-1B") == 1
    assert capsys.readouterr().err.startswith("edgellm: Tale-1B-Q4_K_M.gguf: exists; choose another name")


def test_a_weight_that_is_no_number_is_named_and_no_file_left(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "in")
    shard = folder / "model.safetensors"
    content = bytearray(shard.read_bytes())
    content[-2:] = b"\x80\x7f"  # BF16's infinity, the last weight of the last tensor
    shard.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"tensor output\.weight, row 319, column 255: holds inf"):
        convert(folder, tmp_path / "out.gguf", "Q8_0")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_file_beside_the_checkpoint_may_be_replaced(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "in")
    (folder / "model.gguf").write_bytes(b"old")
    convert(folder, folder / "model.gguf", "Q8_0", force=True)
    with GGUFFile.open(folder / "model.gguf") as file:
        assert file.architecture == "llama"


def test_only_files_with_weights_must_stay_as_they_are(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "in")
    out, log = folder / "model.gguf", folder / "convert.log"
    left = temporary_path(out)  # what a killed run leaves
    for path in (left, log):
        path.write_bytes(b"old")
    convert(folder, out, "Q8_0", progress=lambda done, total: log.write_bytes(b"%d" % done))
    assert out.exists()
    assert not left.exists()
    weights = folder / "model.safetensors"
    with pytest.raises(ModelFileError, match="was changed while it was read"):
        convert(folder, out, "Q8_0", force=True, progress=lambda done, total: weights.touch())


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")
def test_a_closed_terminal_ends_no_conversion_under_nohup(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "in")
    code = (
        "import os, signal, sys; from edgellm.cli import run; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        "import converters.conversion as conversion; check = conversion.check_disk_space;"
        "conversion.check_disk_space = lambda *given: (os.kill(os.getpid(), signal.SIGHUP), check(*given));"
        "sys.exit(run())"
    )
    command = [sys.executable, "-c", code, "convert", str(folder), "-o", str(tmp_path / "out.gguf"), "--type", "F16"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert (tmp_path / "out.gguf").exists()


def test_a_trained_model_continues_a_text_as_in_llama_cpp(shared: Path, tmp_path: Path) -> None:
    out = tmp_path / "tale.gguf"
    convert(shared / "models" / "tale-13m", out, "Q8_0")
    with Model.open(out) as model:
        text = "".join(token.text for token in model.stream("Once upon a time", max_tokens=24, temp=0.0))
    assert text == llama_cpp_greedy(out, "Once upon a time", 24)


def test_a_text_that_is_missing_is_told_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("edgellm.hub.fetch_checkpoint", lambda *_: pytest.fail("it is downloaded"))
    text = tmp_path / "none.txt"
    assert call(monkeypatch, "org/name", "-o", tmp_path / "out.gguf", "--gptq", text) == 1
    assert capsys.readouterr().err == f"edgellm: {text}: there is no such file; check the path\n"


def test_each_part_of_gptq_is_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    checkpoint, text = write_checkpoint(tmp_path / "in"), tmp_path / "text.txt"
    text.write_text("the time was on and the rest is in an inn, the end of that thing; " * 40)
    given = (checkpoint, "-o", tmp_path / "out.gguf", "--gptq", text, "--type", "Q4_0")
    assert call(monkeypatch, *given, "--dry-run") == 0
    assert "without the time that --gptq takes" in capsys.readouterr().out
    assert call(monkeypatch, *given) == 0
    told = capsys.readouterr().err
    lines = ["writing the model in floats first, for it to read the text", "the model reads 3 chunks of text"]
    assert [line for line in told.splitlines() if line in lines] == lines
