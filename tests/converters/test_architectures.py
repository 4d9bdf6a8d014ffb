"""Configurations, tensors and model cards of strangers: what is refused, how, and what cannot do harm."""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from converters.header import encode_pairs
from converters.tensors import Metadata, Source
from edgellm.errors import EdgeLLMWarning, ModelFileError, UnsupportedModelError
from support.make_checkpoint import write_checkpoint

SMALL = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "layers": 2, "dtype": "F32"}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def described(folder: Path, **config: Any) -> tuple[Metadata, list[Source]]:
    """What `describe` gives for a checkpoint whose config.json is changed so; a value of ... is taken out."""
    path = folder / "config.json"
    original = path.read_text(encoding="utf-8")
    changed = {key: value for key, value in (json.loads(original) | config).items() if value is not ...}
    path.write_text(json.dumps(changed), encoding="utf-8")
    try:
        return describe(Checkpoint.open(folder))
    finally:
        path.write_text(original, encoding="utf-8")


def values(metadata: Metadata) -> dict[str, Any]:
    return {key: value.value for key, value in metadata.items()}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("llama"), **SMALL)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"hidden_size": ...}, "has no hidden_size"),
        ({"hidden_size": "64"}, "hidden_size is '64', not a whole number"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"num_key_value_heads": 3}, "2 attention heads cannot share 3"),
        ({"head_dim": 33}, "heads of 33 dimensions"),
        ({"head_dim": None, "num_attention_heads": 3, "num_key_value_heads": 3}, "heads of 21 dimensions"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"rms_norm_eps": float("inf")}, "rms_norm_eps is inf"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan"),
        ({"rope_theta": -1.0}, "rope_theta is -1.0"),
        ({"rope_scaling": []}, "rope_scaling is [], not an object"),
        ({"rope_scaling": {"type": "linear"}}, "has no factor"),
        ({"rope_scaling": LLAMA3 | {"high_freq_factor": 0.5}}, "high_freq_factor 0.5 is below"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes', not true or false"),
        ({"vocab_size": 321}, "lm_head.weight has shape [320, 64], not [321, 64]"),
        ({"num_key_value_heads": 2}, "self_attn.k_proj.weight has shape [32, 64], not [64, 64]"),
        ({"num_hidden_layers": 3}, "no tensor for blk.2.attn_q.weight"),
        ({"num_hidden_layers": 1}, "tensor model.layers.1.input_layernorm.weight has no place in this llama model"),
        ({"attention_bias": True}, "no tensor for blk.0.attn_q.bias"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "no tensor for blk.0.attn_q_norm.weight"),
        ({"architectures": "LlamaForCausalLM"}, "architectures is 'LlamaForCausalLM', not a list"),
    ],
)
def test_contradictions(llama: Path, config: dict[str, Any], expected: str) -> None:
    with pytest.raises(ModelFileError) as error:
        described(llama, **config)
    assert expected in str(error.value)
    assert str(llama / "config.json") in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"architectures": ["JambaForCausalLM"]},
            "JambaForCausalLM cannot be converted; choose a model of Apertus, BailingMoeV2, ",
        ),
        ({"architectures": ["\x1b[31m\n"]}, r"\x1b[31m\n cannot be converted"),
        ({"architectures": ...}, "an unnamed architecture cannot be converted"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"is_causal": False}, "is_causal"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 4.0}}, "rope scaling longrope is not supported"),
        ({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "differ from layer to layer"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(llama: Path, config: dict[str, Any], expected: str) -> None:
    with pytest.raises(UnsupportedModelError) as error:
        described(llama, **config)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("truncate", "written"), [(True, None), (False, False), (None, None)])
def test_yarn_that_does_not_round_the_limits_of_its_ramp_has_a_key(
    llama: Path, truncate: bool | None, written: bool | None
) -> None:
    scaling = {"type": "yarn", "factor": 4.0} | ({} if truncate is None else {"truncate": truncate})
    found = described(llama, rope_scaling=scaling)[0].get("llama.rope.scaling.yarn_truncate")
    assert (None if found is None else found.value) == written


def test_untied_model_needs_its_output(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, **SMALL, tied=True)
    assert "output.weight" not in [source.name for source in described(folder)[1]]
    with pytest.raises(ModelFileError, match=r"no tensor for output\.weight"):
        described(folder, tie_word_embeddings=False)


def test_rows_of_q_and_k_are_permuted_to_rope_type_norm(llama: Path) -> None:
    moved = next(source for source in described(llama)[1] if source.name == "blk.0.attn_q.weight").rows(0, 64)
    q = Checkpoint.open(llama).source("model.layers.0.self_attn.q_proj.weight", "q").rows(0, 64)
    # Head 1 of 2, 32 dimensions each: its dimensions 0, 16, 1, 17, …
    assert np.array_equal(moved[32:36], q[[32, 48, 33, 49]])


@pytest.mark.parametrize(
    "config",
    [
        {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 2}},
        {"rope_theta": ..., "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}},
    ],
)
def test_rotary_positions_in_every_place(llama: Path, config: dict[str, Any]) -> None:
    metadata = values(described(llama, **config)[0])
    rope = {key: value for key, value in metadata.items() if ".rope." in key}
    assert rope == {
        "llama.rope.scaling.type": "linear",
        "llama.rope.scaling.factor": 2.0,
        "llama.rope.freq_base": 5e5,
        "llama.rope.dimension_count": 32,
    }


def test_llama3_scaling_is_a_tensor(llama: Path) -> None:
    metadata, sources = described(llama, rope_theta=1e4, rope_scaling=LLAMA3 | {"original_max_position_embeddings": 64})
    assert sources[0].name == "rope_freqs.weight"
    factors = sources[0].rows(0, 1).view(np.float32)[0]
    # Pair i turns 64 · 10000^(-i / 16) / 2π times within 64 tokens: 10.2, 5.73, 3.22, 1.81, 1.02, 0.57, …
    assert factors[:2].tolist() == [1.0, 1.0]
    kept = (64 * 1e4 ** (-2 / 16) / (2 * np.pi) - 1) / 3
    assert factors[2] == pytest.approx(1 / ((1 - kept) / 8 + kept))
    assert factors[5:].tolist() == [8.0] * 11
    assert not any("scaling" in key for key in metadata)


def test_what_transformers_assumes(llama: Path) -> None:
    left_out = dict.fromkeys(("max_position_embeddings", "rms_norm_eps", "rope_theta", "head_dim", "hidden_act"), ...)
    metadata = values(described(llama, **left_out)[0])
    assert metadata["llama.context_length"] == 2048
    assert metadata["llama.attention.layer_norm_rms_epsilon"] == 1e-6
    assert metadata["llama.rope.freq_base"] == 10000.0
    assert metadata["llama.attention.key_length"] == 32


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({"sliding_window": 100}, 100),
        ({"sliding_window": 512}, None),
        ({"sliding_window": None}, None),
        ({"architectures": ["LlamaForCausalLM"], "sliding_window": 100}, None),
        ({"architectures": ["LlamaForCausalLM"], "sliding_window": 100, "use_sliding_window": True}, None),
    ],
)
def test_sliding_window(llama: Path, config: dict[str, Any], window: int | None) -> None:
    metadata = values(described(llama, **({"architectures": ["MistralForCausalLM"]} | config))[0])
    assert metadata.get("llama.attention.sliding_window") == window


