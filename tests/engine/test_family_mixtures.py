"""What tensors and metadata say of the experts of Gemma 4, Granite, ERNIE 4.5, Hunyuan and Phi-3.5-MoE, by hand."""

import pytest

from edgellm import ModelFileError
from edgellm.arch.blocks import Activation, FeedForward, NormKind
from edgellm.arch.description import Description
from edgellm.arch.mixture import MixtureOfExperts, Scoring
from support.family_file import EXPERTS, DescribeFamily, attentions, routers, without_experts
from support.gemma_families import Described
from support.gemma_files import (
    SANDWICH,
    Shapes,
    attention_shapes,
    head_norm_shapes,
    layer_shapes,
    plain_shapes,
    windowed_keys,
)

SHARED = {"expert_shared_feed_forward_length": 24}


def mixture(model: Description, layer: int = 0) -> MixtureOfExperts:
    """The mixture of experts of a layer."""
    found = model.layers[layer].feed_forward
    assert isinstance(found, MixtureOfExperts)
    return found


def without(*stems: str) -> dict[str, None]:
    """The weights of all layers with these stems, to be left out."""
    return {f"blk.{i}.{stem}.weight": None for i in range(4) for stem in stems}


_SHEXP = ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")


def test_granite_has_scales_and_perhaps_a_shared_expert(described_family: DescribeFamily) -> None:
    keys = EXPERTS | {"attention.scale": 0.125, "residual_scale": 0.25, "logit_scale": 4.0}
    plain = described_family("granitemoe", keys, without(*_SHEXP))
    found = mixture(plain)
    assert (plain.residual_scale, plain.logit_scale, attentions(plain)[0].scale) == (0.25, 0.25, 0.125)
    assert (found.router.experts, found.router.used, found.router.normalized) == (4, 2, True)
    assert found.router.scoring is Scoring.SOFTMAX and found.shared is None and found.shared_gate is None
    shared = mixture(described_family("granitemoe", keys | SHARED)).shared
    assert shared and shared.norm is None and shared.up.weight.shape == (24, 32)


def test_granite_experts_are_as_wide_as_the_feed_forward(described_family: DescribeFamily) -> None:
    stacks = {f"blk.{i}.ffn_{x}_exps.weight": (4, 48, 32) for i in range(4) for x in ("gate", "up")}
    downs = {f"blk.{i}.ffn_down_exps.weight": (4, 32, 48) for i in range(4)}
    keys = {"expert_count": 4, "expert_used_count": 2, "logit_scale": 1.0}
    found = mixture(described_family("granitemoe", keys, without(*_SHEXP) | stacks | downs))
    assert found.gate and (found.gate.rows, found.up.rows, found.down.rows) == (48, 48, 32)


@pytest.mark.parametrize(
    ("architecture", "stem"), [(a, s) for a in ("granitemoe", "ernie4_5-moe", "hunyuan-moe") for s in _SHEXP]
)
def test_a_file_that_counts_shared_experts_has_them(
    described_family: DescribeFamily, architecture: str, stem: str
) -> None:
    """A file without a tensor of them is refused, and one without all of them."""
    keys = EXPERTS | SHARED | {"logit_scale": 1.0}
    tensors = without_experts() if architecture == "ernie4_5-moe" else {}
    for lacking in ((stem,), _SHEXP):
        with pytest.raises(ModelFileError, match=r"has no tensor blk\.0\.ffn_\w+_shexp\.weight"):
            described_family(architecture, keys, tensors | without(*lacking))


def test_ernie_has_dense_layers_and_a_bias_that_is_a_matrix_of_one_row(described_family: DescribeFamily) -> None:
    keys = EXPERTS | SHARED | {"leading_dense_block_count": 1, "interleave_moe_layer_step": 2}
    model = described_family("ernie4_5-moe", keys, without_experts(0, 2))
    assert [router is not None for router in routers(model)] == [False, True, False, True]
    dense = model.layers[0].feed_forward
    assert isinstance(dense, FeedForward) and dense.gate
    router = mixture(model, 1).router
    assert router.normalized and router.selection_bias and router.selection_bias.shape == (4,)
    as_vector = {f"blk.{i}.exp_probs_b.bias": [0.5, 0.25, 0.0, 1.0] for i in (1, 3)}
    same = mixture(described_family("ernie4_5-moe", keys, without_experts(0, 2) | as_vector), 1).router
    assert same.selection_bias and same.selection_bias.shape == (4,)
    assert same.selection_bias.data.view("<f4").tolist() == [0.5, 0.25, 0.0, 1.0]


