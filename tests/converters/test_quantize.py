"""GGUF to GGUF: metadata kept, the same as llama.cpp's own tool, and the new file computes as it should."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from converters import convert, prepare_quantize, quantize
from converters.gguf_source import raw_pairs
from converters.importance.sums import write_imatrix
from edgellm import Model
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, ModelFileError, UnsupportedModelError
from edgellm.gguf import GGUFFile
from edgellm.gguf.check import find_problems
from edgellm.gguf.imatrix import Imatrix, ImatrixEntry
from support import gguf_bytes as raw
from support.make_checkpoint import write_checkpoint
from support.model_file import ModelFile
from support.oracle import llama_cpp_logits
from support.reference import reference_logits
from support.split_files import write_parts

IDS = [1, 5, 300, 77, 12, 250, 9, 33]
_LLAMA_CPP = """
import ctypes, sys, llama_cpp
options = llama_cpp.llama_model_quantize_default_params()
options.ftype, options.nthread = 15, 1
sys.exit(llama_cpp.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), ctypes.byref(options)))
"""


def types_of(path: Path) -> dict[str, str]:
    with GGUFFile.open(path) as file:
        return {name: tensor.type.name for name, tensor in file.tensors.items()}


def distance(some: NDArray[np.float32], others: NDArray[np.float32]) -> float:
    return float(np.linalg.norm(some - others) / np.linalg.norm(others))


def test_metadata_and_order_are_kept_and_the_file_type_is_written(model_file: ModelFile, tmp_path: Path) -> None:
    source, out = model_file(types="F16", layers=3), tmp_path / "out.gguf"
    quantize(source, out, "q4_k_m")
    before, after = raw_pairs(source), raw_pairs(out)
    assert list(after.items())[: len(before)] == list(before.items())
    with GGUFFile.open(out) as file:
        assert (file.get_int("general.file_type"), file.get_int("general.quantization_version")) == (15, 2)
        assert not list(find_problems(file))
    assert list(types_of(out)) == list(types_of(source))


def test_types_and_metadata_are_those_of_llama_cpp(model_file: ModelFile, tmp_path: Path) -> None:
    if find_spec("llama_cpp") is None:
        pytest.skip("llama-cpp-python is not installed; it is the oracle of this test")
    source, ours, theirs = model_file(types="F16", layers=3), tmp_path / "ours.gguf", tmp_path / "theirs.gguf"
    quantize(source, ours, "Q4_K_M")
    subprocess.run([sys.executable, "-c", _LLAMA_CPP, source, theirs], check=True, capture_output=True)
    assert types_of(ours) == types_of(theirs)
    assert raw_pairs(ours) == raw_pairs(theirs)
    assert ours.stat().st_size == theirs.stat().st_size


@pytest.mark.parametrize(("mix", "loss"), [("Q8_0", 0.05), ("Q4_K_M", 0.4)])
def test_it_computes_like_its_source_here_and_in_llama_cpp(
    model_file: ModelFile, tmp_path: Path, mix: str, loss: float
) -> None:
    source, out = model_file(types="F16", layers=3), tmp_path / "out.gguf"
    quantize(source, out, mix)
    with Model.open(out) as model, Model.open(source) as original:
        ours, exact = model.logits(IDS), original.logits(IDS)
    truth = reference_logits(out, IDS)
    assert distance(ours, truth) < 0.04
    assert distance(llama_cpp_logits(out, IDS), truth) < 0.04
    assert distance(ours, exact) < loss


def test_quantized_files_only_on_request_and_with_a_warning(model_file: ModelFile, tmp_path: Path) -> None:
    source = model_file(types="Q8_0")
    with pytest.raises(UnsupportedModelError, match=r"are quantized already, such as .* \(Q8_0\); .*--requantize"):
        prepare_quantize(source, tmp_path / "out.gguf", "Q4_K_M")
    with pytest.warns(EdgeLLMWarning, match="quantized already"):
        quantize(source, tmp_path / "out.gguf", "Q4_K_M", requantize=True)
    assert types_of(tmp_path / "out.gguf")["blk.0.attn_q.weight"] == "Q4_K"


def test_what_has_its_type_already_is_copied_with_a_warning(model_file: ModelFile, tmp_path: Path) -> None:
    source, out = model_file(types="Q8_0"), tmp_path / "out.gguf"
    with pytest.warns(EdgeLLMWarning, match="has the type asked for already"):
        report = quantize(source, out, "Q8_0")
    with GGUFFile.open(source) as before, GGUFFile.open(out) as after:
        for name, tensor in before.tensors.items():
            assert np.array_equal(tensor.data, after.tensors[name].data)
    assert not report.worst(5)


def test_overrides_and_fallbacks_are_noted(model_file: ModelFile, tmp_path: Path) -> None:
    source, out = model_file(types="F16", ffn=352), tmp_path / "out.gguf"
    report = quantize(source, out, "Q4_K_M", tensor_types=["attn_q=q6_K"])
    notes = {tensor.name: (tensor.type, tensor.note) for tensor in report.notes}
    assert notes["blk.0.attn_q.weight"][0] == "Q6_K"
    kind, note = notes["blk.0.ffn_down.weight"]
    assert kind == types_of(out)["blk.0.ffn_down.weight"] == "Q5_0"
    assert "352" in note


def test_the_source_is_never_replaced(model_file: ModelFile) -> None:
    source = model_file(types="F16")
    before = source.read_bytes()
    with pytest.raises(EdgeLLMError, match="is read by this command"):
        quantize(source, source, "Q4_K_M", force=True)
    assert source.read_bytes() == before


def test_an_importance_matrix_and_a_text_that_are_read_are_not_replaced(model_file: ModelFile, tmp_path: Path) -> None:
    source, matrix, text = model_file(types="F16"), tmp_path / "imatrix.gguf", tmp_path / "text.txt"
    entries = {"output.weight": ImatrixEntry(np.ones((1, 512), np.float32), np.ones(1, int))}
    write_imatrix(Imatrix(matrix, entries, chunks=1, chunk_size=512))
    text.write_text("the cat sat on the mat")
    for out, given in ((matrix, {"imatrix": matrix}), (text, {"gptq": text})):
        before = out.read_bytes()
        with pytest.raises(EdgeLLMError, match=f"{out.name}: is read by this command"):
            quantize(source, out, force=True, **given)
        with pytest.raises(EdgeLLMError, match=f"{out.name}: is read by this command"):
            convert(write_checkpoint(tmp_path / out.stem), out, force=True, **given)
        assert out.read_bytes() == before


def test_a_file_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="vocabulary alone"):
        prepare_quantize(raw.RawGGUF().write(tmp_path / "in.gguf"), tmp_path / "out.gguf", "Q8_0")


def test_a_source_that_is_cut_while_it_is_read_is_an_error(model_file: ModelFile, tmp_path: Path) -> None:
    copy = tmp_path / "in.gguf"
    copy.write_bytes(model_file(types="F16").read_bytes())
    job = prepare_quantize(copy, tmp_path / "out.gguf", "Q8_0")
    with copy.open("r+b") as file:
        file.truncate(copy.stat().st_size - 1000)
    with pytest.raises(ModelFileError, match=r"in\.gguf: has become shorter"):
        job.run()
    assert [path.name for path in tmp_path.iterdir()] == ["in.gguf"]


def test_a_source_that_is_replaced_while_it_is_read_is_an_error(model_file: ModelFile, tmp_path: Path) -> None:
    source, other = tmp_path / "in.gguf", tmp_path / "other.gguf"
    for path in (source, other):
        path.write_bytes(model_file(types="F16").read_bytes())
    job = prepare_quantize(source, tmp_path / "out.gguf", "Q8_0")
    other.replace(source)
    with pytest.raises(ModelFileError, match=r"in\.gguf: was changed while it was read"):
        job.run()
    assert [path.name for path in tmp_path.iterdir()] == ["in.gguf"]


def test_the_parts_of_a_split_file_become_one(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    quantize(paths[1], tmp_path / "out.gguf", "F16")
    with GGUFFile.open(tmp_path / "out.gguf") as file:
        assert [key for key in file.metadata if key.startswith("split.")] == []
        assert [tensor.data.view(np.float32)[0] for tensor in file.tensors.values()] == [0, 1, 2]
    with pytest.raises(EdgeLLMError, match="is read by this command"):
        prepare_quantize(paths[0], paths[2], "F16", force=True)
