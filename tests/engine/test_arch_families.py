"""What each family's metadata mean: settings of layers and models by hand-computed values, and refusals."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgellm import EdgeLLMError, ModelFileError, UnsupportedModelError
from edgellm.arch import describe
from edgellm.arch.description import (
    Activation,
    Attention,
    AttentionTemperature,
    Description,
    FeedForward,
    NormKind,
    RopeType,
)
from edgellm.gguf import GGUFFile, Tensor
from support.family_file import write_family

Describe = Callable[..., Description]


@pytest.fixture
def described(tmp_path: Path) -> Describe:
    """`described(architecture, keys, tensors)`: the description of a file as `write_family` makes it."""

    def make(*arguments: object) -> Description:
        return describe(GGUFFile.open(write_family(tmp_path / "m.gguf", *arguments)))  # type: ignore[arg-type]

    return make


def mixers(model: Description) -> list[Attention]:
    """The attention of each layer."""
    return [layer.mixer for layer in model.layers if layer.mixer]


def feed_forward(model: Description) -> FeedForward:
    """The feed-forward of the first layer."""
    found = model.layers[0].feed_forward
    assert found
    return found


def windows(model: Description) -> list[int | None]:
    """The window of each layer."""
    return [mixer.window for mixer in mixers(model)]


def with_rope(model: Description) -> list[bool]:
    """Whether each layer has RoPE."""
    return [mixer.rope is not None for mixer in mixers(model)]


def first_value(tensor: Tensor | None) -> float:
    """The first weight of an F32 tensor; weights count up from 0 in each tensor of the file."""
    assert tensor
    return float(tensor.data.view("<f4").ravel()[0])


def plain_frequencies(dims: int, base: float = 10000.0) -> list[float]:
    """RoPE's frequencies without scaling."""
    return [base ** (-2 * i / dims) for i in range(dims // 2)]


ALL, THREE_OF_FOUR = [True] * 4, [True, True, True, False]


def test_phi3_has_fused_projections(described: Describe) -> None:
    model = described("phi3")
    mixer, mlp = mixers(model)[0], feed_forward(model)
    assert mixer.k and mixer.v and mlp.gate
    assert [part.weight.shape for part in (mixer.q, mixer.k, mixer.v)] == [(32, 32), (16, 32), (16, 32)]
    assert [first_value(part.weight) for part in (mixer.q, mixer.k, mixer.v)] == [0, 32 * 32, 48 * 32]
    assert [part.weight.shape for part in (mlp.gate, mlp.up)] == [(48, 32), (48, 32)]
    assert [first_value(part.weight) for part in (mlp.gate, mlp.up)] == [0, 48 * 32]


def test_phi3_takes_long_factors_in_contexts_beyond_the_original(described: Describe) -> None:
    keys = {
        "rope.dimension_count": 12,
        "rope.scaling.original_context_length": 32,
        "rope.scaling.attn_factor": 1.25,
    }
    short, long = [1.0, 1.0, 1.5, 2.0, 2.0, 4.0], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    factors = {"rope_factors_short.weight": short, "rope_factors_long.weight": long}
    rope = mixers(described("phi3", keys, factors))[0].rope
    assert rope and rope.width == 12 and rope.rope_type is RopeType.NEOX
    for context, divisors in ((32, short), (33, long)):
        chosen = rope.in_context(context)
        assert chosen.magnitude == 1.25
        np.testing.assert_allclose(chosen.frequencies, np.array(plain_frequencies(12)) / divisors, rtol=1e-6)


@pytest.mark.parametrize(("window", "seen"), [(64, 64), (0, None), (None, None), (128, None), (262144, None)])
def test_phi3_has_its_window_in_all_layers(described: Describe, window: int | None, seen: int | None) -> None:
    assert windows(described("phi3", {"attention.sliding_window": window})) == [seen] * 4


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (None, [8, 8, 8, 8]),
        (1, [None] * 4),
        (2, [8, None, 8, None]),
        ([True, False, False, True], [8, None, None, 8]),
    ],
)
def test_llama_has_its_window_where_the_file_says(
    described: Describe, pattern: int | list[bool] | None, expected: list[int | None]
) -> None:
    keys = {"attention.sliding_window": 8, "attention.sliding_window_pattern": pattern}
    assert windows(described("llama", keys)) == expected


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "qwen2vl"])
def test_qwen_has_windows_where_the_file_says_and_else_ends_its_context(described: Describe, architecture: str) -> None:
    keys = {"attention.sliding_window": 8}
    silent = described(architecture, keys)
    assert windows(silent) == [None] * 4 and silent.context_length == 8
    model = described(architecture, keys | {"attention.sliding_window_pattern": [False, True, True, True]})
    assert windows(model) == [None, 8, 8, 8] and model.context_length == 128


