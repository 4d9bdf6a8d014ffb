"""What we make of a checkpoint equals what llama.cpp's own converter makes of it, byte for byte."""

import json
from pathlib import Path
from typing import Any

import pytest

from converters import convert
from support.archs import GREEDY
from support.beam_references import BEAM_REFERENCES
from support.families import CASES as FAMILIES
from support.families.files import convert_case
from support.golden_cases import CASES, CONVERTED_FAMILIES, GOLDEN, REFUSED_FAMILIES, facts, without_tokenizer

DIFFERENCES: dict[str, dict[str, Any]] = {
    # In Mistral 7B v0.1 a token sees 4096 of the 32768 tokens that its config.json allows. llama.cpp's converter leaves
    # that out, and llama.cpp computes no window; edgellm writes and computes it.
    "mistral": {"llama.attention.sliding_window": ["UINT32", 128]},
    # The key that llama.cpp's converter writes for YaRN's attention_factor is read by none of these architectures;
    # this one is, and multiplies the magnitude of 1 + 0.1 ln(factor) that they compute: 1.25 / (1 + 0.1 ln 4).
    "qwen2-yarn": {"qwen2.rope.scaling.attn_factor": ["FLOAT32", pytest.approx(1.25 / 1.1386294)]},
}
"""The keys that we write and llama.cpp's converter does not. No others differ, and no tensors."""


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.options is not None])
def test_equals_llama_cpp(name: str, tmp_path: Path) -> None:
    _compare(name, CASES[name].write(tmp_path), tmp_path)


def test_trained_model_equals_llama_cpp(shared: Path, tmp_path: Path) -> None:
    _compare("tale-13m", shared / "models" / "tale-13m", tmp_path)


def _compare(name: str, checkpoint: Path, folder: Path) -> None:
    convert(checkpoint, folder / "out.gguf", CASES[name].outtype)
    made = json.loads(json.dumps(facts(folder / "out.gguf")))
    golden = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    added = {key: made["metadata"].pop(key) for key in made["metadata"].keys() - golden["metadata"].keys()}
    assert added == DIFFERENCES.get(name, {})
    assert list(made["metadata"].items()) == list(golden["metadata"].items())
    assert list(made["tensors"].items()) == list(golden["tensors"].items())


def test_every_golden_file_is_compared() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} - {GREEDY.stem, BEAM_REFERENCES.stem} == CASES.keys()


FAMILY_DIFFERENCES: dict[str, dict[str, Any]] = {
    # Windows that llama.cpp's converter leaves out, and the layers that have them.
    "mistral_window": {"llama.attention.sliding_window": ["UINT32", 32]},
    "qwen2_window": {
        "qwen2.attention.sliding_window": ["UINT32", 32],
        "qwen2.attention.sliding_window_pattern": ["ARRAY/BOOL", [False, True, True]],
    },
    "qwen3_window": {
        "qwen3.attention.sliding_window": ["UINT32", 32],
        "qwen3.attention.sliding_window_pattern": ["ARRAY/BOOL", [False, True, True]],
    },
    "qwen3moe_window": {
        "qwen3moe.attention.sliding_window": ["UINT32", 40],
        "qwen3moe.attention.sliding_window_pattern": ["ARRAY/BOOL", [True, True, True]],
    },
    "starcoder2": {"starcoder2.attention.sliding_window": ["UINT32", 40]},
    # llama.cpp needs the key, which its converter writes only where config.json has `scoring_func`.
    "dots1": {"dots1.expert_gating_func": ["UINT32", 2]},
    "glm_4_7_flash": {"deepseek2.expert_gating_func": ["UINT32", 2]},
    # Falcon-Mamba's norms in the mixer have an epsilon of their own; llama.cpp has that of the other norms.
    "falcon_mamba": {"mamba.ssm.dt_b_c_rms_epsilon": ["FLOAT32", pytest.approx(1e-2)]},
    # The factor of mscale and mscale_all_dim in YaRN, which llama.cpp's converter writes for no such architecture.
    "llama_yarn": {"llama.rope.scaling.attn_factor": ["FLOAT32", pytest.approx(1.0539, abs=1e-4)]},
}
"""The keys of the families that we write and llama.cpp's converter does not. No others differ."""

# The factor of cosine and sine in LongRoPE: config.json gives it, and llama.cpp's converter has that of Phi-3.
_MAGNITUDE = {"phimoe.rope.scaling.attn_factor": ["FLOAT32", 1.25]}
# llama.cpp's converter reads this key through transformers, which drops it; the layers are listed as well.
_INTERVAL = {"qwen35moe.full_attention_interval": ["UINT32", 2]}
# llama.cpp's converter writes the width of experts for dense models.
_DENSE_WIDTH = ["UINT32", 80]
# llama.cpp's converter writes a number for each layer, also where all are equal.
_KV_HEADS = ["UINT32", 2]
OTHER_VALUES: dict[str, dict[str, Any]] = {
    "phimoe": _MAGNITUDE,
    "phimoe_long": _MAGNITUDE,
    "qwen3_5_moe": _INTERVAL,
    "granite4_h_micro": {"granitehybrid.feed_forward_length": _DENSE_WIDTH},
    "granite4_micro": {"granite.feed_forward_length": _DENSE_WIDTH, "granite.attention.head_count_kv": _KV_HEADS},
    # The attention has no RoPE, by `position_embedding_type`; llama.cpp's converter says that it has.
    "granite4_attention": {
        "granitemoe.attention.head_count_kv": _KV_HEADS,
        "granitemoe.rope.scaling.finetuned": ["BOOL", False],
    },
    "falcon_h1": {"general.size_label": ["STRING", "212K"]},  # with the output matrix
}
"""The keys of the families whose values we write otherwise."""

