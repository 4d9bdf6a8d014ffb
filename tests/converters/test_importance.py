"""`imatrix=` of quantize and convert: each row is encoded with the importance of its columns; what lacks it is told."""

import os
import struct
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from converters import convert, quantize
from converters.conversion import Conversion
from converters.from_gguf import prepare_quantize
from converters.importance.sums import write_imatrix
from edgellm import Model
from edgellm.errors import ModelFileError, OptionError
from edgellm.gguf import GGUFFile
from edgellm.gguf.imatrix import Imatrix, ImatrixEntry
from edgellm.system.folders import cache_folder
from kquants.dequantize import dequantize
from kquants.encode import encode
from support.make_checkpoint import write_checkpoint
from support.model_file import ModelFile
from support.oracle import llama_cpp_logits
from support.reference import reference_logits

Floats = NDArray[np.float32]
EXPERTS: dict[str, Any] = {"arch": "qwen3moe", "width": 256, "heads": 4, "ffn": 256, "experts": 4, "used": 2}


def some_imatrix(path: Path, model: Path, counts: tuple[int, ...] = (8,), without: str = "token_embd") -> Imatrix:
    """An importance matrix for the matrices of a model, with `counts` of the experts where there are stacks."""
    rng, entries = np.random.default_rng(3), {}
    with GGUFFile.open(model) as file:
        for name, tensor in file.tensors.items():
            if len(tensor.shape) > 1 and without not in name:
                of_each = np.array(counts if len(tensor.shape) == 3 else [8], np.int64)
                sums = rng.lognormal(0, 1.5, (len(of_each), tensor.shape[-1])) * of_each[:, None]
                entries[name] = ImatrixEntry(sums.astype(np.float32), of_each)
    found = Imatrix(path, entries, ("wiki.txt",), chunks=2, chunk_size=512)
    write_imatrix(found)
    return found


def rows_of(path: Path, name: str) -> Floats:
    with GGUFFile.open(path) as file:
        tensor = file.tensors[name]
        return dequantize(tensor.type, tensor.data, cache_folder()).reshape(tensor.shape)


def expected_bytes(source: Path, out: Path, name: str, importance: Floats) -> tuple[bytes, bytes]:
    """The bytes of a tensor in `out`, and those of the matrices in `source` encoded one by one."""
    matrices = rows_of(source, name).reshape(len(importance), -1, importance.shape[1])
    with GGUFFile.open(out) as file:
        kind, found = file.tensors[name].type, file.tensors[name].data.tobytes()
    parts = zip(matrices, importance, strict=True)
    return found, b"".join(encode(kind, each, cache_folder(), weights).data.tobytes() for each, weights in parts)


@pytest.mark.parametrize("mix", ["Q4_0", "Q4_K_M"])
def test_each_matrix_is_encoded_with_its_own_importance(model_file: ModelFile, tmp_path: Path, mix: str) -> None:
    """Experts that no token chose have the importance of all others together."""
    source, out, plain = model_file(types="F32 experts", **EXPERTS), tmp_path / "out.gguf", tmp_path / "plain.gguf"
    given = some_imatrix(tmp_path / "i.gguf", source, counts=(3, 70_000, 0, 12))
    report = quantize(source, out, mix, imatrix=given.path, threads=2)
    quantize(source, plain, mix)
    for name in ("blk.0.attn_q.weight", "blk.1.ffn_down_exps.weight", "blk.0.ffn_up_exps.weight"):
        means = given.entries[name].sums / np.maximum(1, given.entries[name].counts[:, None])
        if len(means) > 1:
            means[2] = given.entries[name].sums.astype(np.float64).sum(axis=0) / 70_015
        found, expected = expected_bytes(source, out, name, means.astype(np.float32))
        assert found == expected
        assert found != expected_bytes(source, plain, name, means.astype(np.float32))[0]
    assert [tensor.name for tensor in report.without_importance] == ["token_embd.weight"]


def test_the_new_file_names_the_matrix(model_file: ModelFile, tmp_path: Path) -> None:
    """As llama.cpp's; nothing else of its metadata changes."""
    source, out, plain = model_file(types="F16"), tmp_path / "out.gguf", tmp_path / "plain.gguf"
    given = some_imatrix(tmp_path / "i.gguf", source)
    quantize(source, out, "Q4_K_M", imatrix=given.path)
    quantize(source, plain, "Q4_K_M")
    with GGUFFile.open(out) as file, GGUFFile.open(plain) as other:
        added = {key: value for key, value in file.metadata.items() if key not in other.metadata}
        assert added == {
            "quantize.imatrix.file": str(given.path),
            "quantize.imatrix.dataset": "wiki.txt",
            "quantize.imatrix.entries_count": len(given.entries),
            "quantize.imatrix.chunks_count": 2,
        }
        assert file.metadata.keys() >= other.metadata.keys()


