"""`edgellm quantize`: its output and exit codes, and that nothing is written after an error."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from converters.default_name import file_name, model_name_of_file
from converters.report import PredictionLayers, Report, TensorReport
from edgellm.cli import run
from edgellm.cli.conversion import TYPES, _report
from edgellm.cli.conversion_progress import ConversionProgress
from edgellm.cli.progress import ProgressLine
from edgellm.cli.quantize import command
from edgellm.fmt import duration
from edgellm.gguf import GGUFFile
from support.model_file import ModelFile

Capture = pytest.CaptureFixture[str]


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["edgellm", *map(str, arguments)])
    return run()


def test_it_writes_the_file_and_shows_sizes_and_errors(
    model_file: ModelFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    source, out = model_file(types="F16"), tmp_path / "out.gguf"
    assert call(monkeypatch, "quantize", source, out) == 0
    shown = capsys.readouterr().out
    with GGUFFile.open(out) as file:
        kinds = {tensor.type.name for tensor in file.tensors.values()}
        assert file.get_int("general.file_type") == 15
    assert kinds == {"F32", "Q4_K", "Q6_K"}
    for kind in kinds:
        assert re.search(rf"^{kind} +\d+ +[\d,]+ +\d", shown, re.MULTILINE)
    assert re.search(r"^largest errors \(RMS\) .*\nblk\.\d.* Q4_K +[5-9]\.\d\d%$", shown, re.MULTILINE)
    assert re.search(r"out\.gguf: [\d.]+ MB, 4\.\d\d bits per weight, in [\d.]+ s\n$", shown)


def test_a_dry_run_shows_every_tensor_and_writes_nothing(
    model_file: ModelFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    source, out = model_file(types="F16", ffn=352), tmp_path / "out.gguf"
    assert call(monkeypatch, "quantize", source, out, "--dry-run", "--threads", "1", "--type", "q4_k_s") == 0
    shown = capsys.readouterr().out
    with GGUFFile.open(source) as file:
        for name, tensor in file.tensors.items():
            assert re.search(rf"^{name} .* {tensor.type.name} ", shown, re.MULTILINE)
    assert re.search(r"blk\.0\.ffn_down\.weight +512 x 352 +F16 +Q5_[01] .*352.* no multiple of 256", shown)
    assert re.search(r"of memory, about \d+(\.\d)? s with 1 thread\nnothing was written", shown)
    assert not list(tmp_path.iterdir())


def test_wrong_usage_and_wrong_input_are_one_line(
    model_file: ModelFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    source, out = model_file(types="F16"), tmp_path / "out.gguf"
    (tmp_path / "there.gguf").write_bytes(b"x")
    cases: list[tuple[list[str | Path], int, str]] = [
        ([source, "-"], 2, "a GGUF file cannot go to stdout"),
        ([source, ""], 2, "has an empty name"),
        (["", out], 1, "the name of the model is empty"),
        ([source, "q5_k_m"], 2, "q5_k_m is a type: give it with --type q5_k_m"),
        ([source, out, "--type", "Q4_KM"], 2, 'there is no "Q4_KM"; choose one of'),
        ([source, out, "--type", "Q4_KM"], 2, "BF16, and of quantize also dynamic"),
        ([source, out, "--type", "iq3_xxs"], 2, "give it with --tensor-type PATTERN=IQ3_XXS"),
        ([source, out, "--type", "F32"], 2, "give it with --tensor-type PATTERN=F32"),
        ([source, out, "--tensor-type", "ffn_down"], 2, "give a pattern and a type"),
        ([source, out, "--tensor-type", "nothing=Q6_K"], 2, "matches no tensor"),
        ([source, out, "--threads", "0"], 2, "--threads cannot be 0"),
        ([source, tmp_path / "there.gguf"], 1, "exists; choose another name, or replace it with --force"),
        ([source, source, "--force"], 1, "is read by this command"),
        ([source, tmp_path / "no" / "out.gguf"], 1, "there is no folder"),
        ([tmp_path / "missing.gguf", out], 1, "there is no such file"),
        ([model_file(types="Q8_0"), out], 1, "--requantize"),
        ([model_file(types="Q8_0"), tmp_path / "there.gguf", "--requantize"], 1, "there.gguf: exists"),
    ]
    for arguments, code, problem in cases:
        assert call(monkeypatch, "quantize", *arguments) == code, arguments
        shown = capsys.readouterr()
        assert problem in shown.err
        assert shown.err.startswith("edgellm: ")
        assert shown.err.count("\n") == 1
        assert not shown.out
    assert [path.name for path in tmp_path.iterdir()] == ["there.gguf"]
    assert (tmp_path / "there.gguf").read_bytes() == b"x"


def test_no_file_that_is_read_is_replaced(
    model_file: ModelFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Under no other name either: a link, and another name of the same file."""
    source, read, link, second = model_file(types="F16"), *(tmp_path / name for name in ("read", "link", "second"))
    read.write_text("the text")
    link.symlink_to(read)
    second.hardlink_to(read)
    for option in ("--imatrix", "--gptq", "--calibration"):
        for out in (read, link, second):
            assert call(monkeypatch, "quantize", source, out, option, read, "--force") == 1
            assert capsys.readouterr().err == f"edgellm: {out}: is read by this command; choose another name\n"
    assert read.read_text() == "the text"


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("Tale-F16.gguf", "Tale-Q5_K_M.gguf"),
        ("Tale.bf16.GGUF", "Tale-Q5_K_M.gguf"),
        ("Tale-Q4_K_M-00001-of-00003.gguf", "Tale-Q5_K_M.gguf"),
        ("Tale-3B-it.gguf", "Tale-3B-it-Q5_K_M.gguf"),
        ("F16.gguf", "F16-Q5_K_M.gguf"),
        ("org/tale:1b", "tale-1b-Q5_K_M.gguf"),
    ],
)
def test_names_of_new_files(given: str, made: str) -> None:
    path = Path(given if given.lower().endswith(".gguf") else "blobs/sha256-0a1b")
    assert file_name(model_name_of_file(path, given), "Q5_K_M") == made


