"""Files of a family that contradict themselves, or have what edgellm does not compute."""

import math

import pytest

from edgellm import EdgeLLMError, ModelFileError, UnsupportedModelError
from support.family_file import XIELU, DescribeFamily

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
    ("apertus", XIELU | {"/xielu.beta": [3e38] * 4}, {}, ModelFileError, "key xielu.beta has 3e+38, beyond 1e+15"),
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
    ("glm4", {"nextn_predict_layers": 4}, {}, ModelFileError, "nextn_predict_layers is 4 of 4 blocks"),
    ("glm4", {"nextn_predict_layers": 2**31}, {}, ModelFileError, "nextn_predict_layers is 2147483648 of 4 blocks"),
    ("granite", {"expert_count": 4}, {}, UnsupportedModelError, "granite with a mixture of experts is not supported"),
]


@pytest.mark.parametrize(
    ("architecture", "keys", "tensors", "kind", "words"), REFUSED, ids=[case[-1] for case in REFUSED]
)
def test_files_that_cannot_be_are_refused(
    described_family: DescribeFamily,
    architecture: str,
    keys: dict[str, object],
    tensors: dict[str, object],
    kind: type[EdgeLLMError],
    words: str,
) -> None:
    with pytest.raises(kind) as error:
        described_family(architecture, keys, tensors)
    assert words in str(error.value) and "\n" not in str(error.value)
