"""`gptq=` of quantize and convert: files nearer to the model of floats, whatever the memory; what is refused."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import converters.gptq.compensation
from converters import convert, prepare_convert, quantize
from converters.from_gguf import prepare_quantize
from converters.gguf_source import gguf_sources
from converters.gptq.compensation import Calibration, ReadingProgress, compensation
from converters.loadable import find_loadable
from converters.quant_mixes import assign_types
from edgellm import Model
from edgellm.cli.quantize import command
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, OptionError, UnsupportedModelError
from edgellm.gguf import GGUFFile
from support.make_checkpoint import write_checkpoint
from support.model_file import ModelFile
from support.oracle import llama_cpp_logits

WIDE: dict[str, Any] = {"types": "F32", "width": 256, "heads": 4, "ffn": 256}
EXPERTS: dict[str, Any] = {**WIDE, "types": "F32 experts", "arch": "qwen3moe", "experts": 4, "used": 2}
TEXT = "the time was on and the rest is in an inn, the end of that thing; so he went out to sea. "


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT * 30, encoding="utf-8")
    return path


def logits_of(path: Path) -> NDArray[np.float64]:
    """The logarithms of probabilities of a text of the same kind as TEXT."""
    with Model.open(path, gpu_layers=0, threads=1) as model:
        ids = model.tokenizer.encode("on that sea there was an inn, and in the end he went to the rest of the time ")
        logits = model.logits(ids).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


def divergence(source: Path, out: Path) -> float:
    """The KL divergence from the model of floats."""
    reference, other = logits_of(source), logits_of(out)
    return float((np.exp(reference) * (reference - other)).sum(axis=1).mean())


@pytest.mark.parametrize("mix", ["Q4_K_M", "Q4_0"])
def test_files_are_nearer_to_the_model(model_file: ModelFile, text_file: Path, tmp_path: Path, mix: str) -> None:
    """Embeddings stay with their importance, which the text tells; metadata and report say what was done."""
    source, plain, out = model_file(**WIDE), tmp_path / "plain.gguf", tmp_path / "out.gguf"
    quantize(source, plain, mix)
    report = quantize(source, out, mix, gptq=text_file, threads=2)
    assert divergence(source, out) < 0.9 * divergence(source, plain)
    assert {tensor.name for tensor in report.tensors if tensor.quantized and not tensor.compensated} <= {
        "token_embd.weight",
        "output.weight",
    }
    assert sum(tensor.compensated for tensor in report.tensors) == 14
    with GGUFFile.open(out) as file:
        assert file.metadata["quantize.gptq.dataset"] == str(text_file)
        assert "quantize.imatrix.file" not in file.metadata


def test_the_file_does_not_depend_on_passes_and_threads(
    model_file: ModelFile, text_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little memory there is a pass for each input."""
    source, one, other = model_file(**WIDE), tmp_path / "one.gguf", tmp_path / "other.gguf"
    reported: list[ReadingProgress] = []
    quantize(source, one, "Q3_K_M", gptq=text_file, threads=2)
    monkeypatch.setattr(converters.gptq.compensation, "available_memory", lambda: 0)
    prepare_quantize(source, other, "Q3_K_M", gptq=text_file, threads=1).run(reading=reported.append)
    assert one.read_bytes() == other.read_bytes()
    assert reported[0] == ReadingProgress(1, 8, 0, reported[0].of)
    assert reported[-1] == ReadingProgress(8, 8, reported[0].of, reported[0].of)


def test_experts_have_their_importance_alone(model_file: ModelFile, text_file: Path, tmp_path: Path) -> None:
    source, out, plain = model_file(**EXPERTS), tmp_path / "out.gguf", tmp_path / "plain.gguf"
    report = quantize(source, out, "Q4_0", gptq=text_file)
    assert {tensor.name for tensor in report.tensors if tensor.compensated} == {
        f"blk.{i}.attn_{part}.weight" for i in range(2) for part in ("q", "k", "v", "output")
    }
    quantize(source, plain, "Q4_0")
    with GGUFFile.open(out) as first, GGUFFile.open(plain) as second:
        name = "blk.0.ffn_up_exps.weight"
        assert first.tensors[name].data.tobytes() != second.tensors[name].data.tobytes()


def test_experts_that_saw_few_tokens_are_named(model_file: ModelFile, text_file: Path, tmp_path: Path) -> None:
    """Where the text is what tells the importance of their columns, and that can change their bytes."""
    source = model_file(**{**EXPERTS, "experts": 32, "used": 1})
    with pytest.warns(EdgeLLMWarning, match=r"experts saw fewer than 64 tokens: expert .*; .* a longer text"):
        quantize(source, tmp_path / "out.gguf", "Q4_0", gptq=text_file)
    quantize(source, tmp_path / "floats.gguf", "Q4_0", tensor_types=["_exps=F16"], gptq=text_file)


