"""What each family's metadata say of RoPE, windows and other positions, by hand-computed values."""

import math

import numpy as np
import pytest

from edgellm.arch.positions import AttentionTemperature, RopeType
from support.family_file import DescribeFamily, attentions, windows, with_rope

ALL, THREE_OF_FOUR = [True] * 4, [True, True, True, False]


def plain_frequencies(dims: int, base: float = 10000.0) -> list[float]:
    """RoPE's frequencies without scaling."""
    return [base ** (-2 * i / dims) for i in range(dims // 2)]


@pytest.mark.parametrize(("window", "seen"), [(64, 64), (0, None), (None, None), (128, None), (262144, None)])
def test_phi3_has_its_window_in_all_layers(
    described_family: DescribeFamily, window: int | None, seen: int | None
) -> None:
    assert windows(described_family("phi3", {"attention.sliding_window": window})) == [seen] * 4


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
    described_family: DescribeFamily, pattern: int | list[bool] | None, expected: list[int | None]
) -> None:
    keys = {"attention.sliding_window": 8, "attention.sliding_window_pattern": pattern}
    assert windows(described_family("llama", keys)) == expected


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "qwen2vl"])
def test_qwen_has_windows_where_the_file_says_and_else_ends_its_context(
    described_family: DescribeFamily, architecture: str
) -> None:
    keys = {"attention.sliding_window": 8}
    silent = described_family(architecture, keys)
    assert windows(silent) == [None] * 4 and silent.context_length == 8
    model = described_family(architecture, keys | {"attention.sliding_window_pattern": [False, True, True, True]})
    assert windows(model) == [None, 8, 8, 8] and model.context_length == 128


@pytest.mark.parametrize("architecture", ["cohere2", "muse-glimmer", "exaone4"])
def test_windows_as_long_as_the_context_still_say_which_layers_have_rope(
    described_family: DescribeFamily, architecture: str
) -> None:
    model = described_family(architecture, {"attention.sliding_window": 4096, "logit_scale": 1.0})
    assert windows(model) == [None] * 4 and with_rope(model) == THREE_OF_FOUR


def test_exaone4_has_rope_everywhere_without_windows(described_family: DescribeFamily) -> None:
    plain = described_family("exaone4")
    assert windows(plain) == [None] * 4 and with_rope(plain) == ALL
    windowed = described_family("exaone4", {"attention.sliding_window": 8})
    assert windows(windowed) == [8, 8, 8, None] and with_rope(windowed) == THREE_OF_FOUR


def test_phi3_takes_long_factors_in_contexts_beyond_the_original(described_family: DescribeFamily) -> None:
    keys = {
        "rope.dimension_count": 12,
        "rope.scaling.original_context_length": 32,
        "rope.scaling.attn_factor": 1.25,
    }
    short, long = [1.0, 1.0, 1.5, 2.0, 2.0, 4.0], [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    factors = {"rope_factors_short.weight": short, "rope_factors_long.weight": long}
    rope = attentions(described_family("phi3", keys, factors))[0].rope
    assert rope and rope.width == 12 and rope.rope_type is RopeType.NEOX
    for context, divisors in ((32, short), (33, long)):
        chosen = rope.in_context(context)
        assert chosen.magnitude == 1.25
        np.testing.assert_allclose(chosen.frequencies, np.array(plain_frequencies(12)) / divisors, rtol=1e-6)


YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 16}


@pytest.mark.parametrize(
    ("keys", "magnitude"),
    [
        ({}, 1 + 0.1 * math.log(8)),
        ({"rope.scaling.attn_factor": 0.5}, 0.5 + 0.05 * math.log(8)),
        ({"rope.scaling.yarn_attn_factor": 1.5}, 1.5),
        ({"rope.scaling.yarn_attn_factor": 1.5, "rope.scaling.attn_factor": 0.5}, 0.5 + 0.05 * math.log(8)),
    ],
)
def test_yarn_has_the_magnitude_of_the_file(
    described_family: DescribeFamily, keys: dict[str, float], magnitude: float
) -> None:
    rope = attentions(described_family("llama", YARN | keys))[0].rope
    assert rope and rope.magnitude == pytest.approx(magnitude, abs=1e-12)