def test_a_name_that_is_not_utf8_gets_question_marks(model_file: ModelFile, tmp_path: Path) -> None:
    source, out = model_file(types="F16"), tmp_path / "out.gguf"
    given = some_imatrix(tmp_path / os.fsdecode(b"\xff.gguf"), source)
    quantize(source, out, "Q4_K_M", imatrix=given.path)
    with GGUFFile.open(out) as file:
        assert file.metadata["quantize.imatrix.file"] == str(tmp_path / "?.gguf")


def test_the_older_format_gives_the_same_file(model_file: ModelFile, tmp_path: Path) -> None:
    source, given = model_file(types="F16"), tmp_path / "i.gguf"
    imatrix = some_imatrix(given, source)
    with (tmp_path / "i.dat").open("wb") as file:
        file.write(struct.pack("<i", len(imatrix.entries)))
        for name, entry in imatrix.entries.items():
            file.write(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 8, entry.sums.size))
            file.write(entry.sums.tobytes())
    paths = [tmp_path / "one.gguf", tmp_path / "two.gguf"]
    for path, matrix in zip(paths, ("i.gguf", "i.dat"), strict=True):
        quantize(source, path, "Q4_K_M", imatrix=tmp_path / matrix)
    files = [GGUFFile.open(path) for path in paths]
    tensors = [{name: tensor.data.tobytes() for name, tensor in file.tensors.items()} for file in files]
    assert tensors[0] == tensors[1]


def test_convert_takes_it_too(tmp_path: Path) -> None:
    folder, f16 = write_checkpoint(tmp_path / "in", dtype="F16"), tmp_path / "f16.gguf"
    convert(folder, f16, "F16")
    given = some_imatrix(tmp_path / "i.gguf", f16)
    convert(folder, tmp_path / "one.gguf", "Q4_K_M", imatrix=given.path)
    quantize(f16, tmp_path / "two.gguf", "Q4_K_M", imatrix=given.path)
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


def prepared(source: Path, tmp_path: Path, imatrix: Imatrix) -> Conversion:
    write_imatrix(imatrix)
    return prepare_quantize(source, tmp_path / "out.gguf", "Q4_K_M", imatrix=imatrix.path)


def test_a_matrix_that_does_not_fit_is_refused_before_a_weight_is_read(model_file: ModelFile, tmp_path: Path) -> None:
    source, dense = model_file(types="F32 experts", **EXPERTS), model_file(types="F32")
    given = some_imatrix(tmp_path / "i.gguf", source, counts=(1, 1, 1, 1))
    stack, matrix = "blk.0.ffn_up_exps.weight", "blk.0.attn_q.weight"
    for name, values, problem in (
        (stack, 256, f"tensor {stack} has 256 values for 4 matrices of 256 columns"),
        (matrix, 128, f"tensor {matrix} has 128 values for 256 columns"),
    ):
        entry = ImatrixEntry(np.ones((1, values), np.float32), np.ones(1, np.int64))
        with pytest.raises(ModelFileError, match=f"i.gguf: {problem}; give one of the same model"):
            prepared(source, tmp_path, replace(given, entries={**given.entries, name: entry}))
    other = {name.replace("blk.", "block."): entry for name, entry in given.entries.items()}
    with pytest.raises(ModelFileError, match=r"i.gguf: has no tensor of this model, such as token_embd.weight; give"):
        prepared(source, tmp_path, replace(given, entries=other))
    with pytest.raises(ModelFileError, match="for 512 columns"):
        prepared(dense, tmp_path, given)
    assert not (tmp_path / "out.gguf").exists()


