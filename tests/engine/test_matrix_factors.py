"""Files whose matrices have factors in tensors of their own, as converted NVFP4 has them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm import Model
from edgellm.arch import describe
from edgellm.gguf import GGUFFile
from support.family_file import attentions
from support.gemma_families import gemma4_keys, gemma4_shapes
from support.gemma_files import write_shapes
from support.model_file import ModelFile
from support.oracle import llama_cpp_logits
from support.reference import divergence

IDS = [1, *map(int, np.random.default_rng(4).integers(3, 320, 95))]
MODELS: dict[str, dict[str, Any]] = {
    "dense": {},
    "experts": {"arch": "qwen3moe", "ffn": 256, "metadata": (("expert_feed_forward_length", 256),)},
    "DeltaNet": {"arch": "qwen35"},
}


def logits_of(path: Path, chunk: int | None = None, threads: int = 2) -> NDArray[np.float32]:
    with Model.open(path, threads=threads, ctx=256, kv_type="f32") as model:
        logits: NDArray[np.float32] = model.logits(IDS, chunk=chunk)
    return logits


FILES = [(model, "F32") for model in MODELS] + [("dense", "NVFP4"), ("experts", "NVFP4")]


@pytest.mark.parametrize(("model", "types"), FILES)
def test_factors_are_those_of_llama_cpp(model_file: ModelFile, model: str, types: str) -> None:
    path = model_file(types=types, factors=True, **MODELS[model])
    theirs = llama_cpp_logits(path, IDS, kv_type="f32")
    distance = divergence(theirs, logits_of(path))
    print(f"\n{model:8} {types:6} {distance:.1e}")
    # Both round the activations of NVFP4 matmuls to 8 bits, but not the scales of these to the same.
    assert distance < {"F32": 1e-6, "NVFP4": 1e-2}[types]


@pytest.mark.parametrize(("model", "types"), FILES)
def test_chunks_and_threads_change_no_bit(model_file: ModelFile, model: str, types: str) -> None:
    path = model_file(types=types, factors=True, **MODELS[model])
    whole = logits_of(path)
    for chunk, threads in ((1, 1), (7, 3), (64, 1)):
        assert np.array_equal(logits_of(path, chunk, threads), whole)


def test_layers_that_read_the_keys_of_others_may_have_factors_of_matrices_they_do_not_use(tmp_path: Path) -> None:
    """Layer 3 of this Gemma 4 reads the keys and values of layer 2, and has matrices of its own besides."""
    names = [f"blk.3.attn_{x}.{kind}" for x in "qkv" for kind in ("scale", "input_scale")]
    shapes, values = gemma4_shapes() | dict.fromkeys(names, (1,)), {"rope_freqs.weight": 1.0}
    path = write_shapes(tmp_path / "m.gguf", "gemma4", gemma4_keys(), shapes, values)
    with GGUFFile.open(path) as file:
        reader = attentions(describe(file))[3]
        assert reader.kv_layer == 2 and reader.q.factor and reader.k is None
        del reader
