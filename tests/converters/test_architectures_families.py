"""Checkpoints of the families: what is written of them, defaults, and damaged configurations."""

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from edgellm.errors import EdgeLLMError, EdgeLLMWarning, ModelFileError, UnsupportedModelError
from support.checkpoint_numbers import fp8_values, scale_shapes, scale_to_fp8
from support.described_checkpoint import Described, with_config
from support.families import CASES
from support.families.references import load_reference
from support.make_checkpoint import Stored, write_safetensors


def test_windows_are_written_where_gguf_implies_others(described: Described) -> None:
    plain, _ = described("gemma3_1b")
    assert "gemma3.attention.sliding_window_pattern" not in plain
    every_second = ["sliding_attention", "full_attention"] * 4
    metadata, _ = described("gemma3_1b", layer_types=every_second)
    assert metadata["gemma3.attention.sliding_window_pattern"].value == [i % 2 == 0 for i in range(7)]
    without, _ = described("gemma3_1b", sliding_window_pattern=1)
    assert not any("sliding_window" in key for key in without)


def test_layers_for_multi_token_prediction_may_have_been_left_out(tmp_path: Path) -> None:
    """As transformers, and tools that quantize, save such a checkpoint: config.json still counts them."""
    folder = rewritten("glm4_5_air", tmp_path / "in", lambda name: None if ".layers.3." in name else name)
    metadata, sources = with_config(folder, CASES["glm4_5_air"].config)
    found = {key.removeprefix("glm4moe."): value.value for key, value in metadata.items()}
    assert (found["block_count"], found["nextn_predict_layers"], found["leading_dense_block_count"]) == (3, 0, 1)
    assert not any(source.name.startswith("blk.3.") for source in sources)


def test_the_first_layers_of_cohere_have_a_pattern_of_their_own(described: Described) -> None:
    """The pattern of the others begins behind them."""
    metadata, _ = described("cohere2_moe", layer_types=..., mlp_layer_types=...)
    windowed = metadata["cohere2moe.attention.sliding_window_pattern"].value
    assert windowed == [False, True, True, True, False]


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


def test_kimi_linear_as_newer_transformers_save_it(described: Described, tmp_path: Path) -> None:
    wanted, sources = described("kimi_linear")
    dense = re.compile(r"\.mlp\.(gate|up|down)_proj")
    new = rewritten("kimi_linear", tmp_path / "new", lambda name: dense.sub(r".block_sparse_moe.\1_proj", name))
    config = dict(CASES["kimi_linear"].config)
    linear = config.pop("linear_attn_config")
    is_full = [i in linear["full_attn_layers"] for i in range(1, 6)]
    config |= {"layer_types": ["full_attention" if each else "linear_attention" for each in is_full]}
    config |= {"linear_head_dim": 32, "linear_num_heads": 4, "linear_conv_kernel_dim": 4}
    found, others = with_config(new, config)
    assert {key: found[key] for key in found if "general" not in key} == {
        key: value for key, value in wanted.items() if "general" not in key
    }
    assert {(each.name, each.shape) for each in others} == {(each.name, each.shape) for each in sources}