def test_projections_of_any_family_may_be_fused(described: Describe) -> None:
    separate = {f"blk.{i}.attn_{x}.{kind}": None for i in range(4) for x in "qkv" for kind in ("weight", "bias")}
    fused = {f"blk.{i}.attn_qkv.weight": (64, 32) for i in range(4)}
    biases = {f"blk.{i}.attn_qkv.bias": (64,) for i in range(4)}
    mixer = mixers(described("qwen2", {}, separate | fused | biases))[0]
    assert mixer.k and mixer.v
    assert [first_value(part.bias) for part in (mixer.q, mixer.k, mixer.v)] == [0, 32, 48]


YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 16}


@pytest.mark.parametrize(
    ("multiplier", "magnitude"),
    [
        (None, 1 + 0.1 * math.log(8)),
        (0.0, 1 + 0.1 * math.log(8)),
        (1.0, 1.0),
        (0.5, (1 + 0.1 * math.log(8)) / (1 + 0.05 * math.log(8))),
    ],
)
def test_mistral3_has_its_own_magnitude(described: Describe, multiplier: float | None, magnitude: float) -> None:
    model = described("mistral3", YARN | {"rope.scaling.yarn_log_multiplier": multiplier})
    rope = mixers(model)[0].rope
    assert rope and rope.rope_type is RopeType.NORM
    assert rope.magnitude == pytest.approx(magnitude, abs=1e-12)
    assert len(model.position_tables) == 1


@pytest.mark.parametrize(
    ("keys", "magnitude"),
    [
        ({}, 1 + 0.1 * math.log(8)),
        ({"rope.scaling.attn_factor": 0.5}, 0.5 + 0.05 * math.log(8)),
        ({"rope.scaling.yarn_attn_factor": 1.5}, 1.5),
        ({"rope.scaling.yarn_attn_factor": 1.5, "rope.scaling.attn_factor": 0.5}, 0.5 + 0.05 * math.log(8)),
    ],
)
def test_yarn_has_the_magnitude_of_the_file(described: Describe, keys: dict[str, float], magnitude: float) -> None:
    rope = mixers(described("llama", YARN | keys))[0].rope
    assert rope and rope.magnitude == pytest.approx(magnitude, abs=1e-12)


def test_mistral3_multiplies_queries_by_a_factor_of_the_position(described: Describe) -> None:
    model = described("mistral3", YARN | {"attention.temperature_scale": 0.5})
    temperature = mixers(model)[3].temperature
    assert temperature == AttentionTemperature(0.5, 16)
    expected = [1, 1, 1 + 0.5 * math.log(2), 1 + 0.5 * math.log(4)]
    assert temperature.values(np.array([0, 15, 16, 63])).ravel() == pytest.approx(expected)
    assert len(model.position_tables) == 2
    assert mixers(described("mistral3", YARN))[0].temperature is None


def test_smollm3_has_no_positions_in_every_fourth_layer(described: Describe) -> None:
    assert with_rope(described("smollm3")) == THREE_OF_FOUR


def test_granite_has_four_scales(described: Describe) -> None:
    keys = {"attention.scale": 0.125, "embedding_scale": 6.0, "residual_scale": 0.25, "logit_scale": 4.0}
    model = described("granite", keys)
    assert (model.embedding_scale, model.residual_scale, model.logit_scale) == (6.0, 0.25, 0.25)
    assert [mixer.scale for mixer in mixers(model)] == [0.125] * 4
    plain = described("granite", {"logit_scale": 1.0})
    assert (plain.embedding_scale, plain.residual_scale, plain.logit_scale) == (1.0, 1.0, 1.0)
    assert mixers(plain)[0].scale == 0.25


