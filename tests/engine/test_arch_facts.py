"""The facts of architectures: names as the gguf package has them, defaults as transformers has them."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import gguf
import pytest

from edgellm.arch.architectures import ARCHITECTURES
from edgellm.arch.blocks import NormKind
from edgellm.arch.facts import ArchitectureFacts, CheckpointClass
from edgellm.arch.tensor_names import EMBEDDING, OUTPUT

BY_ARCHITECTURE = pytest.mark.parametrize("facts", ARCHITECTURES.values(), ids=lambda facts: facts.name)
BY_CLASS = pytest.mark.parametrize(
    "checkpoint", [each for facts in ARCHITECTURES.values() for each in facts.checkpoints], ids=lambda each: each.name
)
OF_LLAMA = {
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
"""What the converter assumes where a class has no default of its own."""
SAME_TEXT_MODEL = {
    "LFM2ForCausalLM": "Lfm2ForCausalLM",
    "StableLMEpochForCausalLM": "StableLmForCausalLM",
    "PhiMoEForCausalLM": "PhimoeForCausalLM",
    "Ernie4_5_ForCausalLM": "Ernie4_5ForCausalLM",
    "Mistral3ForConditionalGeneration": "MistralForCausalLM",
}
"""Classes that transformers does not have or whose text model has a class of its own, and those of these models."""
NOT_IN_TRANSFORMERS = ("BailingMoeV2ForCausalLM",)
"""Classes whose code is published with their checkpoints alone."""
WITHOUT_CLASS = {"nemotron_h_moe"}
"""Architectures whose checkpoints have the class of another one; config.json says which it is."""
OLD_KEYS = {"norm_eps": "layer_norm_eps", "rope_pct": "partial_rotary_factor"}


@cache
def tensor_names(architecture: str) -> gguf.TensorNameMap | None:
    """The gguf package's names of an architecture; None for one that is newer than the package."""
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    return gguf.get_tensor_name_map(numbers[architecture], 1) if architecture in numbers else None


@BY_ARCHITECTURE
def test_tensors_have_the_names_of_the_gguf_package(facts: ArchitectureFacts) -> None:
    names = tensor_names(facts.name)
    if names is None:
        pytest.skip(f"the gguf package does not know {facts.name}")
    for tensor, prefix in [(each, "layers.0.") for each in facts.block_tensors] + [
        (each, "") for each in (EMBEDDING, facts.output_norm, *facts.model_tensors)
    ]:
        ours = f"blk.0.{tensor.gguf}" if prefix else tensor.gguf
        if ours.endswith(".scale"):  # the package names them after the weight beside them
            continue
        if tensor.hugging_face is not None:
            stem = tensor.hugging_face.removesuffix(".norms.*").replace(".*", "").removesuffix(".bias")
            spelled = (
                stem,
                stem.removesuffix("_bias"),
                stem.replace("dt_bias", "dt_proj"),
                stem.replace("mixer", "mlp"),
                f"{stem}.weight",  # Falcon-H1's norm, whose name in GGUF is the stem alone
            )
            theirs = {
                names.get_name(f"{root}{prefix}{each}") for each in spelled for root in ("model.", "backbone.", "")
            }
            assert ours.removesuffix(".bias").removesuffix(".weight") in theirs
        if tensor.meta is not None:
            assert names.get_name(f"{prefix}{tensor.meta.replace('.*', '')}") == ours
    has_output = names.get_name(f"{OUTPUT.meta}") is not None  # the package knows none of models that are always tied
    assert not has_output or names.get_name(f"{OUTPUT.hugging_face}") == OUTPUT.gguf


@BY_ARCHITECTURE
def test_biases_are_those_of_tensors_of_the_layer(facts: ArchitectureFacts) -> None:
    assert {*facts.biases, *facts.optional_biases} <= facts.tensors.keys()
    assert not {*facts.biases} & {*facts.optional_biases}
    norms = {stem for stem in facts.biases if len(facts.shapes[stem]) == 1}
    assert not norms or facts.norm_kind is NormKind.LAYER, "RMSNorm has no bias"
    by_flag = {stem for each in facts.checkpoints for stems in each.bias_keys.values() for stem in stems}
    assert by_flag <= {*facts.optional_biases}


def test_no_class_belongs_to_two_architectures() -> None:
    names = [each.name for facts in ARCHITECTURES.values() for each in facts.checkpoints]
    assert len(set(names)) == len(names)
    assert {facts.name for facts in ARCHITECTURES.values() if not facts.checkpoints} == WITHOUT_CLASS


@cache
def config_of(name: str) -> Mapping[str, Any]:
    """The configuration of a class of transformers with its defaults, with RoPE as older versions have it."""
    import transformers

    if name in NOT_IN_TRANSFORMERS:
        pytest.skip(f"transformers has no {name}")
    stem = SAME_TEXT_MODEL.get(name, name).removesuffix("ForCausalLM").removesuffix("ForConditionalGeneration")
    kind = next(k for k in (f"{stem}TextConfig", f"{stem}Config") if hasattr(transformers, k))
    values: dict[str, Any] = getattr(transformers, kind)().get_text_config().to_dict()
    rope = values.setdefault("rope_parameters", {})
    full, local = rope.get("full_attention", rope), rope.get("sliding_attention", {})
    values |= {"rope_local_base_freq": local.get("rope_theta"), "rope_theta": full.get("rope_theta")}
    values["partial_rotary_factor"] = full.get("partial_rotary_factor")
    own = values.get("per_layer_config") or {}
    values["global_head_dim"] = next(iter(own.values()))["head_dim"] if own else None
    return values


@BY_CLASS
def test_defaults_are_those_of_transformers(checkpoint: CheckpointClass) -> None:
    theirs = config_of(checkpoint.name)
    of_llama = {key: value for key, value in OF_LLAMA.items() if theirs.get(key) is not None}
    if "rope_parameters" in checkpoint.defaults:
        del of_llama["rope_theta"]
    ours: dict[str, Any] = {**of_llama, **checkpoint.defaults}
    for key, value in ours.items():
        if key == "rope_parameters":
            assert value.items() <= theirs[key].items()
        elif key in ("intermediate_size",):
            assert set(theirs[key] if isinstance(theirs[key], list) else [theirs[key]]) == {value}
        else:
            assert theirs.get(key, theirs.get(OLD_KEYS.get(key, ""))) == value, key
    # Where there is no default, the number of heads is that of config.json, which has it.
    if "num_key_value_heads" not in checkpoint.defaults and "num_attention_heads" in theirs:
        assert theirs["num_key_value_heads"] == theirs["num_attention_heads"]
    if "head_dim" not in checkpoint.defaults and "num_attention_heads" in theirs:
        assert theirs.get("head_dim") in (None, theirs["hidden_size"] // theirs["num_attention_heads"])


@BY_CLASS
def test_flags_are_those_of_transformers(checkpoint: CheckpointClass) -> None:
    theirs = config_of(checkpoint.name)
    assert checkpoint.bias_keys.keys() <= theirs.keys()
    if checkpoint.sliding_window == "by_flag":
        assert theirs["use_sliding_window"] is False
    if checkpoint.sliding_window == "always":
        assert "sliding_window" in theirs
        assert "use_sliding_window" not in theirs
    assert checkpoint.dual_rope == ("sliding_attention" in theirs["rope_parameters"])