def test_nothing_heavy_is_imported() -> None:
    heavy = "import sys, converters.architectures; print({'gguf', 'yaml', 'numba'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True).stdout == "set()\n"


def card(folder: Path, text: str) -> dict[str, Any]:
    (folder / "README.md").write_text(text, encoding="utf-8")
    try:
        return values(described(folder)[0])
    finally:
        (folder / "README.md").unlink()


def test_numbers_and_dates_of_a_card_become_text(llama: Path) -> None:
    made = card(
        llama, "---\nversion: 2.5\nauthor: 2024-01-02\nlicense: [mit, apache-2.0]\ntags: [1, {a: b}, [c], x]\n---"
    )
    assert made["general.version"] == "2.5"
    assert made["general.author"] == "2024-01-02"
    assert made["general.license"] == "mit,apache-2.0"
    assert made["general.tags"] == ["1", "x"]


@pytest.mark.parametrize(
    "front",
    [
        "license: [",
        "a: &a [x]\nb: [*a, *a]",
        "a: " + "[" * 5000,
        "a: !!python/object/apply:os.getcwd []",
        "a: 2024-99-99",
        "license: !!bool x",
        "license: !!timestamp x",
        "license: !!int ''",
        "a: 0x" + "f" * 5000,
        "tags: [" + "x, " * (1 << 18) + "]",
    ],
)
def test_card_that_cannot_be_read_is_left_out(llama: Path, front: str) -> None:
    with pytest.warns(EdgeLLMWarning, match="the model card is left out") as seen:
        made = card(llama, f"---\nlicense: mit\n{front}\n---\n")
    assert "general.license" not in made
    assert len(seen) == 1
    assert "\n" not in str(seen[0].message)


