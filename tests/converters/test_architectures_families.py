"""Checkpoints of the families: variants that are refused by name, defaults, and damaged configurations."""

import copy
import json
import random
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from converters.tensors import Metadata, Source
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, ModelFileError, UnsupportedModelError
from support.families import CASES
from support.families.checkpoint import write_family_checkpoint
from support.families.references import load_reference
from support.make_checkpoint import Stored, write_safetensors

Described = Callable[..., tuple[Metadata, list[Source]]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The checkpoint of a case, written once."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            path = tmp_path_factory.mktemp(name) / "model"
            made[name] = write_family_checkpoint(path, CASES[name], load_reference(name).tensors)
        return made[name]

    return folder


@pytest.fixture
def described(folders: Callable[[str], Path]) -> Described:
    """What `describe` gives for a case whose text configuration is changed; a value of ... is taken out."""

    def of(name: str, **changes: Any) -> tuple[Metadata, list[Source]]:
        config = copy.deepcopy(CASES[name].config)
        text = config.get("text_config", config)
        text.update(changes)
        for key in [key for key, value in changes.items() if value is ...]:
            del text[key]
        return with_config(folders(name), config)

    return of


def with_config(folder: Path, config: dict[str, Any]) -> tuple[Metadata, list[Source]]:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeLLMWarning)
        return describe(Checkpoint.open(folder))


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("gemma2", {"query_pre_attn_scalar": 64}, "query_pre_attn_scalar 64 is not supported: GGUF files imply 32"),
        ("gemma2", {"attn_logit_softcapping": None}, "without attn_logit_softcapping is not supported"),
        ("gemma3_1b", {"attn_logit_softcapping": 5.0}, "attn_logit_softcapping is not supported"),
        ("gemma3_1b", {"use_bidirectional_attention": True}, "tokens that see the ones after them"),
        ("gemma3n", {"altup_num_inputs": 2}, "stream 0 of 2 is active"),
        ("granite", {"num_local_experts": 8}, "experts (num_local_experts) are not supported for this architecture"),
        ("gemma4_31b", {"num_experts": 8}, None),
        ("granitemoe", {"num_local_experts": 0}, "without experts (num_local_experts 0)"),
        ("ernie4_5_21b", {"use_bias": True}, "biases of projections (use_bias) are not supported"),
        ("ernie4_5_21b", {"moe_layer_end_index": 2}, "dense layers behind those with experts (moe_layer_end_index 2)"),
        ("ernie4_5_21b", {"moe_layer_end_index": -1}, None),
        ("hunyuan_moe", {"use_cla": True}, "keys and values of others (use_cla) are not supported"),
        ("hunyuan_moe", {"moe_layer_num_skipped": 1}, "without experts among others (moe_layer_num_skipped)"),
        ("hunyuan_moe", {"use_mixed_mlp_moe": False}, "without a shared one (use_mixed_mlp_moe false)"),
        ("hunyuan_moe", {"moe_topk": [3, 3, 2]}, "moe_topk that differs from layer to layer is not supported"),
        ("hunyuan_moe", {"moe_topk": 3, "num_experts": [8] * 3, "moe_intermediate_size": ...}, None),
        ("phimoe", {"router_jitter_noise": 0.02}, "router_jitter_noise other than 0.01 is not supported"),
        ("phimoe", {"num_experts_per_tok": 1}, "num_experts_per_tok other than 2 is not supported"),
        (
            "phimoe",
            {"rope_scaling": CASES["phimoe"].config["rope_scaling"] | {"long_mscale": 1.5}},
            "short_mscale other than long_mscale is not supported",
        ),
        ("gpt_oss", {"swiglu_limit": 10.0}, "swiglu_limit 10 is not supported, only 7"),
        ("gpt_oss", {"swiglu_alpha": 1.0}, "swiglu_alpha 1 is not supported, only 1.702"),
        ("gpt_oss", {"hidden_act": "gelu"}, "hidden_act gelu is not supported for gpt-oss, only silu and swish"),
        ("gpt_oss", {"swiglu_limit": ..., "rope_theta": ...}, None),
        ("gemma4_31b", {"use_bidirectional_attention": "all"}, "tokens that see the ones after them"),
        ("smollm3", {"use_sliding_window": True}, "sliding windows (use_sliding_window) are not supported"),
        ("smollm3", {"no_rope_layers": [1, 0, 1, 0, 1, 0, 1, 0]}, "no_rope_layers other than every 4th"),
        ("ministral3", {"rope_parameters": ...}, None),
        ("cohere2", {"rotary_pct": 0.5}, "whole heads rotated (rotary_pct)"),
        ("muse_glimmer", {"post_norm_eps": 1e-6}, "post_norm_eps other than 1e-08"),
        (
            "starcoder2",
            {"hidden_act": "relu"},
            "hidden_act relu is not supported for starcoder2, only gelu_pytorch_tanh",
        ),
        ("starcoder2", {"use_bias": False}, "StarCoder2 without biases (use_bias) is not supported"),
        ("granite", {"hidden_act": "gelu"}, "hidden_act gelu is not supported for granite, only silu and swish"),
        ("granite", {"partial_rotary_factor": 0.5}, "heads that are rotated in part"),
        ("phi4", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope scaling yarn is not supported"),
        ("olmo2", {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "differ from layer to layer"),
        (
            "ministral3",
            {"rope_parameters": {"rope_type": "yarn", "factor": 8.0, "mscale": 0.7, "mscale_all_dim": 1.0}},
            "GGUF has mscale 1 only",
        ),
    ],
)
def test_what_gguf_or_edgellm_cannot_express_is_refused_by_name(
    described: Described, name: str, changes: dict[str, Any], expected: str | None
) -> None:
    if expected is None:
        described(name, **changes)
        return
    with pytest.raises(UnsupportedModelError) as error:
        described(name, **changes)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("gemma4_e2b", {"num_kv_shared_layers": 6}, "num_kv_shared_layers is 6, not a whole number from 0 to 5"),
        ("gemma3n", {"activation_sparsity_pattern": [0.95]}, "activation_sparsity_pattern must have 24 numbers"),
        ("gemma3n", {"activation_sparsity_pattern": [1.0] * 24}, "activation_sparsity_pattern must have 24 numbers"),
        ("gemma3n", {"intermediate_size": [64, 64]}, "intermediate_size is [64, 64], not a whole number"),
        ("olmo3", {"layer_types": ["full_attention"]}, "layer_types must have sliding_attention or full_attention"),
        ("phi3_5_long", {"max_position_embeddings": "x"}, "max_position_embeddings is 'x'"),
        ("glm4", {"partial_rotary_factor": 1.5}, "partial_rotary_factor is 1.5"),
        ("gemma4_31b", {"enable_moe_block": True}, "has no num_experts"),
        ("gemma4_26b", {"top_k_experts": 9}, "top_k_experts is 9, and num_experts is 8"),
        ("gemma4_26b", {"enable_moe_block": False}, "has no place in this gemma4 model"),
        ("granitemoe", {"num_experts_per_tok": 9}, "9 experts compute each token, and num_local_experts is 8"),
        ("granitemoe", {"intermediate_size": 31}, "input_linear.weight has shape [8, 64, 64], not [8, 62, 64]"),
        ("granitemoe_shared", {"shared_intermediate_size": 47}, "has shape [96, 64], not [94, 64]"),
        ("granitemoe_shared", {"shared_intermediate_size": ...}, "has no place in this granitemoe model"),
        ("ernie4_5_21b", {"moe_layer_start_index": 5}, "moe_layer_start_index is 5, not a whole number from 0 to 4"),
        ("ernie4_5_21b", {"moe_layer_interval": 2}, "has no tensor for blk.2.ffn_gate.weight"),
        ("ernie4_5_21b", {"moe_num_shared_experts": 1}, "has shape [64, 64], not [64, 32]"),
        ("hunyuan_moe", {"moe_topk": 9}, "9 experts compute each token, and num_experts is 8"),
        ("hunyuan_moe", {"moe_intermediate_size": [16] * 3}, "has shape [64, 32], not [64, 16]"),
        ("hunyuan_moe", {"num_shared_expert": 2}, "has shape [64, 32], not [64, 64]"),
        ("gpt_oss", {"num_local_experts": 9}, "has shape [8, 96, 64], not [9, 96, 64]"),
        ("gpt_oss", {"layer_types": ["full_attention"]}, "layer_types must have sliding_attention or full_attention"),
        ("phimoe", {"lm_head_bias": False}, "tensor lm_head.bias has no place"),
        ("phimoe_long", {"lm_head_bias": True}, "has no tensor for output.bias"),
    ],
)
def test_contradictions(described: Described, name: str, changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ModelFileError) as error:
        described(name, **changes)
    assert expected in str(error.value)