def test_mamba2_of_the_package_that_published_it(folders: Callable[[str], Path], tmp_path: Path) -> None:
    """The file is that of the checkpoint in the names of transformers; the vocabulary is padded to 16 rows."""
    config = CASES["mamba2"].config
    wanted, sources = with_config(folders("mamba2"), config)
    sizes = {"d_state": 32, "headdim": 16, "ngroups": 1}
    own = {"d_model": 64, "n_layer": 3, "ssm_cfg": {"layer": "Mamba2", **sizes}, "attn_layer_idx": [], "rms_norm": True}
    own |= {"vocab_size": config["vocab_size"], "pad_vocab_size_multiple": 1, "tie_embeddings": True}
    old = rewritten("mamba2", tmp_path / "old", lambda name: name.replace("embeddings", "embedding"))
    found, others = with_config(old, own)
    assert {key: found[key] for key in found if key.startswith("mamba2.")} == {
        key: value for key, value in wanted.items() if key.startswith("mamba2.")
    }
    assert {(each.name, each.shape) for each in others} == {(each.name, each.shape) for each in sources}
    with pytest.raises(ModelFileError, match=r"embedding.weight has shape \[271, 64\], not \[272, 64\]"):
        with_config(old, {**own, "pad_vocab_size_multiple": 16})
    with pytest.raises(ModelFileError, match=r"not \[.*\] as config.json asks"):  # a layer without a kind is Mamba-1
        with_config(old, {**own, "ssm_cfg": {}})
    for changes in (
        {"attn_layer_idx": [1]},
        {"d_intermediate": 128},
        {"rms_norm": False},
        {"ssm_cfg": own["ssm_cfg"] | {"norm_before_gate": True}},
        {"ssm_cfg": own["ssm_cfg"] | {"dt_limit": [0.0, 0.1]}},
        {"ssm_cfg": own["ssm_cfg"] | {"layer": "Mamba3"}},
    ):
        with pytest.raises(UnsupportedModelError, match="not supported"):
            with_config(old, own | changes)


@pytest.mark.parametrize("of_layers", [{}, {"layer": "Mamba1", "dt_rank": "auto"}, {"dt_rank": 5, "d_state": 16}])
def test_mamba1_of_the_package_that_published_it(
    folders: Callable[[str], Path], tmp_path: Path, of_layers: dict[str, Any]
) -> None:
    config = CASES["mamba1"].config
    wanted, sources = with_config(folders("mamba1"), config)
    own = {"d_model": 72, "n_layer": 3, "ssm_cfg": of_layers, "rms_norm": True, "pad_vocab_size_multiple": 1}
    old = rewritten("mamba1", tmp_path / "old", lambda name: name.replace("embeddings", "embedding"))
    found, others = with_config(old, own | {"vocab_size": config["vocab_size"]})
    assert {key: found[key] for key in found if key.startswith("mamba.")} == {
        key: value for key, value in wanted.items() if key.startswith("mamba.")
    }
    assert {(each.name, each.shape) for each in others} == {(each.name, each.shape) for each in sources}


def test_falcon_mamba_has_a_key_for_the_epsilon_of_the_mixer_where_it_is_another(described: Described) -> None:
    key = "mamba.ssm.dt_b_c_rms_epsilon"
    assert described("falcon_mamba")[0][key].value == 1e-2
    assert described("falcon_mamba", mixer_rms_eps=...)[0][key].value == 1e-6
    assert key not in described("falcon_mamba", mixer_rms_eps=1e-5)[0]


def test_codestral_mamba_has_a_prefix_before_all_names(folders: Callable[[str], Path], tmp_path: Path) -> None:
    wanted = {source.name: source for source in with_config(folders("mamba2"), CASES["mamba2"].config)[1]}
    new = rewritten("mamba2", tmp_path / "new", lambda name: f"model.{name}")
    found = {source.name: source for source in with_config(new, CASES["mamba2"].config)[1]}
    assert found.keys() == wanted.keys()
    for name, source in wanted.items():
        assert np.array_equal(found[name].rows(0, source.row_count), source.rows(0, source.row_count)), name


def test_falcon_h1_has_an_output_matrix_unless_embeddings_share_its_multiplier(described: Described) -> None:
    by_name = {source.name: source for source in described("falcon_h1")[1]}
    embedding, output = (by_name[name] for name in ("token_embd.weight", "output.weight"))
    rows = [source.rows(3, 9).view(np.float32) for source in (embedding, output)]
    assert np.array_equal(rows[0] / 2.0, rows[1] / 0.5)
    same = [source.name for source in described("falcon_h1", lm_head_multiplier=2.0)[1]]
    assert "output.weight" not in same and len(same) == len(by_name) - 1