_KEYS = st.sampled_from(
    ["name", "author", "version", "base_model", "datasets", "tags", "language", "license", "model_name", "size_label"]
)
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.from_regex(r"\w*[-/.: ]\w*-\d*[KMB]")
)
_ANYTHING = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@settings(max_examples=60, deadline=None)
@given(front=st.dictionaries(_KEYS, _ANYTHING), origin=_SCALARS)
def test_no_card_and_no_name_breaks_a_conversion(llama: Path, front: dict[str, Any], origin: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeLLMWarning)
        (llama / "README.md").write_text(f"---\n{json.dumps(front)}\n---\n", encoding="utf-8")
        metadata, _ = described(llama, _name_or_path=origin)
        (llama / "README.md").unlink()
    encode_pairs(metadata)
    assert metadata["general.name"].value
    for key, value in metadata.items():
        items = value.value if isinstance(value.value, list) else [value.value]
        assert value.kind != "str" or all(isinstance(item, str) for item in items), key


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "mistral"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_sliding_window": True},
        {"use_sliding_window": True, "max_window_layers": 1},
        {"use_sliding_window": True, "max_window_layers": 2},
        {"use_sliding_window": True, "max_window_layers": 28},
        {"use_sliding_window": True, "max_window_layers": None},
        {"use_sliding_window": False, "max_window_layers": 0},
        {"use_sliding_window": True, "layer_types": ["full_attention", "full_attention"], "max_window_layers": 0},
        {"use_sliding_window": True, "layer_types": ["full_attention", "sliding_attention"]},
    ],
)
def test_a_window_is_that_of_layers_that_slide(tmp_path: Path, family: str, settings: dict[str, Any]) -> None:
    from transformers import AutoConfig

    folder = write_checkpoint(tmp_path, **SMALL, family=family)
    config = json.loads((folder / "config.json").read_text()) | settings | {"sliding_window": 100}
    theirs = AutoConfig.for_model(**{key: value for key, value in config.items() if value is not None})
    slides = family == "mistral" or "sliding_attention" in theirs.layer_types
    metadata = values(described(folder, **settings, sliding_window=100)[0])
    found = metadata.get(f"{metadata['general.architecture']}.attention.sliding_window")
    assert found == (100 if slides else None)
    pattern = metadata.get(f"{metadata['general.architecture']}.attention.sliding_window_pattern")
    by_layer = slides and family != "mistral"
    assert pattern == ([each == "sliding_attention" for each in theirs.layer_types] if by_layer else None)


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
@pytest.mark.parametrize("settings", [{}, {"sliding_window": None}, {"use_sliding_window": False}])
def test_a_window_without_a_number_is_that_of_transformers(
    tmp_path: Path, family: str, settings: dict[str, Any]
) -> None:
    from transformers import AutoConfig

    folder = write_checkpoint(tmp_path, **SMALL, family=family)
    given: dict[str, Any] = {
        "max_position_embeddings": 8192,
        "use_sliding_window": True,
        "max_window_layers": 0,
    } | settings
    config = json.loads((folder / "config.json").read_text())
    config.pop("sliding_window", None)
    theirs = None if family == "llama" else AutoConfig.for_model(**config | given).sliding_window
    metadata = values(described(folder, **{"sliding_window": ..., **given})[0])
    assert metadata.get(f"{metadata['general.architecture']}.attention.sliding_window") == theirs


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_null_is_no_value(tmp_path: Path, family: str) -> None:
    """As many key-value heads as heads, then, which is what transformers makes of it."""
    from transformers import AutoConfig

    folder = write_checkpoint(tmp_path, **SMALL | {"kv_heads": 2}, family=family)
    keys = ("num_key_value_heads", "rope_scaling", "sliding_window", "attention_bias", "max_window_layers", "is_causal")
    nulls = dict.fromkeys((*keys, "use_sliding_window", "partial_rotary_factor", "layer_types", "quantization_config"))
    metadata = values(described(folder, **nulls)[0])
    arch = metadata["general.architecture"]
    config = json.loads((folder / "config.json").read_text()) | {"num_key_value_heads": None}
    # This version of transformers takes no null from Mistral.
    kv_heads = 2 if family == "mistral" else AutoConfig.for_model(**config).num_key_value_heads
    assert metadata[f"{arch}.attention.head_count_kv"] == kv_heads == 2
    absent = values(described(folder, **{key: ... for key in nulls if key != "num_key_value_heads"})[0])
    assert metadata == absent


