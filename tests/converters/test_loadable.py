"""What is converted can be opened: what edgellm would refuse is refused before anything is written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters import prepare_convert, prepare_quantize, quantize
from edgellm.arch import describe
from edgellm.errors import EdgeLLMError, ModelFileError
from edgellm.gguf import GGUFFile
from edgellm.gguf.header_only import HeaderOnlyFile
from edgellm.text.tokenizer import Tokenizer
from support.make_checkpoint import write_checkpoint
from support.model_file import ModelFile

SMALL = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 64, "layers": 1, "dtype": "F16"}
NUMBERS = st.sampled_from(
    [0, 1e-30, 1e-10, 1e-6, 0.5, 1, 1.0, 2, 10000.0, 1 << 20, (1 << 31) - 1, 1 << 31, 1e15, 1e300]
)
SCALING = st.fixed_dictionaries(
    {"rope_type": st.sampled_from(["linear", "yarn", "llama3", "default", "dynamic"])},
    optional={
        "factor": NUMBERS,
        "original_max_position_embeddings": NUMBERS,
        "beta_fast": NUMBERS,
        "beta_slow": NUMBERS,
        "attention_factor": NUMBERS,
        "low_freq_factor": NUMBERS,
        "high_freq_factor": NUMBERS,
    },
)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "rms_norm_eps": NUMBERS,
        "rope_theta": NUMBERS,
        "max_position_embeddings": NUMBERS,
        "sliding_window": NUMBERS,
        "rope_scaling": SCALING,
    },
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("in") / "c", **SMALL, family="mistral")


def with_config(folder: Path, changes: dict[str, Any]) -> None:
    write_checkpoint(folder, **SMALL, family="mistral", config=tuple(changes.items()))


@settings(max_examples=60, deadline=None)
@given(CHANGES)
def test_what_is_converted_opens(folder: Path, changes: dict[str, Any]) -> None:
    with_config(folder, changes)
    out = folder.parent / "out.gguf"
    try:
        job = prepare_convert(folder, out, "F16", force=True)
    except EdgeLLMError as error:
        assert "\n" not in str(error)
        return
    job.run()
    with GGUFFile.open(out) as file:
        describe(file)
        Tokenizer(file)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rms_norm_eps": 1}, "key llama.attention.layer_norm_rms_epsilon is 1.0, outside 0 … 0.99; correct config"),
        ({"rope_theta": 1.0}, "rope over 32 dimensions with base 1.0 is impossible; correct config.json"),
    ],
)
def test_the_reason_is_that_of_the_reader(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    folder = tmp_path / "in"
    with_config(folder, changes)
    with pytest.raises(ModelFileError, match=f"^{folder}: edgellm would not open the GGUF file of it: {expected}"):
        prepare_convert(folder, tmp_path / "out.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_tokenizer_that_edgellm_does_not_read_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_checkpoint(tmp_path / "in", **SMALL)
    monkeypatch.setattr("edgellm.text.subword_model.SUPPORTED_MODELS", ("llama",))
    with pytest.raises(EdgeLLMError, match='its tokenizer is "gpt2", but this version has only'):
        prepare_convert(folder, tmp_path / "out.gguf")


def test_files_for_llama_cpp_alone_are_quantized_all_the_same(model_file: ModelFile, tmp_path: Path) -> None:
    """A file that edgellm refuses as it is may be meant for another program."""
    source = tmp_path / "in.gguf"
    epsilon = np.float32(1e-5).tobytes()
    content = model_file(types="F16").read_bytes()
    assert content.count(epsilon) == 1
    source.write_bytes(content.replace(epsilon, np.float32(2).tobytes()))
    with GGUFFile.open(source) as file, pytest.raises(ModelFileError):
        describe(file)
    quantize(source, tmp_path / "out.gguf", "Q8_0")


def test_what_is_not_written_yet_is_read_like_a_file(model_file: ModelFile, tmp_path: Path) -> None:
    job = prepare_quantize(model_file(types="F16", rope_scaling="llama3"), tmp_path / "out.gguf", "Q8_0")
    job.run()
    with GGUFFile.open(job.target) as file:
        known = {"rope_freqs.weight": file.tensors["rope_freqs.weight"].data}
        with HeaderOnlyFile(job.layout.header, job.layout.nbytes, job.target, known) as before:
            assert before.metadata.keys() == file.metadata.keys()
            assert [(t.name, t.shape, t.type, t.offset, t.nbytes) for t in before.tensors.values()] == [
                (t.name, t.shape, t.type, t.offset, t.nbytes) for t in file.tensors.values()
            ]
            ours, theirs = (describe(each).position_tables for each in (before, file))
            assert len(ours) == len(theirs) == 1
            assert np.array_equal(ours[0].values(np.arange(9)), theirs[0].values(np.arange(9)))