def test_ernie_without_shared_experts_or_bias(described_family: DescribeFamily) -> None:
    """As 300B-A47B, whose files say that it has no shared expert."""
    lacking = without_experts() | without(*_SHEXP) | {f"blk.{i}.exp_probs_b.bias": None for i in range(4)}
    found = mixture(described_family("ernie4_5-moe", EXPERTS | {"expert_shared_count": 0}, lacking))
    assert found.shared is None and found.router.selection_bias is None
    with pytest.raises(ModelFileError, match=r"blk\.0\.exp_probs_b\.bias has shape \[2, 4\]"):
        bias = {"blk.0.exp_probs_b.bias": (2, 4)}
        described_family("ernie4_5-moe", EXPERTS | {"expert_shared_count": 0}, lacking | bias)


def test_a_dense_layer_of_ernie_needs_its_gate(described_family: DescribeFamily) -> None:
    keys = EXPERTS | {"leading_dense_block_count": 1}
    with pytest.raises(ModelFileError, match=r"has no tensor blk\.0\.ffn_gate\.weight"):
        described_family("ernie4_5-moe", keys, without_experts(0) | {"blk.0.ffn_gate.weight": None})


@pytest.mark.parametrize("step", [0, -1])
def test_an_interval_of_ernie_is_positive(described_family: DescribeFamily, step: int) -> None:
    with pytest.raises(ModelFileError, match=rf"interleave_moe_layer_step is {step}"):
        described_family("ernie4_5-moe", EXPERTS | {"interleave_moe_layer_step": step}, without_experts())


def test_hunyuan_norms_heads_after_rope_and_shares_an_expert(described_family: DescribeFamily) -> None:
    model = described_family("hunyuan-moe", EXPERTS | SHARED)
    attention, found = attentions(model)[0], mixture(model)
    assert attention.norm_after_rope and attention.q_norm and attention.k_norm
    assert found.router.normalized and found.shared and found.shared_gate is None


def test_phi_has_layer_norms_and_the_router_of_sparse_mixer(described_family: DescribeFamily) -> None:
    keys = EXPERTS | {"attention.layer_norm_epsilon": None, "attention.layer_norm_rms_epsilon": 0.125}
    model = described_family("phimoe", keys, {"output_norm.bias": (32,)})
    found, norm = mixture(model), attentions(model)[0].norm
    assert norm and (norm.kind, norm.eps) == (NormKind.LAYER, 0.125) and norm.bias
    assert found.norm and found.norm.bias and model.output_norm.bias and model.output_norm.kind is NormKind.LAYER
    assert found.router.scoring is Scoring.SPARSE_MIXER and not found.router.normalized
    lacking = {"blk.0.attn_norm.bias": None}
    with pytest.raises(ModelFileError, match=r"has no tensor blk\.0\.attn_norm\.bias"):
        described_family("phimoe", keys, lacking)


@pytest.mark.parametrize(
    ("keys", "magnitude"),
    [
        ({}, 1.243163121016122),
        ({"rope.scaling.attn_factor": 1.25}, 1.25),
        ({"rope.scaling.original_context_length": 2048}, 1.1902380714),
        ({"context_length": 65536}, 1.1902380714),
        ({"rope.scaling.attn_factor": None}, 1.0),
    ],
)
def test_the_magnitude_that_llama_cpp_writes_for_phi_is_that_of_another_model(
    described_family: DescribeFamily, keys: dict[str, float | None], magnitude: float
) -> None:
    """The published models have 1.2431631 in config.json, and the formula of Phi-3 gives sqrt(1 + ln 32 / ln 4096)."""
    written = {"context_length": 131072, "rope.scaling.original_context_length": 4096}
    written |= {"rope.scaling.attn_factor": 1.1902380714238083}
    factors = {f"rope_factors_{length}.weight": [1.0] * 8 for length in ("long", "short")}
    model = described_family("phimoe", EXPERTS | written | keys, {"output_norm.bias": (32,)} | factors)
    rope = attentions(model)[0].rope
    assert rope and rope.long
    assert [rope.magnitude, rope.long.magnitude] == pytest.approx([magnitude] * 2, rel=1e-6)


GEMMA4 = windowed_keys(2, [True, False]) | {
    "attention.key_length_swa": 4,
    "attention.value_length_swa": 4,
    "expert_count": 4,
    "expert_used_count": 2,
    "expert_feed_forward_length": 5,
}


