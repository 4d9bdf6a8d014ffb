"""The float64 reference against llama.cpp and golden logits; and the random models it is used on."""

import itertools
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from support.make_gguf import RECIPES
from support.model_file import ModelFile
from support.oracle import llama_cpp_greedy, llama_cpp_logits, llama_cpp_tokens
from support.reference import Reference, divergence, reference_logits

pytestmark = pytest.mark.slow

IDS = [1, *map(int, np.random.default_rng(1).integers(3, 320, 95))]

MODELS: dict[str, dict[str, Any]] = {
    "GQA": {},
    "MHA": {"kv_heads": 8},
    "MQA": {"heads": 4, "kv_heads": 1, "head_dim": 128},
    "untied": {"tied": False},
    "base 500000": {"rope_base": 500000.0},
    "linear": {"rope_scaling": "linear"},
    "llama3": {"rope_scaling": "llama3"},
    "factor alone": {"metadata": (("rope.scaling.factor", 2.0),)},
    "scale_linear": {"metadata": (("rope.scale_linear", 3.0),)},
    "yarn": {"rope_scaling": "yarn"},
    "yarn, factor below 1": {"rope_scaling": "yarn", "rope_factor": 0.5},
    "yarn, attention factor": {"rope_scaling": "yarn", "metadata": (("rope.scaling.attn_factor", 0.8),)},
    "biases": {"biases": True},
    "neox": {"arch": "qwen2"},
    "neox, yarn": {"arch": "qwen2", "rope_scaling": "yarn"},
    "head norms": {"arch": "qwen3"},
    "head norms, heads wider than the model": {"arch": "qwen3", "head_dim": 128, "rope_scaling": "yarn"},
}


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_equals_llama_cpp_on_f32_files(model_file: ModelFile, options: dict[str, Any]) -> None:
    path = model_file(types="F32", **options)
    truth, oracle = reference_logits(path, IDS), llama_cpp_logits(path, IDS, kv_type="f32")
    assert divergence(truth, oracle) < 1e-9
    assert np.abs(truth - oracle).max() < 1e-3


def test_each_rope_setting_changes_the_logits(model_file: ModelFile) -> None:
    settings = [options for options in MODELS.values() if "rope" in str(options) and "arch" not in options]
    logits = [reference_logits(model_file(types="F32", **options), IDS) for options in ({}, *settings)]
    for one, other in itertools.combinations(logits, 2):
        assert divergence(one, other) > 1e-4


@pytest.mark.parametrize("recipe", RECIPES)
def test_stays_near_llama_cpp_on_every_recipe(model_file: ModelFile, recipe: str) -> None:
    # llama.cpp rounds the activations to 8 bits, or to the type of the weights: hence the wide bound.
    path = model_file(types=recipe)
    assert divergence(reference_logits(path, IDS), llama_cpp_logits(path, IDS)) < 1e-2


def test_equals_the_golden_logits_of_a_trained_model(shared: Path) -> None:
    golden = np.load(shared / "models/stories260K/stories260K_golden_logits.npz")
    logits = reference_logits(shared / "models/stories260K/stories260K-f32.gguf", golden["ids"].tolist())
    assert np.abs(logits - golden["logits"]).max() < 1e-4


@pytest.mark.parametrize("recipe", RECIPES)
def test_random_weights_have_the_wanted_size(model_file: ModelFile, recipe: str) -> None:
    weights = Reference(model_file(types=recipe)).weights
    for stem, gain in (("attn_q", 1.5), ("attn_v", 1.0), ("ffn_gate", 1.0), ("ffn_down", 1.5)):
        matrix = weights[f"blk.1.{stem}.weight"]
        std = gain * matrix.shape[1] ** -0.5
        assert matrix.std() == pytest.approx(std, rel=0.05)
        assert abs(matrix.mean()) < 0.02 * std


@pytest.mark.parametrize("recipe", RECIPES)
def test_random_models_give_real_logits(model_file: ModelFile, recipe: str) -> None:
    logits = reference_logits(model_file(types=recipe), IDS)
    assert 4 < np.ptp(logits, axis=1).mean() < 16
    assert len(set(logits.argmax(axis=1))) > 20


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_vocabularies_tokenize_text(model_file: ModelFile, kind: str) -> None:
    path = model_file(types="Q8_0", tokenizer=kind)
    ids = llama_cpp_tokens(path, "time and the singing, é")
    pieces = gguf.GGUFReader(path).fields["tokenizer.ggml.tokens"].contents()
    spelled = {
        "llama": "▁time ▁and ▁the ▁ s ing ing , ▁ <0xC3> <0xA9>",
        "gpt2": "t i m e Ġand Ġthe Ġs ing ing , Ġ Ã ©",
    }
    assert " ".join(pieces[i] for i in ids) == spelled[kind]


def test_the_oracle_completes_text(shared: Path) -> None:
    folder = shared / "models/stories260K"
    prompt, golden = "Once upon a time", (folder / "golden.txt").read_text()
    text = llama_cpp_greedy(folder / "stories260K-f32.gguf", prompt, 60)
    assert golden.startswith(prompt + text)
    assert len(text) > 100


def test_divergence_of_known_distributions() -> None:
    truth, other = np.log([[0.5, 0.5], [0.25, 0.75]]), np.log([[0.25, 0.75], [0.25, 0.75]])
    assert divergence(truth, other + 3) == pytest.approx(np.log(4 / 3) / 4)
