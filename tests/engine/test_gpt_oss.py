"""gpt-oss: what metadata and tensors say, by hand; YaRN as it is published; experts in MXFP4."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgellm import ModelFileError
from edgellm.arch.blocks import Activation
from edgellm.arch.mixture import MixtureOfExperts, Scoring
from support.archs import ArchFixture
from support.engine_bits import extend, fresh, neighbours, opened
from support.families.files import widened
from support.family_file import EXPERTS, DescribeFamily, attentions, windows
from support.oracle import llama_cpp_logits
from support.reference import divergence

Logits = NDArray[np.float32]

YARN: dict[str, Any] = {
    "rope.freq_base": 100.0,
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 8.0,
    "rope.scaling.original_context_length": 128,
    "rope.scaling.yarn_beta_fast": 8.0,
}


def test_layers_have_sinks_biases_and_experts_behind_their_norm(described_family: DescribeFamily) -> None:
    model = described_family("gpt-oss", EXPERTS)
    for layer, attention in zip(model.layers, attentions(model), strict=True):
        assert attention.sinks and attention.sinks.shape == (2,) and attention.post_norm is None
        assert all(each and each.bias for each in (attention.q, attention.k, attention.v, attention.output))
        block = layer.feed_forward
        assert isinstance(block, MixtureOfExperts) and block.gate and block.shared is None
        assert block.norm and block.norm.weight and block.norm.weight.name.endswith("post_attention_norm.weight")
        biases = [each.bias.shape if each.bias else None for each in (block.gate, block.up, block.down)]
        assert biases == [(4, 24), (4, 24), (4, 32)]
        assert (block.activation, block.parameters) == (Activation.CLAMPED_SWIGLU, (7.0, 1.702))
        router = block.router
        assert (router.scoring, router.normalized, router.used) == (Scoring.SOFTMAX, True, 2) and router.logits.bias


@pytest.mark.parametrize("stem", ["attn_q", "ffn_gate_inp", "ffn_down_exps"])
def test_a_file_without_a_bias_is_refused(described_family: DescribeFamily, stem: str) -> None:
    with pytest.raises(ModelFileError, match=rf"has no tensor blk\.1\.{stem}\.bias"):
        described_family("gpt-oss", EXPERTS, {f"blk.1.{stem}.bias": None})


@pytest.mark.parametrize(("window", "seen"), [(8, [8, None, 8, None]), (None, [None] * 4), (4096, [None] * 4)])
def test_every_second_layer_has_the_window(
    described_family: DescribeFamily, window: int | None, seen: list[int | None]
) -> None:
    assert windows(described_family("gpt-oss", EXPERTS | {"attention.sliding_window": window})) == seen


@pytest.mark.parametrize(
    ("architecture", "key", "divided"),
    [
        ("gpt-oss", None, [0, 0, 0.104153, 0.380981, 0.657808, 0.934635, 1, 1]),
        ("gpt-oss", True, [0, 0, 0.2, 0.4, 0.6, 0.8, 1, 1]),
        ("qwen2", None, [0, 0, 0.2, 0.4, 0.6, 0.8, 1, 1]),
        ("qwen2", False, [0, 0, 0.104153, 0.380981, 0.657808, 0.934635, 1, 1]),
    ],
)
def test_the_ramp_of_yarn_begins_and_ends_at_whole_pairs_or_not(
    described_family: DescribeFamily, architecture: str, key: bool | None, divided: list[float]
) -> None:
    """Its limits are 8 ln(128 / 16 π) / ln 100 = 1.62376 and 8 ln(128 / 2 π) / ln 100 = 5.23612 of 8 pairs."""
    keys = YARN | {"rope.scaling.yarn_truncate": key} | (EXPERTS if architecture == "gpt-oss" else {})
    rope = attentions(described_family(architecture, keys))[0].rope
    assert rope and rope.magnitude == pytest.approx(1 + 0.1 * np.log(8))
    ramp, plain = np.array(divided), 100.0 ** -(np.arange(8) / 8)
    assert rope.frequencies == pytest.approx(plain * (1 - ramp + ramp / 8), rel=1e-5)


def test_the_fixtures_differ_in_the_key_alone(shared: Path, tmp_path: Path) -> None:
    """llama.cpp's file of the checkpoint that rounds the limits, read as one that does not, is another model."""
    fixture = _fixture(shared, "gpt_oss")
    with opened(fixture.gguf, kv_type="f32") as engine:
        assert divergence(fixture.logits, fresh(engine, fixture.ids).view(np.float32)) > 0.1


def test_mxfp4_experts_are_as_near_to_exact_as_llama_cpps(shared: Path, tmp_path: Path) -> None:
    """Exact are the same weights as float32. Both engines round the activations of MXFP4 matmuls to 8 bits, and where
    that changes the choice of experts, the distance is large in either."""
    fixture = _fixture(shared, "gpt_oss_mxfp4").completed(tmp_path)
    prompts = np.random.default_rng(0).integers(3, 300, (8, 48)).tolist()
    with opened(widened(fixture.gguf), kv_type="f32") as engine:
        exact = [fresh(engine, ids).view(np.float32) for ids in [fixture.ids, *prompts]]
    assert divergence(fixture.logits, exact.pop(0)) <= 1e-5
    with opened(fixture.gguf, kv_type="f32") as engine:
        ours = _distance(exact, [fresh(engine, ids).view(np.float32) for ids in prompts])
    theirs = _distance(exact, [llama_cpp_logits(fixture.gguf, ids, kv_type="f32") for ids in prompts])
    print(f"mean KL {ours:.2e}, llama.cpp's {theirs:.2e}")
    assert 1e-4 < ours <= 1.25 * theirs


@pytest.mark.slow
def test_mxfp4_experts_give_the_same_bits_in_any_chunks(shared: Path) -> None:
    fixture = _fixture(shared, "gpt_oss_mxfp4")
    with opened(fixture.gguf) as engine:
        whole = fresh(engine, fixture.ids)
        assert np.array_equal(neighbours(engine, fixture.ids, fixture.ids[::-1]), whole)
    for threads, chunk in ((1, 1), (2, 7), (3, 64)):
        with opened(fixture.gguf, threads) as engine:
            assert np.array_equal(extend(engine, engine.new_sequence(), fixture.ids, chunk), whole)


def _distance(exact: list[Logits], logits: list[Logits]) -> float:
    return float(np.mean([divergence(truth, found) for truth, found in zip(exact, logits, strict=True)]))


def _fixture(shared: Path, name: str) -> ArchFixture:
    fixture = ArchFixture.of(shared, name)
    if not fixture.gguf.exists():
        pytest.skip(f"needs archs/{name} in the shared data folder")
    return fixture