def test_factors_of_longrope_are_as_many_as_rotated_pairs(described: Described) -> None:
    scaling = CASES["phi3_5_long"].config["rope_scaling"]
    short = scaling | {"long_factor": scaling["long_factor"][:-1]}
    with pytest.raises(ModelFileError, match=r"long_factor has \d+ factors for \d+ rotated pairs"):
        described("phi3_5_long", rope_scaling=short)


def test_windows_are_written_where_gguf_implies_others(described: Described) -> None:
    plain, _ = described("gemma3_1b")
    assert "gemma3.attention.sliding_window_pattern" not in plain
    every_second = ["sliding_attention", "full_attention"] * 4
    metadata, _ = described("gemma3_1b", layer_types=every_second)
    assert metadata["gemma3.attention.sliding_window_pattern"].value == [i % 2 == 0 for i in range(7)]
    without, _ = described("gemma3_1b", sliding_window_pattern=1)
    assert not any("sliding_window" in key for key in without)


def test_zeros_of_devstral_2_are_the_usual_yarn_without_temperature(described: Described) -> None:
    rope = CASES["ministral3"].config["text_config"]["rope_parameters"] | {
        "mscale_all_dim": 0.0,
        "llama_4_scaling_beta": 0.0,
    }
    metadata, _ = described("ministral3", rope_parameters=rope)
    found = {key.removeprefix("mistral3."): value.value for key, value in metadata.items()}
    assert found["rope.scaling.yarn_log_multiplier"] == found["attention.temperature_scale"] == 0
    assert "rope.scaling.attn_factor" not in found