_SSM_SIZES = ("conv_kernel", "state_size", "group_count", "inner_size", "time_step_rank")
_NO_EXPERTS = ("expert_count", "expert_used_count")
LEFT_OUT = {
    "cohere2": {"cohere2.attention.layer_norm_rms_epsilon"},
    "granite4_attention": {f"granitemoe.ssm.{name}" for name in _SSM_SIZES},
    "granite4_h_micro": {f"granitehybrid.{name}" for name in _NO_EXPERTS},
    "granite4_micro": {f"granite.{name}" for name in (*_NO_EXPERTS, *(f"ssm.{name}" for name in _SSM_SIZES))},
    "laguna_m": {"laguna.attention.sliding_window"},
    "starcoder2": {"starcoder2.attention.layer_norm_rms_epsilon"},
    "starcoder2_15b": {"starcoder2.attention.layer_norm_rms_epsilon"},
}
"""The keys that llama.cpp's converter writes and we do not: `rms_norm_eps` of a config.json whose norms are others, the
window of one whose layers have none, counts of 0 experts, and sizes of Mamba-2 where all layers are attention."""

ADDED_TENSORS = {"falcon_h1": ["output.weight"]}
"""Tensors that llama.cpp's converter does not write: the output matrix of tied embeddings that share no multiplier."""

OTHER_ORDER = ("laguna_xs", "laguna_m")
"""Cases in which llama.cpp's converter writes the down matrices of experts behind gate and up, and we before them."""

OTHER_KEY_ORDER = ("glm_4_7_flash",)
"""Cases in which llama.cpp's converter writes the lengths of keys and values behind those of the latents."""

_FACTORS, _RATES = ("rope_freqs.weight",), tuple(f"blk.{i}.ssm_a" for i in range(3))
ROUNDED = {
    **dict.fromkeys(("llama3", "exaone4_1b", "exaone4_32b", "llama4_scout"), _FACTORS),
    **dict.fromkeys(("mamba1", "falcon_mamba"), _RATES),
}
"""Tensors that torch computes in float32, whose last bits depend on torch and the CPU: the factors of Llama 3's RoPE,
and the exponentials of more values than a vector has."""


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in REFUSED_FAMILIES])
def test_families_equal_llama_cpp(name: str, tmp_path: Path) -> None:
    made = json.loads(json.dumps(without_tokenizer(facts(convert_case(tmp_path, name, "BF16")))))
    golden = json.loads((CONVERTED_FAMILIES / f"{name}.json").read_text(encoding="utf-8"))
    added = {key: made["metadata"].pop(key) for key in made["metadata"].keys() - golden["metadata"].keys()}
    left_out = golden["metadata"].keys() - made["metadata"].keys()
    assert added == FAMILY_DIFFERENCES.get(name, {})
    assert left_out == LEFT_OUT.get(name, set())
    others = OTHER_VALUES.get(name, {})
    assert {key: made["metadata"][key] for key in others} == others
    theirs = [(key, others.get(key, value)) for key, value in golden["metadata"].items() if key not in left_out]
    assert made["metadata"] == dict(theirs)
    if name not in OTHER_KEY_ORDER:
        assert list(made["metadata"].items()) == theirs
    for tensor in ROUNDED.get(name, []):
        assert made["tensors"][tensor][:2] == golden["tensors"][tensor][:2]
        made["tensors"][tensor] = golden["tensors"][tensor]
    for tensor in ADDED_TENSORS.get(name, []):
        assert tensor not in golden["tensors"]
        del made["tensors"][tensor]
    assert made["tensors"] == golden["tensors"]
    if name not in OTHER_ORDER:
        assert list(made["tensors"]) == list(golden["tensors"])


@pytest.mark.parametrize("name", REFUSED_FAMILIES)
def test_the_base_of_rope_is_scaled_by_alpha(tmp_path: Path, name: str) -> None:
    """Hunyuan's: llama.cpp's converter asks for a published context length, so this value is worked out by hand."""
    made = facts(convert_case(tmp_path, name, "BF16"))["metadata"]
    config, prefix = FAMILIES[name].config, FAMILIES[name].architecture
    dims, alpha = config["head_dim"], config["rope_scaling"]["alpha"]
    assert made[f"{prefix}.rope.freq_base"][1] == pytest.approx(config["rope_theta"] * alpha ** (dims / (dims - 2)))
    assert made[f"{prefix}.rope.scaling.type"] == ["STRING", "none"]
    assert made[f"{prefix}.context_length"][1] == config["max_position_embeddings"]