def test_without_a_name_the_file_lies_here(
    model_file: ModelFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "tale-f16.gguf"
    source.write_bytes(model_file(types="F16").read_bytes())
    assert call(monkeypatch, "quantize", source, "--type", "q8_0") == 0
    assert (tmp_path / "tale-Q8_0.gguf").exists()
    capsys.readouterr()
    assert call(monkeypatch, "quantize", source, "--type", "q8_0") == 1
    assert capsys.readouterr().err.startswith("edgellm: tale-Q8_0.gguf: exists; choose another name")
    assert call(monkeypatch, "quantize", "tale-Q8_0.gguf", "--type", "q8_0", "--force") == 1
    assert "tale-Q8_0.gguf: is read by this command" in capsys.readouterr().err


def test_errors_below_a_hundredth_of_a_percent_are_not_listed() -> None:
    """BF16 in F16 has errors of some 1e-06 %, of numbers near 0 alone."""
    large, small = (
        TensorReport(f"{name}.weight", (2, 32), "BF16", "F16", 64, 128, "", error)
        for name, error in (("large", 1.1e-4), ("small", 9e-5))
    )
    for tensors, listed in (([large, small], ["large.weight"]), ([small], [])):
        shown = list(_report(Report(Path("out.gguf"), 300, tensors, "", None, 1.0)))
        assert [line.split()[0] for line in shown if ".weight" in line] == listed
        assert any("largest errors" in line for line in shown) == bool(listed)


def test_several_layers_for_multi_token_prediction() -> None:
    for found, told in (
        (PredictionLayers(2, 1500, True), "2 layers for multi-token prediction take 1.5 kB of the file; --draft auto "),
        (
            PredictionLayers(2, 1500, False),
            "2 layers for multi-token prediction take 1.5 kB of the file; edgellm does ",
        ),
        (None, ""),
    ):
        shown = list(_report(Report(Path("out.gguf"), 3000, [], "", found, 1.0)))
        assert [line.startswith(told) for line in shown if "multi-token" in line] == [True] * bool(found)


def test_an_interrupt_leaves_no_file_and_130(
    model_file: ModelFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: ConversionProgress, done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ConversionProgress, "__call__", interrupt)
    assert call(monkeypatch, "quantize", model_file(types="F16"), tmp_path / "out.gguf") == 130
    assert not list(tmp_path.iterdir())


def test_progress_without_a_terminal_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    now = 0.0
    monkeypatch.setattr("edgellm.cli.conversion_progress.monotonic", lambda: now)
    pace = ConversionProgress(ProgressLine())
    for now in (1.0, 9.0, 12.5, 13.0):
        pace(int(2e7 * now), 1_000_000_000)
    assert capsys.readouterr().err == "25% of 1,000 M weights · 20.0 M/s · 38 s left\n"


def test_times_read_as_clocks() -> None:
    assert [duration(seconds) for seconds in (0.2, 59.7, 61, 3723)] == ["0:00", "1:00", "1:01", "1:02:03"]


def test_the_help_names_all_mixes() -> None:
    from converters.quant_mixes import QUANT_MIXES

    assert TYPES.split() == list(QUANT_MIXES)
    shown = " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
    assert f"one of {TYPES}, and of quantize also dynamic" in shown