def test_stablelm_before_transformers_had_it(folders: Callable[[str], Path], described: Described) -> None:
    wanted, _ = described("stablelm_1_6b")
    config = dict(CASES["stablelm_1_6b"].config)
    old = {"norm_eps": config.pop("layer_norm_eps"), "rope_pct": config.pop("partial_rotary_factor")}
    found, _ = with_config(folders("stablelm_1_6b"), config | old | {"architectures": ["StableLMEpochForCausalLM"]})
    assert found == wanted


def test_the_last_layer_of_gemma_4_sees_all_tokens(described: Described) -> None:
    kinds = ["sliding_attention", "sliding_attention", "full_attention"] * 2
    wanted = described("gemma4_31b", layer_types=kinds)[0]["gemma4.attention.sliding_window_pattern"].value
    last_too = described("gemma4_31b", layer_types=[*kinds[:-1], "sliding_attention"])[0]
    assert last_too["gemma4.attention.sliding_window_pattern"].value == wanted == [True, True, False] * 2


def test_a_text_model_needs_no_more_than_what_differs_from_the_defaults(described: Described) -> None:
    """As Gemma 3 4B is published: transformers knows the rest."""
    with pytest.raises(ModelFileError, match=r"embed_tokens.weight has shape \[271, 64\], not \[262208, 64\]"):
        described("gemma3_4b", vocab_size=...)
    with pytest.raises(ModelFileError, match=r"k_norm.weight has shape \[32\], not \[256\] as config.json asks"):
        described("gemma3_4b", head_dim=..., query_pre_attn_scalar=...)


