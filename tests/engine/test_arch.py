"""What a model file must hold to run, and that shapes and RoPE of every type come out right."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm import EdgeLLMError, Model, ModelFileError, UnsupportedModelError
from edgellm.arch import describe
from edgellm.gguf import GGUFFile
from support import make_gguf
from support.make_gguf import write_model
from support.model_file import ModelFile
from support.reference import Reference, divergence

TINY: dict[str, Any] = {"width": 32, "heads": 2, "kv_heads": 1, "head_dim": 16, "ffn": 48, "types": "F32"}
IDS = [1, *map(int, np.random.default_rng(5).integers(3, 320, 99))]
Array = NDArray[np.float32]


@pytest.fixture
def altered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`altered(keys={...}, tensors={...})`: a tiny model with these in place of its own, None for without."""

    def write(keys: dict[str, Any], tensors: dict[str, Any], **options: Any) -> Path:
        class Writer(gguf.GGUFWriter):
            def add_key_value(self, key: str, val: Any, *rest: Any, **more: Any) -> None:
                value = keys.get(key, val)
                if value is not None:
                    super().add_key_value(key, value, *rest, **more)

            def add_tensor(self, name: str, tensor: Array, **more: Any) -> None:
                made = tensors.get(name, tensor)
                if isinstance(made, tuple):
                    made, more["raw_dtype"] = made
                if made is not None:
                    super().add_tensor(name, made, **more)

        monkeypatch.setattr(make_gguf.gguf, "GGUFWriter", Writer)
        return write_model(tmp_path / "m.gguf", **TINY | options)

    return write