def test_falcon_h1_without_multipliers_keeps_the_weights_as_they_are(described: Described) -> None:
    ones = {key: 1.0 for key in CASES["falcon_h1"].config if key.endswith("multiplier")}
    _, sources = described("falcon_h1", **ones, mlp_multipliers=..., ssm_multipliers=...)
    assert {source.name for source in sources if source.type == "F32"} == {f"blk.{i}.ssm_a" for i in range(3)}


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("mamba1", ["expand", "conv_kernel", "hidden_act", "use_bias", "layer_norm_epsilon", "time_step_rank"]),
        ("mamba1", ["state_size", "use_conv_bias", "tie_word_embeddings", "intermediate_size"]),
        ("mamba2", ["expand", "conv_kernel", "hidden_act", "use_bias", "layer_norm_epsilon"]),
        ("granite4_h_tiny", ["mamba_n_groups", "mamba_d_conv", "mamba_expand", "mamba_d_head", "num_local_experts"]),
        ("granite4_h_tiny", ["num_experts_per_tok", "position_embedding_type", "mamba_conv_bias", "attention_bias"]),
        ("falcon_h1", ["rms_norm_eps", "mamba_d_conv", "mamba_expand", "projectors_bias", "mamba_d_head"]),
    ],
)
def test_keys_of_mamba_have_the_defaults_of_transformers(described: Described, name: str, absent: list[str]) -> None:
    assert described(name, **dict.fromkeys(absent, ...))[0] == described(name)[0]


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
        ("deepseek_v3", "layers.2.mlp.gate.e_score", "blk.2.exp_probs_b.bias of GGUF, which other layers have"),
        ("ling2", "layers.1.mlp.gate.expert_bias", "blk.1.exp_probs_b.bias of GGUF, which other layers have"),
        ("glm4_5", "layers.4.self_attn.k_norm", "blk.4.attn_k_norm.weight of GGUF, which other layers have"),
        ("glm4_5", "self_attn.k_norm", "0 layers have a norm of k, and by use_qk_norm 5 should"),
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


def test_greedy_routers_have_no_groups_whatever_config_says(described: Described) -> None:
    for name, groups in (("deepseek_v2", (8, 3)), ("deepseek_v2_lite", (1, 1))):
        metadata, _ = described(name)
        found = (metadata[f"deepseek2.expert_{key}"].value for key in ("group_count", "group_used_count"))
        assert tuple(found) == groups
    metadata, _ = described("deepseek_v2_lite", n_group=4, topk_group=2)
    assert metadata["deepseek2.expert_group_count"].value == metadata["deepseek2.expert_group_used_count"].value == 1


def test_keys_and_values_of_latents_are_split_from_scaled_fp8(tmp_path: Path) -> None:
    """The published V3 has matrices of FP8 with a scale for each block."""
    name, heads, plain, value = "model.layers.0.self_attn.kv_b_proj.weight", 4, 24, 20
    drawn = load_reference("deepseek_v3").tensors
    matrix = np.random.default_rng(1).standard_normal(drawn[name].shape).astype(np.float32)
    data, scales = scale_to_fp8(matrix, "F8_E4M3", "block")
    stored = {key: Stored("BF16", each.shape, each.bfloat16(key)) for key, each in drawn.items() if key != name}
    stored |= {name: Stored("F8_E4M3", matrix.shape, data)}
    stored |= {f"{name}_scale_inv": Stored("F32", scale_shapes(matrix.shape)["block"], scales)}
    write_safetensors(tmp_path / "model.safetensors", stored)
    _, sources = with_config(tmp_path, CASES["deepseek_v3"].config)
    k, v = (next(each for each in sources if each.name == f"blk.0.attn_{kind}_b.weight") for kind in "kv")
    blocks = scales.view(np.float32).reshape(scale_shapes(matrix.shape)["block"])
    exact = fp8_values("F8_E4M3")[data].reshape(matrix.shape) * blocks.repeat(128, 0)[: len(matrix)]
    by_head = exact.reshape(heads, plain + value, -1)
    for made, wanted in ((k, by_head[:, :plain].transpose(0, 2, 1)), (v, by_head[:, plain:])):
        assert made.shape == wanted.shape and made.type == "F32"
        rows = np.concatenate([made.rows(i, min(i + 7, made.row_count)) for i in range(0, made.row_count, 7)])
        assert np.array_equal(rows.view(np.float32).reshape(wanted.shape), wanted)