def gemma4_shapes() -> Shapes:
    """Two layers of Gemma 4 with four experts of width 5."""
    width = 16
    experts = {
        "pre_ffw_norm_2.weight": (width,),
        "post_ffw_norm_1.weight": (width,),
        "post_ffw_norm_2.weight": (width,),
        "ffn_gate_inp.weight": (4, width),
        "ffn_gate_inp.scale": (width,),
        "ffn_gate_up_exps.weight": (4, 10, width),
        "ffn_down_exps.weight": (4, width, 5),
        "ffn_down_exps.scale": (4,),
    }
    shapes = plain_shapes(0)
    for i, head in enumerate((4, 8)):
        shapes |= layer_shapes(i, SANDWICH) | attention_shapes(i, head) | head_norm_shapes(i, head)
        shapes |= {f"blk.{i}.{name}": shape for name, shape in experts.items()}
    return shapes


def test_gemma4_has_experts_beside_the_feed_forward(described: Described) -> None:
    found = mixture(described("gemma4", GEMMA4, gemma4_shapes()))
    router, shared = found.router, found.shared
    assert (router.experts, router.used, router.normalized, router.logit_scale) == (4, 2, True, 0.25)
    assert router.norm and router.norm.weight and router.norm.weight.name == "blk.0.ffn_gate_inp.scale"
    assert router.expert_scales and router.expert_scales.shape == (4,)
    assert found.gate and (found.gate.first, found.gate.rows, found.up.first, found.up.rows) == (0, 5, 5, 5)
    assert shared and shared.activation is found.activation is Activation.GELU
    norms = [found.norm, shared.norm, shared.post_norm, found.sum_norm, found.post_norm]
    assert [norm and norm.weight and norm.weight.name.split(".")[2] for norm in norms] == [
        *("pre_ffw_norm_2", "ffn_norm", "post_ffw_norm_1", "post_ffw_norm_2", "post_ffw_norm")
    ]


def test_gate_and_up_of_gemma4_may_be_two_tensors(described: Described) -> None:
    shapes = gemma4_shapes()
    for i in range(2):
        del shapes[f"blk.{i}.ffn_gate_up_exps.weight"]
        shapes |= {f"blk.{i}.ffn_{x}_exps.weight": (4, 5, 16) for x in ("gate", "up")}
    found = mixture(described("gemma4", GEMMA4, shapes))
    assert found.gate and (found.gate.first, found.up.first) == (0, 0)


@pytest.mark.parametrize(
    "name", [name for name in gemma4_shapes() if "exps" in name or "inp" in name or "_norm_" in name]
)
def test_gemma4_needs_all_tensors_of_experts(described: Described, name: str) -> None:
    shapes = gemma4_shapes()
    del shapes[name]
    missing = name.replace("ffn_gate_up_exps", "ffn_gate_exps")
    with pytest.raises(ModelFileError, match=f"has no tensor {missing}"):
        described("gemma4", GEMMA4, shapes)


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        ("granitemoe", "expert_used_count is 2 of 0 experts"),
        ("ernie4_5-moe", "has no experts at key"),
        ("hunyuan-moe", "expert_used_count is 2 of 0 experts"),
    ],
)
def test_no_experts(described_family: DescribeFamily, architecture: str, message: str) -> None:
    tensors = without_experts() if architecture == "ernie4_5-moe" else {}
    with pytest.raises(ModelFileError, match=message):
        described_family(architecture, EXPERTS | SHARED | {"logit_scale": 1.0, "expert_count": 0}, tensors)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"expert_used_count": 5}, "expert_used_count is 5 of 4 experts"),
        ({"expert_used_count": 0}, "expert_used_count is 0 of 4 experts"),
        ({"expert_count": 5}, r"ffn_gate_exps\.weight has shape \[4, 24, 32\]"),
        ({"expert_feed_forward_length": 25}, r"ffn_gate_exps\.weight has shape \[4, 24, 32\]"),
        ({"expert_shared_feed_forward_length": 25}, r"ffn_gate_shexp\.weight has shape \[24, 32\]"),
    ],
)
@pytest.mark.parametrize("architecture", ["granitemoe", "ernie4_5-moe", "hunyuan-moe"])
def test_numbers_that_contradict_the_tensors(
    described_family: DescribeFamily, architecture: str, keys: dict[str, int], message: str
) -> None:
    tensors = without_experts() if architecture == "ernie4_5-moe" else {}
    with pytest.raises(ModelFileError, match=message):
        described_family(architecture, EXPERTS | SHARED | {"logit_scale": 1.0} | keys, tensors)