# What to write, and words of the error.
KEYS: list[tuple[dict[str, Any], str]] = [
    ({"llama.attention.head_count": 3, "llama.attention.head_count_kv": 2}, "3 attention heads cannot share 2 KV"),
    ({"llama.attention.head_count_kv": 0}, "llama.attention.head_count_kv is 0, outside 1"),
    ({"llama.attention.head_count_kv": 4}, "2 attention heads cannot share 4"),
    ({"llama.attention.head_count": 0}, "llama.attention.head_count is 0"),
    ({"llama.attention.key_length": 0, "llama.attention.value_length": 0}, "key_length is 0, outside"),
    ({"llama.attention.key_length": 4096, "llama.attention.value_length": 4096}, "1024"),
    ({"llama.attention.value_length": 8}, "blk.0.attn_v.weight has shape [16, 32], but the metadata asks for [8, 32]"),
    (
        {"llama.attention.head_count": 4096, "llama.attention.key_length": 512, "llama.attention.value_length": 512},
        "4096 heads of 512 values are more than a model has",
    ),
    ({"llama.feed_forward_length": 1 << 21}, "llama.feed_forward_length is 2097152"),
    ({"llama.attention.key_length": 24, "llama.attention.value_length": 24}, "blk.0.attn_q.weight has shape [32, 32]"),
    ({"llama.rope.dimension_count": 0}, "llama.rope.dimension_count is 0"),
    ({"llama.rope.dimension_count": 18}, "llama.rope.dimension_count is 18, not an even number from 2 to 16"),
    ({"llama.rope.dimension_count": 5}, "dimension_count is 5, not an even number from 2 to 16"),
    ({"llama.rope.freq_base": 1.0}, "base 1.0"),
    ({"llama.rope.freq_base": 1e38}, "llama.rope.freq_base"),
    ({"llama.rope.freq_base": math.inf}, "llama.rope.freq_base"),
    ({"llama.embedding_length": 64}, "token_embd.weight has shape [320, 32], but the metadata asks for [320, 64]"),
    ({"llama.feed_forward_length": 64}, "blk.0.ffn_gate.weight has shape [48, 32]"),
    ({"llama.block_count": 3}, "no tensor blk.2.attn_q.weight"),
    ({"llama.block_count": 0}, "llama.block_count is 0"),
    ({"llama.block_count": 4000000000}, "llama.block_count is 4000000000"),
    ({"llama.context_length": 0}, "llama.context_length is 0"),
    ({"llama.context_length": None}, "no key llama.context_length"),
    ({"llama.attention.layer_norm_rms_epsilon": None}, "no key llama.attention.layer_norm_rms_epsilon"),
    ({"llama.attention.layer_norm_rms_epsilon": -1.0}, "layer_norm_rms_epsilon is -1.0"),
    ({"llama.attention.layer_norm_rms_epsilon": math.nan}, "layer_norm_rms_epsilon must be finite"),
    ({"tokenizer.ggml.tokens": ["a"] * 319}, "token_embd.weight has 320 rows for 319 tokens"),
    ({"general.architecture": None}, "general.architecture"),
]
SCALINGS: list[tuple[tuple[str, float], str]] = [
    (("rope.scaling.factor", -2.0), "llama.rope.scaling.factor is -2.0"),
    (("rope.scaling.factor", 1e-38), "llama.rope.scaling.factor"),
    (("rope.scale_linear", 1e-38), "llama.rope.scale_linear"),
    (("rope.scaling.attn_factor", 1e38), "llama.rope.scaling.attn_factor"),
    (("rope.scaling.yarn_beta_fast", 1e38), "llama.rope.scaling.yarn_beta_fast"),
    (("rope.scaling.yarn_beta_slow", 0.0), "llama.rope.scaling.yarn_beta_slow is 0.0"),
]
zeros = np.zeros
TENSORS: list[tuple[dict[str, Any], type[EdgeLLMError], str]] = [
    ({"blk.1.ffn_down.weight": None}, ModelFileError, "no tensor blk.1.ffn_down.weight"),
    ({"output_norm.weight": None}, ModelFileError, "no tensor output_norm.weight"),
    ({"token_embd.weight": None}, ModelFileError, "no token_embd.weight"),
    ({"token_embd.weight": zeros(320, "f4")}, ModelFileError, "no token_embd.weight matrix"),
    ({"blk.0.ffn_down.weight": zeros((48, 32), "f4")}, ModelFileError, "blk.0.ffn_down.weight has shape [48, 32]"),
    ({"blk.0.attn_k.weight": zeros((16, 2, 16), "f4")}, ModelFileError, "blk.0.attn_k.weight has shape [16, 2, 16]"),
    ({"blk.1.attn_norm.weight": zeros(16, "f4")}, ModelFileError, "blk.1.attn_norm.weight has shape [16]"),
    (
        {"blk.1.ffn_norm.weight": (zeros(34, "u1"), gguf.GGMLQuantizationType.Q8_0)},
        UnsupportedModelError,
        "blk.1.ffn_norm.weight has type Q8_0",
    ),
    (
        {"blk.1.attn_v.weight": (zeros((16, 32), "i4"), gguf.GGMLQuantizationType.I32)},
        UnsupportedModelError,
        "blk.1.attn_v.weight has type I32; `edgellm quantize` writes",
    ),
    ({"rope_freqs.weight": zeros(8, "f4")}, ModelFileError, "rope_freqs.weight has values that are not positive"),
    ({"rope_freqs.weight": np.ones(7, "f4")}, ModelFileError, "rope_freqs.weight has shape [7]"),
]


def refused(path: Path, kind: type[EdgeLLMError], words: str) -> None:
    """Opening says `words` in one line that names the file."""
    with GGUFFile.open(path) as file, pytest.raises(kind) as error:
        describe(file)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(("keys", "words"), KEYS, ids=[words for _, words in KEYS])
def test_metadata_that_cannot_be(altered: Callable[..., Path], keys: dict[str, Any], words: str) -> None:
    refused(altered(keys, {}), ModelFileError, words)


@pytest.mark.parametrize(("number", "words"), SCALINGS, ids=[words for _, words in SCALINGS])
def test_rope_numbers_that_cannot_be(model_file: ModelFile, number: tuple[str, float], words: str) -> None:
    scaling = None if "factor" in number[0] or "linear" in number[0] else "yarn"
    refused(model_file(**TINY, rope_scaling=scaling, metadata=(number,)), ModelFileError, words)


@pytest.mark.parametrize(("tensors", "kind", "words"), TENSORS, ids=[words for *_, words in TENSORS])
def test_tensors_that_cannot_be(
    altered: Callable[..., Path], tensors: dict[str, Any], kind: type[EdgeLLMError], words: str
) -> None:
    scaling = "llama3" if "rope_freqs.weight" in tensors else None
    refused(altered({}, tensors, rope_scaling=scaling), kind, words)