def rewritten(name: str, folder: Path, rename: Callable[[str], str | None]) -> Path:
    """The checkpoint of a case with other names of tensors, without those that have none."""
    folder.mkdir()
    tensors = {rename(key): (key, tensor) for key, tensor in load_reference(name).tensors.items()}
    stored = {
        new: Stored("BF16", tensor.shape, tensor.bfloat16(old))
        for new, (old, tensor) in tensors.items()
        if new is not None
    }
    assert stored.keys() != load_reference(name).tensors.keys()
    write_safetensors(folder / "model.safetensors", stored)
    return folder


def test_the_names_of_newer_transformers_are_the_same_model(described: Described, tmp_path: Path) -> None:
    """Before 4.52 the text model of a larger one was language_model.model, as Gemma 3 is published."""
    wanted = {source.name: source for source in described("gemma3_4b")[1]}
    new = rewritten(
        "gemma3_4b",
        tmp_path / "new",
        lambda name: name.replace("language_model.model.", "model.language_model.").replace("vision_", "model.vision_"),
    )
    found = {source.name: source for source in with_config(new, CASES["gemma3_4b"].config)[1]}
    assert found.keys() == wanted.keys()
    for name, source in wanted.items():
        assert np.array_equal(found[name].rows(0, source.row_count), source.rows(0, source.row_count)), name


def test_the_vision_tower_is_left_out_in_one_line(folders: Callable[[str], Path]) -> None:
    (folders("gemma3_4b") / "config.json").write_text(json.dumps(CASES["gemma3_4b"].config), encoding="utf-8")
    with pytest.warns(EdgeLLMWarning, match="left out: images and sound, not needed to write text") as seen:
        describe(Checkpoint.open(folders("gemma3_4b")))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("name", "lost", "expected"),
    [
        ("gemma4_e2b", "layers.0.self_attn.v_proj", "no tensor for blk.0.attn_v.weight"),
        ("gemma3n", "altup_projections.1", "has 2 of 3 parts of altup_proj.weight"),
        ("stablelm_12b", "layers.0.self_attn.q_layernorm.norms.1.", "parts of blk.0.attn_q_norm.weight"),
        ("gemma3n", "altup_unembed_projections.[12]", "has 1 of 3 parts of altup_unembd_proj.weight"),
        ("gpt_oss", "layers.1.mlp.experts.gate_up_proj_bias", "no tensor for blk.1.ffn_gate_exps.bias"),
        ("gpt_oss", "layers.2.self_attn.sinks", "no tensor for blk.2.attn_sinks.weight"),
        ("apertus", "layers.1.mlp.act_fn.beta", "has no mlp.act_fn.beta in layer 1"),
        ("muse_glimmer", "layers.0.self_attn.gate_proj", "no tensor for blk.0.attn_gate.weight"),
    ],
)
def test_a_lost_tensor_is_named(tmp_path: Path, name: str, lost: str, expected: str) -> None:
    folder = rewritten(name, tmp_path / "in", lambda key: None if re.search(lost, key) else key)
    with pytest.raises(ModelFileError, match=expected):
        with_config(folder, CASES[name].config)


JUNK: list[Any] = ["x", -1, 0, [], {}, None, True, 1e300, 10**12, [1], {"a": 1}, [{}], 3, float("nan"), {"0": {"a": 3}}]


def keys_of(config: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in config.items():
        yield (*above, key)
        if isinstance(value, dict) and key != "vision_config":
            yield from keys_of(value, (*above, key))


@pytest.mark.parametrize("name", CASES)
def test_damaged_configurations_are_one_line(folders: Callable[[str], Path], name: str) -> None:
    drawn = random.Random(name)
    paths = [*keys_of(CASES[name].config), ("per_layer_config",), ("layer_types",), ("num_experts",)]
    for path in drawn.choices(paths, k=6):
        config = copy.deepcopy(CASES[name].config)
        place = config
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = drawn.choice(JUNK)
        try:
            with_config(folders(name), config)
        except EdgeLLMError as error:
            assert "\n" not in str(error)