def test_granite_may_have_no_positions(described: Describe) -> None:
    keys = {"logit_scale": 1.0, "rope.scaling.finetuned": False}
    assert with_rope(described("granite", keys)) == [False] * 4
    assert with_rope(described("granite", keys | {"rope.scaling.finetuned": True})) == ALL


def test_olmo2_has_norms_behind_blocks_and_of_whole_projections(described: Describe) -> None:
    model = described("olmo2")
    mixer, mlp = mixers(model)[0], feed_forward(model)
    assert mixer.norm is None and mlp.norm is None and not model.layers[0].parallel
    assert mixer.post_norm and mlp.post_norm
    assert mixer.q_norm and mixer.q_norm.weight and mixer.q_norm.weight.shape == (32,)
    assert mixer.k_norm and mixer.k_norm.weight and mixer.k_norm.weight.shape == (16,)
    assert windows(model) == [None] * 4


@pytest.mark.parametrize("window", [8, 4096])
def test_olmo3_scales_rope_in_full_layers_alone(described: Describe, window: int) -> None:
    model = described("olmo2", YARN | {"attention.sliding_window": window, "rope.freq_base_swa": 5000.0})
    seen = 8 if window == 8 else None
    assert windows(model) == [seen, seen, seen, None]
    *windowed, full = [mixer.rope for mixer in mixers(model)]
    for rope in windowed:
        assert rope and rope.magnitude == 1.0
        np.testing.assert_allclose(rope.frequencies, plain_frequencies(16, 5000.0))
    assert full and full.magnitude == pytest.approx(1 + 0.1 * math.log(8))
    assert full.frequencies[-1] == pytest.approx(plain_frequencies(16)[-1] / 8)
    assert len(model.position_tables) == 2


def test_cohere2_is_parallel_and_has_rope_in_windows(described: Describe) -> None:
    model = described("cohere2", {"attention.sliding_window": 8, "logit_scale": 0.0625})
    mixer, mlp = mixers(model)[0], feed_forward(model)
    assert model.layers[0].parallel and mlp.norm is None
    assert mixer.norm and mixer.norm.kind is NormKind.LAYER and mixer.norm.bias is None
    assert windows(model) == [8, 8, 8, None] and with_rope(model) == THREE_OF_FOUR
    assert model.logit_scale == 0.0625


@pytest.mark.parametrize("architecture", ["cohere2", "muse-glimmer", "exaone4"])
def test_windows_as_long_as_the_context_still_say_which_layers_have_rope(
    described: Describe, architecture: str
) -> None:
    model = described(architecture, {"attention.sliding_window": 4096, "logit_scale": 1.0})
    assert windows(model) == [None] * 4 and with_rope(model) == THREE_OF_FOUR


def test_glm4_turns_half_of_each_head_and_norms_around_blocks(described: Describe) -> None:
    model = described("glm4", {"rope.dimension_count": 8})
    mixer, mlp = mixers(model)[0], feed_forward(model)
    assert mixer.rope and mixer.rope.width == 8 and mixer.rope.rope_type is RopeType.NORM
    assert mixer.norm and mixer.post_norm and mlp.norm and mlp.post_norm and mlp.gate
    assert mixer.q.bias is None
    biases = {f"blk.{i}.attn_{x}.bias": (32 if x == "q" else 16,) for i in range(4) for x in "qkv"}
    assert mixers(described("glm4", {}, biases))[0].q.bias


@pytest.mark.parametrize(("sections", "rope_type"), [([4, 2, 2, 0], RopeType.NEOX), ([0] * 4, RopeType.NORM)])
def test_glm4_with_sections_has_rows_in_another_order(
    described: Describe, sections: list[int], rope_type: RopeType
) -> None:
    model = described("glm4", {"rope.dimension_sections": sections, "rope.dimension_count": 8})
    assert [mixer.rope and mixer.rope.rope_type for mixer in mixers(model)] == [rope_type] * 4
    assert len(model.position_tables) == 1


def test_exaone4_has_rope_everywhere_without_windows(described: Describe) -> None:
    plain = described("exaone4")
    assert windows(plain) == [None] * 4 and with_rope(plain) == ALL
    windowed = described("exaone4", {"attention.sliding_window": 8})
    assert windows(windowed) == [8, 8, 8, None] and with_rope(windowed) == THREE_OF_FOUR


