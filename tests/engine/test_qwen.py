"""The variants of the Llama family: Qwen2's biases, Qwen3's norms of each head, and what their files must hold."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgellm import Model
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, ModelFileError, UnsupportedModelError
from support.fuzz_gguf import damaged
from support.make_gguf import write_model
from support.model_file import ModelFile
from support.oracle import llama_cpp_greedy

VARIANTS: dict[str, dict[str, Any]] = {
    "llama with biases": {"biases": True},
    "qwen2": {"arch": "qwen2"},
    "qwen3": {"arch": "qwen3", "head_dim": 128},
}
TINY: dict[str, Any] = {"width": 32, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 64, "layers": 1, "types": "F16"}
IDS = [1, *map(int, np.random.default_rng(4).integers(3, 320, 99))]


def logits_bits(path: Path, threads: int, chunk: int | None, kv_type: str) -> NDArray[np.uint32]:
    with Model.open(path, threads=threads, ctx=256, kv_type=kv_type) as model:
        logits: NDArray[np.float32] = model.logits(IDS, chunk=chunk)
    assert np.isfinite(logits).all()
    assert len(np.unique(logits, axis=0)) == len(logits)
    return logits.view(np.uint32)


@pytest.mark.parametrize("types", ["F16", "Q8_0", "Q4_K"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_chunks_and_threads_change_no_bit(model_file: ModelFile, variant: str, types: str) -> None:
    path, kv_type = model_file(types=types, **VARIANTS[variant]), "f32" if types == "F16" else "f16"
    whole = logits_bits(path, 2, None, kv_type)
    for threads, chunk in ((1, 1), (3, 1), (2, 7), (3, 64), (1, None)):
        bits = logits_bits(path, threads, chunk, kv_type)
        assert np.array_equal(bits, whole), f"{threads} threads, chunks of {chunk}"


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_greedy_text_is_that_of_llama_cpp(model_file: ModelFile, variant: str) -> None:
    path = model_file(types="F32", **VARIANTS[variant])
    with Model.open(path, threads=2, kv_type="f32") as model:
        text = model.generate("time and the", max_tokens=24, temp=0.0).text
    # What is no UTF-8, llama-cpp-python leaves out.
    assert text.replace("\ufffd", "") == llama_cpp_greedy(path, "time and the", 24)


def write_without(path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], **options: Any) -> Path:
    """A tiny model that lacks the named tensors."""
    add = gguf.GGUFWriter.add_tensor

    def add_some(self: Any, name: str, tensor: Any, **more: Any) -> None:
        if name not in names:
            add(self, name, tensor, **more)

    monkeypatch.setattr(gguf.GGUFWriter, "add_tensor", add_some)
    return write_model(path / "m.gguf", **TINY | options)


MISSING = {
    "blk.0.attn_k.bias": {"arch": "qwen2"},
    "blk.0.attn_q_norm.weight": {"arch": "qwen3"},
    "blk.0.attn_k_norm.weight": {"arch": "qwen3"},
}


@pytest.mark.parametrize("name", MISSING)
def test_tensors_that_an_architecture_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = write_without(tmp_path, monkeypatch, (name,), **MISSING[name])
    with pytest.raises(ModelFileError, match=rf"m\.gguf: has no tensor {name}; get another conversion"):
        Model.open(path)


def test_a_llama_may_have_some_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_without(tmp_path, monkeypatch, ("blk.0.attn_q.bias", "blk.0.ffn_up.bias"), biases=True)
    with Model.open(path) as model:
        assert np.isfinite(model.logits(IDS)).all()


@pytest.mark.parametrize(("arch", "name"), [("qwen2", "attn_output"), ("qwen3", "ffn_down")])
def test_biases_that_an_architecture_does_not_have(tmp_path: Path, arch: str, name: str) -> None:
    path = write_model(tmp_path / "m.gguf", **TINY, arch=arch, biases=True)
    with pytest.raises(UnsupportedModelError, match=rf"blk\.0\.{name}\.bias and \d more have no place in .* {arch}"):
        Model.open(path)


REFUSED: dict[str, tuple[Mapping[str, Any], str]] = {
    "experts": ({"expert_count": 8}, "with a mixture of experts is not supported yet"),
    "not causal": ({"attention.causal": False}, "whose tokens see the ones after them"),
}


def write_with(path: Path, arch: str, keys: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model with more keys of its architecture."""
    add = gguf.GGUFWriter.add_layer_norm_rms_eps

    def add_more(self: Any, value: float) -> None:
        add(self, value)
        for key, more in keys.items():
            self.add_key_value(f"{arch}.{key}", more, gguf.GGUFValueType.get_type(more))

    monkeypatch.setattr(gguf.GGUFWriter, "add_layer_norm_rms_eps", add_more)
    return write_model(path / "m.gguf", **TINY, arch=arch)


@pytest.mark.parametrize(
    ("arch", "case"),
    [("llama", "not causal"), *((arch, case) for arch in ("qwen2", "qwen3") for case in REFUSED)],
)
def test_relatives_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str, case: str) -> None:
    keys, words = REFUSED[case]
    with pytest.raises(UnsupportedModelError, match=words):
        Model.open(write_with(tmp_path, arch, keys, monkeypatch))


@pytest.mark.parametrize(
    ("arch", "window", "context", "said"),
    [
        ("qwen2", 64, 64, "sees a window of 64 tokens at a time"),
        ("qwen2", 0, 512, "made for up to 512 tokens"),
        ("qwen3", 4096, 512, "made for up to 512 tokens"),
        ("llama", 64, 512, "made for up to 512 tokens"),
    ],
)
def test_a_window_of_layers_that_the_file_does_not_name_ends_the_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arch: str, window: int, context: int, said: str
) -> None:
    path = write_with(tmp_path, arch, {"attention.sliding_window": window}, monkeypatch)
    Model.open(path, ctx=context).close()
    with pytest.raises(EdgeLLMError, match=said):
        Model.open(path, ctx=context + 1)


@pytest.fixture(scope="module", params=["qwen2", "qwen3"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """A tiny model's bytes, and how many of them are its header without the vocabulary."""
    options: dict[str, Any] = TINY | {"arch": request.param, "types": "Q4_0"}
    content = write_model(tmp_path_factory.mktemp("whole") / "m.gguf", **options).read_bytes()
    return content, content.index(b"tokenizer.ggml.tokens")


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_damaged_files_run_or_say_why_not(tmp_path: Path, whole: tuple[bytes, int], draw: st.DataObject) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(draw.draw(damaged(*whole)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeLLMWarning)
        try:
            with Model.open(path, ctx=32, threads=1) as model:
                assert model.logits(IDS[:9]).shape == (9, 320)
        except EdgeLLMError as error:
            assert "\n" not in str(error)