@pytest.mark.parametrize(
    ("scaling", "wanted"),
    [
        ({"rope_type": None, "type": "linear", "factor": 2.0}, {"type": "linear", "factor": 2.0}),
        ({"rope_type": "linear", "factor": 2.0, "rope_theta": None}, {"type": "linear", "factor": 2.0}),
        ({"rope_type": None, "factor": None}, {}),
    ],
)
def test_null_inside_of_an_object(llama: Path, scaling: dict[str, Any], wanted: dict[str, Any]) -> None:
    metadata = values(described(llama, rope_scaling=scaling)[0])
    found = {key.removeprefix("llama.rope.scaling."): v for key, v in metadata.items() if ".rope.scaling." in key}
    assert found == wanted


def sampled(folder: Path, text: str) -> dict[str, Any]:
    """What becomes of a generation_config.json."""
    path = folder / "generation_config.json"
    original = path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    try:
        made = values(described(folder)[0])
    finally:
        path.write_text(original, encoding="utf-8")
    return {key.removeprefix("general.sampling."): v for key, v in made.items() if key.startswith("general.sampling.")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"top_k": "20", "top_p": 0.5}', r"top_k is '20', not a whole number from -1 to \d+: this default"),
        ('{"temperature": NaN, "top_p": 0.5}', "temperature is nan, not a number"),
        ('{"temperature": "0.6", "top_p": 0.5}', "temperature is '0.6', not a number"),
        ('{"min_p": [true], "top_p": 0.5}', r"min_p is \[True\]"),
    ],
)
def test_a_default_that_is_no_number_is_left_out(llama: Path, text: str, expected: str) -> None:
    with pytest.warns(EdgeLLMWarning, match=expected) as seen:
        assert sampled(llama, text) == {"top_p": 0.5}
    assert len(seen) == 1
    assert str(llama / "generation_config.json") in str(seen[0].message)


def test_a_default_that_is_null_is_none(llama: Path) -> None:
    assert sampled(llama, '{"top_k": null, "temperature": null, "top_p": 0.5}') == {"top_p": 0.5}


def test_a_generation_config_that_is_no_object(llama: Path) -> None:
    with pytest.raises(ModelFileError, match=r"generation_config\.json: must hold a JSON object"):
        sampled(llama, "[]")
