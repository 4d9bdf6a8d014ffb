"""Draft heads of EAGLE-3: both published layouts become the files that llama.cpp's converter makes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import converters
from converters import convert
from edgellm import EdgeLLMError
from edgellm.gguf import GGUFFile
from support.eagle3_heads import HEADS, TARGET, Head, Reference, write_head
from support.eagle3_llamacpp import HeadJob, head_results
from support.golden_cases import CONVERTED_HEADS, facts
from support.llama_cpp_child import ask_llama_cpp
from support.make_checkpoint import write_checkpoint

ConvertedHead = Callable[[str], tuple[Path, Path, Path, Path]]
TOKENS = [1, 17, 300, 4, 250, 99, 77, 5]


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> ConvertedHead:
    """`converted(name)`: the folders of a target and of a head of HEADS, and their files with F16 or F32 weights."""
    root = tmp_path_factory.mktemp("heads")
    target = write_checkpoint(root / "target", **TARGET)
    convert(target, root / "target.gguf", "F16", tensor_types=[".*=F32"])
    made: dict[str, tuple[Path, Path, Path, Path]] = {}

    def get(name: str) -> tuple[Path, Path, Path, Path]:
        if name not in made:
            folder, file = write_head(root / name, HEADS[name]), root / f"{name}.gguf"
            convert(folder, file, "F16", target=target, tensor_types=[".*=F32"])
            made[name] = target, folder, root / "target.gguf", file
        return made[name]

    return get


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("is_file", [False, True])
def test_equals_llama_cpp(name: str, is_file: bool, converted: ConvertedHead, tmp_path: Path) -> None:
    target, _, target_file, _ = converted(name)
    folder, out = write_head(tmp_path / "checkpoint", HEADS[name]), tmp_path / "out.gguf"
    convert(folder, out, "Q8_0", target=target_file if is_file else target)
    golden = json.loads((CONVERTED_HEADS / f"{name}.json").read_text(encoding="utf-8"))
    made = json.loads(json.dumps(facts(out)))
    assert list(made["metadata"].items()) == list(golden["metadata"].items())
    assert list(made["tensors"].items()) == list(golden["tensors"].items())


@pytest.mark.parametrize("name", HEADS)
def test_computes_in_llama_cpp_what_the_checkpoint_does(name: str, converted: ConvertedHead) -> None:
    target, folder, target_file, file = converted(name)
    head = HEADS[name]
    layers = list(head.taps or (2, 4, 5))
    found = ask_llama_cpp(head_results, HeadJob(str(target_file), str(file), layers, TOKENS))
    reference = Reference(folder, head, load_file(target / "model.safetensors"))
    features = reference.encode(found.inputs.astype(np.float64))[:-1]
    np.testing.assert_allclose(found.features, features, rtol=1e-4, atol=1e-4)
    expected = reference.run(TOKENS[1:], found.features.astype(np.float64))
    np.testing.assert_allclose(found.states, expected.states, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.logits[:, reference.ids], expected.logits, rtol=1e-3, atol=1e-3)
    assert np.isneginf(np.delete(found.logits, reference.ids, axis=1)).all()


def test_keys_that_llama_cpp_does_not_have(converted: ConvertedHead, tmp_path: Path) -> None:
    target, *_ = converted("midlayer")
    nested = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 4, 8]}}
    folder, out = write_head(tmp_path / "head", Head(norm_output=True), nested), tmp_path / "out.gguf"
    convert(folder, out, "F16", target=target)
    with GGUFFile.open(out) as file:
        assert file.get_bool("eagle3.norm_output")
        assert file.get_integers("eagle3.target_layers", 3) == (1, 4, 8)


def test_quantize_keeps_the_ids_of_tokens(converted: ConvertedHead, tmp_path: Path) -> None:
    *_, file = converted("midlayer")
    converters.quantize(file, tmp_path / "out.gguf", "Q8_0")
    before, after = facts(file)["tensors"], facts(tmp_path / "out.gguf")["tensors"]
    assert after["d2t"] == before["d2t"]
    assert after["d2t"][0] == "I64"
    assert after["fc.weight"][0] == "Q8_0"


FLAWS = {
    "another class": (
        {"architectures": ["Eagle3DeepseekV2ForCausalLM"]},
        {},
        "DeepseekV2ForCausalLM are not supp",
    ),
    "layers": ({"num_hidden_layers": 2}, {}, "several layers"),
    "a norm of each tap": ({"fc_norm": True}, {}, "fc_norm"),
    "another activation": ({"hidden_act": "gelu"}, {}, "hidden_act gelu is not supported for eagle3, only silu"),
    "half a rotation": ({"partial_rotary_factor": 0.5}, {}, "partial_rotary_factor"),
    "experts": ({"num_local_experts": 8}, {}, "experts (num_local_experts) are not supported"),
    "no output matrix for some tokens": ({}, {"lm_head.weight": None}, "a tensor d2t without a tensor output.weight"),
    "unordered taps": ({"eagle_aux_hidden_state_layer_ids": [4, 2, 5]}, {}, "are [4, 2, 5], not 3 numbers from 1 to 8"),
    "the embedding": ({"eagle_aux_hidden_state_layer_ids": [0, 2, 5]}, {}, "not 3 numbers from 1 to 8"),
    "no such layer": ({"eagle_aux_hidden_state_layer_ids": [2, 4, 9]}, {}, "not 3 numbers from 1 to 8"),
    "half a layer": ({"eagle_aux_hidden_state_layer_ids": [2, 4.5, 5]}, {}, "are [2, 4.5, 5], not 3 numbers"),
    "one layer": ({"eagle_aux_hidden_state_layer_ids": 2}, {}, "is 2, not a list of numbers"),
    "two taps": ({"eagle_aux_hidden_state_layer_ids": [2, 4]}, {}, "eagle_aux_hidden_state_layer_ids"),
    "four taps": ({"eagle_aux_hidden_state_layer_ids": [2, 4, 5, 8]}, {}, "eagle_aux_hidden_state_layer_ids"),
    "tokens of another model": ({"vocab_size": 321}, {}, "321 tokens, and the target has 320"),
    "a wider target": ({"target_hidden_size": 128}, {}, "target_hidden_size is 128, and the target has 64"),
    "ids beyond the tokens": ({}, {"d2t": np.full(96, 300)}, "tensor d2t does not give different ids of 320 tokens"),
    "an id twice": ({}, {"d2t": -np.arange(96)}, "tensor d2t does not give different ids"),
    "floats as ids": ({}, {"d2t": np.zeros(96, np.float32)}, "tensor d2t is not 96 numbers of I64"),
    "no ids": ({}, {"d2t": None}, "draft_vocab_size is 96 of 320 tokens, and no tensor d2t says which"),
    "an unknown tensor": (
        {},
        {"midlayer.self_attn.q_norm.weight": np.ones(16, np.float32)},
        "q_norm.weight has no place",
    ),
    "a tensor twice": ({}, {"layers.0.hidden_norm.weight": np.ones(64, np.float32)}, "hidden_norm.weight has no place"),
    "a missing tensor": ({}, {"fc.weight": None}, "no tensor for fc.weight"),
    "another shape": (
        {},
        {"fc.weight": np.ones((64, 128), np.float32)},
        "has shape [64, 128], not [64, 192]",
    ),
    "no embedding of its width": ({"hidden_size": 48}, {}, "has shape"),
}
"""Keys of config.json, tensors, and a part of the refusal."""


@pytest.mark.parametrize("flaw", FLAWS)
def test_refusals(flaw: str, converted: ConvertedHead, tmp_path: Path) -> None:
    target, *_ = converted("midlayer")
    config, tensors, reason = FLAWS[flaw]
    folder = write_head(tmp_path / "head", Head(), config, **tensors)
    _refused(folder, tmp_path, reason, target=target)


def test_a_head_may_share_the_output_matrix_of_its_target(converted: ConvertedHead, tmp_path: Path) -> None:
    target, *_ = converted("midlayer")
    head = Head(draft_vocab=TARGET["vocab"])
    convert(write_head(tmp_path / "head", head, **{"lm_head.weight": None}), tmp_path / "out.gguf", target=target)
    with GGUFFile.open(tmp_path / "out.gguf") as file:
        assert not file.tensors.keys() & {"output.weight", "token_embd.weight", "d2t"}


def test_a_narrower_head_needs_an_embedding_of_its_own(converted: ConvertedHead, tmp_path: Path) -> None:
    target, *_ = converted("midlayer")
    folder = write_head(tmp_path / "head", Head(width=48))
    _refused(folder, tmp_path, "has no tensor token_embd.weight", target=target)


def test_the_default_layers_need_a_deep_target(tmp_path: Path) -> None:
    target = write_checkpoint(tmp_path / "target", **TARGET | {"layers": 4})
    _refused(write_head(tmp_path / "head", Head()), tmp_path, "are [2, 2, 1]", target=target)


def test_options_for_the_other_kind(converted: ConvertedHead, tmp_path: Path) -> None:
    target, folder, *_ = converted("midlayer")
    _refused(folder, tmp_path, "name that with --target")
    _refused(target, tmp_path, "--target is for draft heads", target=target)
    _refused(folder, tmp_path, "is a draft head; leave it out", target=target, gptq=tmp_path / "text")
    _refused(folder, tmp_path, "has no .safetensors file", target=tmp_path)
    _refused(folder, tmp_path, "the name of the model is empty", target="")


def _refused(folder: Path, out: Path, reason: str, **options: Any) -> None:
    with pytest.raises(EdgeLLMError) as error:
        convert(folder, out / "out.gguf", "F16", **options)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(out.glob("*.gguf*"))