def test_hunyuan_norms_after_rope(described: Describe) -> None:
    assert mixers(described("hunyuan-dense"))[0].norm_after_rope
    assert not mixers(described("qwen3"))[0].norm_after_rope


def test_seed_oss_calls_the_norm_before_the_feed_forward_otherwise(described: Describe) -> None:
    model = described("seed_oss")
    norm = feed_forward(model).norm
    assert norm and norm.weight and norm.weight.name == "blk.0.post_attention_norm.weight"
    assert mixers(model)[0].post_norm is None and not model.layers[0].parallel


@pytest.mark.parametrize(("keys", "window"), [({}, 4096), ({"attention.sliding_window": 0}, None)])
def test_starcoder2_has_a_window_unless_the_file_says_otherwise(
    described: Describe, keys: dict[str, int], window: int | None
) -> None:
    model = described("starcoder2", {"context_length": 16384} | keys)
    assert windows(model) == [window] * 4
    mlp, mixer = feed_forward(model), mixers(model)[0]
    assert mlp.gate is None and mlp.activation is Activation.GELU and mlp.up.bias and mlp.down.bias
    assert mixer.norm and mixer.norm.bias and mixer.output.bias


def test_stablelm_is_parallel_where_it_lacks_a_norm(described: Describe) -> None:
    both_norms = described("stablelm", {"use_parallel_residual": True, "rope.dimension_count": 4})
    assert not any(layer.parallel for layer in both_norms.layers)
    rope = mixers(both_norms)[0].rope
    assert rope and rope.width == 4
    lacking = {f"blk.{i}.ffn_norm.{kind}": None for i in range(4) for kind in ("weight", "bias")}
    parallel = described("stablelm", {}, lacking)
    assert all(layer.parallel for layer in parallel.layers) and feed_forward(parallel).norm is None


def test_stablelm_may_norm_heads_with_weights_of_their_own(described: Describe) -> None:
    q_norm, k_norm = mixers(described("stablelm"))[0].q_norm, mixers(described("stablelm"))[0].k_norm
    assert q_norm and q_norm.weight and q_norm.weight.shape == (2, 16) and q_norm.kind is NormKind.LAYER
    assert k_norm and k_norm.weight and k_norm.weight.shape == (1, 16)
    lacking = {f"blk.{i}.attn_{x}_norm.weight": None for i in range(4) for x in "qk"}
    assert mixers(described("stablelm", {}, lacking))[0].q_norm is None


XIELU = {"/xielu.alpha_p": [0.5, 100.0, 0.5, 0.5], "/xielu.alpha_n": [0.25] * 4}
XIELU |= {"/xielu.beta": [0.5] * 4, "/xielu.eps": [-1e-6] * 4}


def test_apertus_has_parameters_of_each_layer(described: Describe) -> None:
    model = described("apertus", XIELU)
    layers = [layer.feed_forward for layer in model.layers]
    assert all(each and each.activation is Activation.XIELU and each.gate is None for each in layers)
    first = [math.log(1 + math.exp(0.5)), 0.5 + math.log(1 + math.exp(0.25)), 0.5, -1e-6]
    assert layers[0] and layers[0].parameters == pytest.approx(first, rel=1e-6)
    assert layers[1] and layers[1].parameters[0] == 100.0


def test_muse_glimmer_has_norms_gates_and_a_cap(described: Describe) -> None:
    keys = {"attention.sliding_window": 8, "logit_scale": 0.5, "final_logit_softcapping": 4.0}
    model = described("muse-glimmer", keys)
    mixer, mlp = mixers(model)[0], feed_forward(model)
    assert (model.logit_scale, model.logit_soft_cap) == (0.5, 4.0)
    assert model.embedding_norm and model.embedding_norm.weight is None
    assert mixer.gate and mixer.gate.weight.shape == (32, 32)
    norms = [mixer.norm, mixer.post_norm, mlp.norm, mlp.post_norm]
    assert [norm and norm.eps for norm in norms] == pytest.approx([1e-5, 1e-8, 1e-5, 1e-8])