@pytest.mark.parametrize(
    ("multiplier", "magnitude"),
    [
        (None, 1 + 0.1 * math.log(8)),
        (0.0, 1 + 0.1 * math.log(8)),
        (1.0, 1.0),
        (0.5, (1 + 0.1 * math.log(8)) / (1 + 0.05 * math.log(8))),
    ],
)
def test_mistral3_has_its_own_magnitude(
    described_family: DescribeFamily, multiplier: float | None, magnitude: float
) -> None:
    model = described_family("mistral3", YARN | {"rope.scaling.yarn_log_multiplier": multiplier})
    rope = attentions(model)[0].rope
    assert rope and rope.rope_type is RopeType.NORM
    assert rope.magnitude == pytest.approx(magnitude, abs=1e-12)
    assert len(model.position_tables) == 1


def test_mistral3_multiplies_queries_by_a_factor_of_the_position(described_family: DescribeFamily) -> None:
    model = described_family("mistral3", YARN | {"attention.temperature_scale": 0.5})
    temperature = attentions(model)[3].temperature
    assert temperature == AttentionTemperature(0.5, 16)
    expected = [1, 1, 1 + 0.5 * math.log(2), 1 + 0.5 * math.log(4)]
    assert temperature.values(np.array([0, 15, 16, 63])).ravel() == pytest.approx(expected)
    assert len(model.position_tables) == 2
    assert attentions(described_family("mistral3", YARN))[0].temperature is None


def test_smollm3_has_no_positions_in_every_fourth_layer(described_family: DescribeFamily) -> None:
    assert with_rope(described_family("smollm3")) == THREE_OF_FOUR


def test_granite_may_have_no_positions(described_family: DescribeFamily) -> None:
    keys = {"logit_scale": 1.0, "rope.scaling.finetuned": False}
    assert with_rope(described_family("granite", keys)) == [False] * 4
    assert with_rope(described_family("granite", keys | {"rope.scaling.finetuned": True})) == ALL


@pytest.mark.parametrize("window", [8, 4096])
def test_olmo3_scales_rope_in_full_layers_alone(described_family: DescribeFamily, window: int) -> None:
    model = described_family("olmo2", YARN | {"attention.sliding_window": window, "rope.freq_base_swa": 5000.0})
    seen = 8 if window == 8 else None
    assert windows(model) == [seen, seen, seen, None]
    *windowed, full = [attention.rope for attention in attentions(model)]
    for rope in windowed:
        assert rope and rope.magnitude == 1.0
        np.testing.assert_allclose(rope.frequencies, plain_frequencies(16, 5000.0))
    assert full and full.magnitude == pytest.approx(1 + 0.1 * math.log(8))
    assert full.frequencies[-1] == pytest.approx(plain_frequencies(16)[-1] / 8)
    assert len(model.position_tables) == 2


@pytest.mark.parametrize(("sections", "rope_type"), [([4, 2, 2, 0], RopeType.NEOX), ([0] * 4, RopeType.NORM)])
def test_glm4_with_sections_has_rows_in_another_order(
    described_family: DescribeFamily, sections: list[int], rope_type: RopeType
) -> None:
    model = described_family("glm4", {"rope.dimension_sections": sections, "rope.dimension_count": 8})
    assert [attention.rope and attention.rope.rope_type for attention in attentions(model)] == [rope_type] * 4
    assert len(model.position_tables) == 1


def test_hunyuan_norms_after_rope(described_family: DescribeFamily) -> None:
    assert attentions(described_family("hunyuan-dense"))[0].norm_after_rope
    assert not attentions(described_family("qwen3"))[0].norm_after_rope


@pytest.mark.parametrize("architecture", ["qwen2vl", "qwen3vl"])
def test_sections_of_text_models_change_nothing(described_family: DescribeFamily, architecture: str) -> None:
    keys = {"rope.dimension_sections": [4, 2, 2, 0], "n_deepstack_layers": 3}
    rope, plain = (attentions(described_family(architecture, each))[0].rope for each in (keys, {}))
    assert rope and plain and rope.rope_type is plain.rope_type is RopeType.NEOX
    np.testing.assert_array_equal(rope.frequencies, plain.frequencies)