def test_llama_cpp_reads_the_file(model_file: ModelFile, text_file: Path, tmp_path: Path) -> None:
    """Its logits are as near to ours as those of the file without compensation."""
    source, ids, distances = model_file(**WIDE), [1, 5, 9, 30, 7], []
    for gptq in (None, text_file):
        quantize(source, tmp_path / "out.gguf", "Q4_K_M", gptq=gptq, force=True)
        with Model.open(tmp_path / "out.gguf", gpu_layers=0) as model:
            ours, theirs = model.logits(ids), llama_cpp_logits(tmp_path / "out.gguf", ids)
        distances.append(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
    assert distances[1] < 1.5 * distances[0] < 0.1


def test_a_checkpoint_gives_the_file_of_its_floats(text_file: Path, tmp_path: Path) -> None:
    """The model that reads the text is removed."""
    checkpoint, floats = write_checkpoint(tmp_path / "checkpoint"), tmp_path / "f16.gguf"
    convert(checkpoint, floats, "F16")
    quantize(floats, tmp_path / "a.gguf", "Q4_0", gptq=text_file)
    before = {*tmp_path.iterdir()}
    (tmp_path / ".b.gguf.BF16.gguf").write_bytes(b"left by a run that was killed")
    report = convert(checkpoint, tmp_path / "b.gguf", "Q4_0", gptq=text_file)
    assert any(tensor.compensated for tensor in report.tensors)
    assert {*tmp_path.iterdir()} - before == {tmp_path / "b.gguf"}
    assert divergence(floats, tmp_path / "b.gguf") == pytest.approx(divergence(floats, tmp_path / "a.gguf"), rel=0.1)


def test_the_command_tells_what_it_does(model_file: ModelFile, text_file: Path, tmp_path: Path) -> None:
    arguments = [model_file(**WIDE), tmp_path / "out.gguf", "--gptq", text_file, "--type", "Q4_0", "--threads", 1]
    found = CliRunner().invoke(command, [*map(str, arguments)], catch_exceptions=False)
    assert "errors of 14 tensors are compensated (GPTQ)" in found.stdout
    assert "the model reads" in found.stderr and "chunks of text" in found.stderr


def test_what_cannot_be_done_is_refused(model_file: ModelFile, text_file: Path, tmp_path: Path) -> None:
    source, out = model_file(**WIDE), tmp_path / "out.gguf"
    with pytest.raises(OptionError, match=r"finds no matrix.*Q4_K"):
        quantize(source, out, "F16", gptq=text_file)
    with pytest.raises(EdgeLLMError, match="there is no such file"):
        quantize(source, out, gptq=tmp_path / "none.txt")
    text_file.write_text(" \n")
    with pytest.raises(EdgeLLMError, match=r"text.txt: is empty"):
        quantize(source, out, gptq=text_file)
    assert not out.exists()
    text_file.write_bytes(b"GGUF\3\0\0\0")
    with pytest.raises(EdgeLLMError, match=r"text.txt: is a GGUF model or another binary file; give a text file"):
        quantize(source, out, gptq=text_file)
    text_file.write_text(TEXT * 30)
    unknown = model_file(**{**WIDE, "arch": "no_such_arch"})
    with pytest.raises(UnsupportedModelError, match="needs a model that edgellm can run"):
        quantize(unknown, out, gptq=text_file)


def test_a_text_that_is_too_short_is_told_before_any_work(
    model_file: ModelFile, text_file: Path, tmp_path: Path
) -> None:
    """Before the recipe `dynamic` measures tensors, and before the model of a checkpoint is written."""
    source, checkpoint, out = model_file(**WIDE), write_checkpoint(tmp_path / "checkpoint"), tmp_path / "out.gguf"
    text_file.write_text("short")
    dynamic: dict[str, Any] = {"type": "dynamic", "bits": 5, "calibration": TEXT * 30, "measuring": must_not_run}
    told = r"text\.txt: has [1-9] tokens, and at least [\d,]+ are needed; give a longer text"
    with pytest.raises(EdgeLLMError, match=told):
        prepare_quantize(source, out, gptq=text_file)
    with pytest.raises(EdgeLLMError, match=told):
        prepare_quantize(source, out, gptq=text_file, **dynamic)
    dynamic |= {"calibration": "short", "calibration_name": "the/text.txt"}
    with pytest.raises(EdgeLLMError, match=told):
        prepare_quantize(source, out, **dynamic)
    with pytest.raises(EdgeLLMError, match=told):
        prepare_convert(checkpoint, out, gptq=text_file)


def must_not_run(done: int, total: int) -> None:
    pytest.fail(f"{done} of {total} tensors are measured")


def test_a_type_that_needs_importance_which_no_text_gives(model_file: ModelFile) -> None:
    """A tensor that the model does not use, as in layers for multi-token prediction: told before the text is read."""
    calibration = Calibration(TEXT * 30, "text", lambda compiling: nullcontext(Path()))
    with GGUFFile.open(model_file(**WIDE)) as file:
        model, sources = find_loadable(file), gguf_sources(file)
        assert model
        unused = replace(next(each for each in sources if "ffn_up" in each.name), name="blk.2.ffn_up.weight")
        tensors = assign_types([*sources, unused], "Q4_0", "llama", [("ffn_up", "IQ2_XS")])
        with pytest.raises(OptionError, match=r"blk\.2\.ffn_up\.weight cannot become IQ2_XS without its importance"):
            compensation(tensors, model, calibration, measures=True)
        assert compensation(tensors, model, calibration, measures=False).names


def test_progress_is_shown_while_the_model_of_a_checkpoint_is_written(text_file: Path, tmp_path: Path) -> None:
    written: list[tuple[int, int]] = []
    checkpoint = write_checkpoint(tmp_path / "checkpoint")
    task = prepare_convert(
        checkpoint,
        tmp_path / "out.gguf",
        "Q4_0",
        gptq=text_file,
        floats_progress=lambda done, total: written.append((done, total)),
    )
    assert not written
    report = task.run()
    assert written[-1] == (report.weights, report.weights)


def test_a_plan_says_that_the_time_for_the_text_is_not_in_it(
    model_file: ModelFile, text_file: Path, tmp_path: Path
) -> None:
    arguments = [model_file(**WIDE), tmp_path / "out.gguf", "--type", "Q4_0", "--threads", 1, "--dry-run"]
    for more, told in (([], False), (["--gptq", text_file], True)):
        found = CliRunner().invoke(command, [*map(str, [*arguments, *more])], catch_exceptions=False)
        assert ("s with 1 thread, without the time that --gptq takes\n" in found.stdout) == told