@pytest.mark.parametrize("architecture", ["qwen2vl", "qwen3vl"])
def test_sections_of_text_models_change_nothing(described: Describe, architecture: str) -> None:
    keys = {"rope.dimension_sections": [4, 2, 2, 0], "n_deepstack_layers": 3}
    rope, plain = (mixers(described(architecture, each))[0].rope for each in (keys, {}))
    assert rope and plain and rope.rope_type is plain.rope_type is RopeType.NEOX
    np.testing.assert_array_equal(rope.frequencies, plain.frequencies)


REFUSED: list[tuple[str, dict[str, object], dict[str, object], type[EdgeLLMError], str]] = [
    ("granite", {}, {}, ModelFileError, "has no key granite.logit_scale"),
    ("granite", {"logit_scale": 0.0}, {}, ModelFileError, "granite.logit_scale is 0.0"),
    ("cohere2", {"logit_scale": 1.0}, {}, ModelFileError, "no window at key cohere2.attention.sliding_window"),
    ("mistral3", {"attention.temperature_scale": math.inf}, {}, ModelFileError, "temperature_scale must be finite"),
    ("starcoder2", {}, {"blk.2.ffn_up.bias": None}, ModelFileError, "has no tensor blk.2.ffn_up.bias"),
    ("stablelm", {}, {"blk.1.attn_norm.bias": None}, ModelFileError, "has no tensor blk.1.attn_norm.bias"),
    ("stablelm", {}, {"blk.1.attn_q_norm.weight": (1, 16)}, ModelFileError, "has shape [1, 16], but"),
    (
        "phi3",
        {},
        {"blk.0.ffn_up.weight": (48, 32)},
        ModelFileError,
        "has shape [48, 32], but the metadata asks for [96",
    ),
    ("phi3", {}, {"blk.0.attn_qkv.weight": None}, ModelFileError, "has no tensor blk.0.attn_qkv.weight"),
    ("phi3", {}, {"blk.0.attn_q.weight": (32, 32)}, UnsupportedModelError, "blk.0.attn_q.weight has no place"),
    (
        "phi3",
        {"rope.scaling.type": "longrope"},
        {},
        ModelFileError,
        "no tensor rope_factors_long.weight, which LongRoPE needs",
    ),
    (
        "phi3",
        {},
        {"rope_factors_long.weight": (8,), "rope_factors_short.weight": (8,)},
        ModelFileError,
        "rope_factors_long.weight has values that are not",
    ),
    ("phi3", {}, {"rope_factors_long.weight": [1.0] * 8}, ModelFileError, "has no tensor rope_factors_short.weight"),
    ("apertus", {}, {}, ModelFileError, "has no key xielu.alpha_p"),
    ("apertus", XIELU | {"/xielu.beta": [0.5] * 3}, {}, ModelFileError, "xielu.beta must be an array of 4 finite"),
    ("apertus", XIELU | {"/xielu.eps": [math.nan] * 4}, {}, ModelFileError, "xielu.eps must be an array of 4 finite"),
    (
        "olmo2",
        {},
        {"blk.0.attn_q_norm.weight": (16,)},
        ModelFileError,
        "has shape [16], but the metadata asks for [32]",
    ),
    ("olmo2", {"attention.sliding_window_pattern": [True] * 3}, {}, ModelFileError, "an array of 4 integers"),
    ("llama", {}, {"output_norm.bias": (32,)}, UnsupportedModelError, "output_norm.bias has no place"),
    ("glm4", {"rope.dimension_sections": [8.0] * 4}, {}, ModelFileError, "rope.dimension_sections must be an array"),
    ("glm4", {"nextn_predict_layers": 1}, {}, UnsupportedModelError, "glm4 with layers for multi-token prediction"),
    ("granite", {"expert_count": 4}, {}, UnsupportedModelError, "granite with a mixture of experts is not supported"),
]


@pytest.mark.parametrize(
    ("architecture", "keys", "tensors", "kind", "words"), REFUSED, ids=[case[-1] for case in REFUSED]
)
def test_files_that_cannot_be_are_refused(
    described: Describe,
    architecture: str,
    keys: dict[str, object],
    tensors: dict[str, object],
    kind: type[EdgeLLMError],
    words: str,
) -> None:
    with pytest.raises(kind) as error:
        described(architecture, keys, tensors)
    assert words in str(error.value) and "\n" not in str(error.value)