def test_tensors_with_no_place_are_named(altered: Callable[..., Path]) -> None:
    refused(altered({"llama.block_count": 1}, {}), UnsupportedModelError, "tensors blk.1.attn_k.weight and 8 more")


def test_mixtures_of_experts_and_unknown_scalings_are_refused(altered: Callable[..., Path]) -> None:
    moe = altered({"llama.vocab_size": None}, {}, metadata=(("expert_count", 8.0),))
    refused(moe, ModelFileError, "llama.expert_count must be an integer")
    dynamic = altered({"llama.rope.scaling.type": "dynamic"}, {}, rope_scaling="linear")
    refused(dynamic, UnsupportedModelError, "rope scaling dynamic is not supported, only none, linear, yarn and")


def write_header(path: Path, architecture: str, keys: dict[str, Any]) -> Path:
    """A file with keys and without tensors."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in keys.items():
        writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("vocab_size", 320, ""),
        ("expert_count", 8, ""),
        ("ssm.conv_kernel", 4, " with recurrent layers of its own"),
        ("attention.causal", False, " with bidirectional attention"),
    ],
)
def test_other_architectures_are_refused_before_their_tokenizer(
    tmp_path: Path, key: str, value: int, what: str
) -> None:
    path = write_header(tmp_path / "m.gguf", "plamo2", {f"plamo2.{key}": value, "tokenizer.ggml.model": "t5"})
    with pytest.raises(UnsupportedModelError) as error:
        Model.open(path, threads=1)
    assert f"{path}: architecture plamo2{what} is not supported; edgellm runs" in str(error.value)


def test_the_part_of_a_model_for_images_is_told_apart(tmp_path: Path) -> None:
    path = write_header(tmp_path / "mmproj.gguf", "clip", {"clip.has_vision_encoder": True})
    with pytest.raises(
        UnsupportedModelError, match="reads images or sound, not a model; open the file of the model itself"
    ):
        Model.open(path, threads=1)


SHAPES: dict[str, dict[str, Any]] = {
    "no multiple of a vector": {"width": 30, "heads": 3, "head_dim": 10, "ffn": 50},
    "wider heads than the model": {"width": 16, "heads": 4, "kv_heads": 4, "head_dim": 24},
    "many heads to one": {"heads": 7, "head_dim": 2},
    "narrow": {"width": 1, "heads": 1, "head_dim": 2, "ffn": 1},
    "untied": {"tied": False, "kv_heads": 2},
    "Q8_0": {"types": "Q8_0", "head_dim": 32, "ffn": 96},
    "mixed": {"types": {"": "Q8_0", "attn_v": "F16", "ffn_up": "F32", "token_embd": "BF16"}, "head_dim": 32, "ffn": 96},
}


def distance(path: Path, arch: str | None = None, kv_type: str = "f32") -> float:
    """Mean KL divergence of 100 positions' logits from the float64 truth, computed as `arch` or the file's own."""
    truth = Reference(path)
    truth.arch = arch or truth.arch
    with Model.open(path, threads=2, kv_type=kv_type) as model:
        return divergence(truth.logits(IDS), model.logits(IDS))


@pytest.mark.parametrize("shape", SHAPES)
def test_odd_shapes_come_out_right(tmp_path: Path, shape: str) -> None:
    path = write_model(tmp_path / "m.gguf", **TINY | SHAPES[shape])
    rounding = 5e-3 if "Q8_0" in str(SHAPES[shape]) else 1e-9  # of quantized activations; a wrong model is near 1
    assert distance(path) < rounding


def test_heads_may_turn_in_part(altered: Callable[..., Path]) -> None:
    assert distance(altered({"llama.rope.dimension_count": 6}, {})) < 1e-9


@pytest.mark.parametrize("dims", [16, 6])
def test_rope_type_neox(altered: Callable[..., Path], dims: int) -> None:
    path = altered({"qwen2.rope.dimension_count": dims}, {}, arch="qwen2", rope_scaling="yarn")
    assert distance(path) < 1e-9
    assert distance(path, arch="llama") > 1e-3, "the layouts would be the same"