def test_types_without_a_choice_need_none(model_file: ModelFile, tmp_path: Path) -> None:
    """The bytes stay; a plan measures the encoders without importance."""
    source, out, plain = model_file(types="F32"), tmp_path / "out.gguf", tmp_path / "plain.gguf"
    given = some_imatrix(tmp_path / "i.gguf", source)
    assert not quantize(source, out, "Q8_0", imatrix=given.path).without_importance
    quantize(source, plain, "Q8_0")
    with GGUFFile.open(out) as file, GGUFFile.open(plain) as other:
        for name, tensor in file.tensors.items():
            assert tensor.data.tobytes() == other.tensors[name].data.tobytes()
    plan = prepare_quantize(source, tmp_path / "p.gguf", "Q4_K_M", imatrix=given.path).plan()
    assert [tensor.name for tensor in plan.without_importance] == ["token_embd.weight"]


def test_types_of_few_bits_need_it(model_file: ModelFile, tmp_path: Path) -> None:
    """But for the embedding, as in llama.cpp."""
    source, out = model_file(types="F32"), tmp_path / "out.gguf"
    given = some_imatrix(tmp_path / "i.gguf", source, without="attn_k")
    asked = {"tensor_types": ["token_embd=IQ2_XS", "attn_q=IQ3_XXS"]}
    with pytest.raises(OptionError, match=r"blk.0.attn_q.weight cannot become IQ3_XXS .* give --imatrix FILE"):
        prepare_quantize(source, out, **asked)
    assert prepare_quantize(source, out, **asked, imatrix=given.path)
    assert prepare_quantize(source, out, tensor_types=["token_embd=IQ2_XS"])
    with pytest.raises(OptionError, match=r"blk.0.attn_k.weight cannot become IQ2_XS .*i.gguf has nothing; choose"):
        prepare_quantize(source, out, tensor_types=["attn_k=IQ2_XS"], imatrix=given.path)


def test_types_of_few_bits_compute_here_as_in_llama_cpp(model_file: ModelFile, tmp_path: Path) -> None:
    source, out, ids = model_file(types="F16", layers=3), tmp_path / "out.gguf", list(range(5, 25))
    given = some_imatrix(tmp_path / "i.gguf", source)
    names = ("IQ3_S", "IQ3_XXS", "IQ2_XS")
    quantize(source, out, "Q8_0", tensor_types=[f"blk.{i}={name}" for i, name in enumerate(names)], imatrix=given.path)
    with GGUFFile.open(out) as file:
        assert tuple(file.tensors[f"blk.{i}.attn_q.weight"].type.name for i in range(3)) == names
    with Model.open(out) as model:
        ours = model.logits(ids)
    truth = reference_logits(out, ids)
    for found in (ours, llama_cpp_logits(out, ids)):
        assert np.linalg.norm(found - truth) < 0.06 * np.linalg.norm(truth)


_LLAMA_CPP = """
import ctypes, json, sys
import numpy as np
from llama_cpp import llama_cpp as lib
options = lib.llama_model_quantize_default_params()
options.ftype, options.nthread = lib.LLAMA_FTYPE_MOSTLY_Q4_K_M, 2
given = np.load(sys.argv[3])
entries = (lib.llama_model_imatrix_data * (len(given.files) + 1))()
kept = [(name.encode(), np.ascontiguousarray(given[name])) for name in given.files]
for entry, (name, values) in zip(entries, kept):
    entry.name, entry.size = name, values.size
    entry.data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
options.imatrix = ctypes.cast(entries, ctypes.POINTER(lib.llama_model_imatrix_data))
sys.exit(lib.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), ctypes.byref(options)))
"""


def test_weighted_errors_are_no_larger_than_those_of_llama_cpp(model_file: ModelFile, tmp_path: Path) -> None:
    if find_spec("llama_cpp") is None:
        pytest.skip("llama-cpp-python is not installed; it is the oracle of this test")
    source, ours, theirs = model_file(types="F32"), tmp_path / "ours.gguf", tmp_path / "theirs.gguf"
    given = some_imatrix(tmp_path / "i.gguf", source)
    quantize(source, ours, "Q4_K_M", imatrix=given.path)
    means = {name: entry.means().reshape(-1) for name, entry in given.entries.items()}
    np.savez(tmp_path / "i.npz", **means)
    arguments = [sys.executable, "-c", _LLAMA_CPP, source, theirs, tmp_path / "i.npz"]
    subprocess.run(arguments, check=True, capture_output=True)
    errors: dict[str, list[float]] = {}
    for name, importance in means.items():
        squares = ((rows_of(path, name) - rows_of(source, name)).astype(np.float64) ** 2 for path in (ours, theirs))
        errors[name] = [float((each * importance).sum()) for each in squares]
    assert all(one <= other for one, other in errors.values()), errors
