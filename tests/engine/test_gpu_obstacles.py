"""What there is no shader for: the CPU computes it, and the plan says so."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from edgellm.arch import describe
from edgellm.arch.blocks import Activation, Attention, FeedForward, Norm, NormKind, PerLayerInput
from edgellm.arch.description import Description
from edgellm.arch.mixture import MixtureOfExperts, Scoring
from edgellm.arch.positions import AttentionTemperature
from edgellm.engine.webgpu.obstacles import KNOWN_FIELDS, _unknown_fields, obstacle
from edgellm.gguf import GGUFFile
from support.gpus import TINY
from support.model_file import ModelFile
from support.tensors import float_tensor

pytestmark = pytest.mark.gpu


@pytest.fixture
def model(model_file: ModelFile) -> Description:
    with GGUFFile.open(model_file(**(TINY | {"arch": "qwen3"}))) as file:
        return describe(file)


def obstacles(model: Description, kv_type: str = "f16") -> list[str | None]:
    return [obstacle(model, block, kv_type) for block in range(2 * len(model.layers) + 1)]


def changed(model: Description, **of_layer: Any) -> Description:
    """The model with another first layer."""
    return replace(model, layers=(replace(model.layers[0], **of_layer), *model.layers[1:]))


def parts(model: Description) -> tuple[Attention, FeedForward]:
    first = model.layers[0]
    assert first.attention
    assert first.feed_forward
    return first.attention, first.feed_forward


@pytest.mark.parametrize("gate_in_q", [False, True])
def test_what_the_shaders_know(model: Description, gate_in_q: bool) -> None:
    attention, ffn = parts(model)
    sinks = float_tensor("sinks", np.zeros(attention.heads))
    own = replace(attention, window=7, soft_cap=3.0, sinks=sinks, post_norm=attention.norm, rope=None, gate=attention.q)
    own = replace(own, gate=None, gate_in_q=True) if gate_in_q else own
    own = replace(own, temperature=AttentionTemperature(0.1, 8192), v=None, v_norm=Norm(None, None, 1e-5))
    gated = replace(ffn, gate=None, activation=Activation.GELU, norm=None, post_norm=ffn.norm)
    model = changed(model, attention=own, feed_forward=gated, output_scale=0.5)
    model = replace(model, residual_scale=0.5, logit_scale=2.0, logit_soft_cap=30.0, embedding_scale=8.0)
    assert obstacles(model) == [None] * 5
    assert obstacles(model, "q4_0") == ["KV pages of type q4_0", None] * 2 + [None]


OF_ATTENTION: dict[str, Callable[[Attention], Attention]] = {
    "attention with 22 values a head": lambda own: replace(own, key_dim=22),
    "attention with 516 values a head": lambda own: replace(own, key_dim=516, value_dim=516),
    "keys and values of different sizes": lambda own: replace(own, value_dim=8),
    "a norm of q or k alone": lambda own: replace(own, k_norm=None),
    "norms of q and k of this shape": lambda own: replace(own, q_norm=Norm(float_tensor("n", np.ones(64)), None, 1e-5)),
    "norms of values of this shape": lambda own: replace(own, v_norm=own.norm),
    "factors of matrices": lambda own: replace(own, q=replace(own.q, factor=float_tensor("f", np.ones(1)))),
    "LayerNorm of heads or behind a block": lambda own: replace(own, post_norm=replace(own.norm, kind=NormKind.LAYER)),
}


@pytest.mark.parametrize("what", OF_ATTENTION)
def test_attention_without_a_shader(model: Description, what: str) -> None:
    attention, _ = parts(model)
    assert obstacles(changed(model, attention=OF_ATTENTION[what](attention))) == [what, None, None, None, None]


def test_other_blocks_without_a_shader(model: Description) -> None:
    attention, ffn = parts(model)
    for activation in (Activation.XIELU, Activation.GELU_ERF):
        found = obstacles(changed(model, feed_forward=replace(ffn, activation=activation)))
        assert found == [None, f"the activation {activation.value}", None, None, None]
    assert obstacles(changed(model, parallel=True))[:3] == ["parallel blocks", "parallel blocks", None]
    head = replace(model, output=replace(model.output, weight=float_tensor("o", np.zeros((320, 64)), "Q4_1")))
    assert obstacles(head) == [None] * 4 + ["weights of type Q4_1"]
    reader = replace(model.layers[1], attention=replace(attention, k=None, v=None, kv_layer=0))
    both = replace(model, layers=(model.layers[0], reader))
    words = [
        "keys and values that other layers read",
        None,
        "attention over the keys and values of another layer",
        None,
    ]
    assert obstacles(both) == [*words, None]


@pytest.fixture
def mixture(model_file: ModelFile) -> Description:
    """A model of two layers with experts."""
    with GGUFFile.open(model_file(**(TINY | {"arch": "qwen3moe", "ffn": 48}))) as file:
        return describe(file)


def test_experts_that_the_shaders_know(mixture: Description) -> None:
    own = mixture.layers[0].feed_forward
    assert isinstance(own, MixtureOfExperts)
    shared = FeedForward(norm=None, gate=None, up=own.router.logits, down=own.router.logits)
    scores = float_tensor("b", np.zeros(8))
    router = replace(own.router, scoring=Scoring.SIGMOID, selection_bias=scores, expert_scales=scores, groups=4)
    router = replace(router, used_groups=2, scale=2.5, logit_scale=0.5, normalized=False)
    experts = replace(own, router=router, shared=shared, shared_gate=own.router.logits, shared_scale=0.5)
    clamped = replace(experts, activation=Activation.CLAMPED_SWIGLU, parameters=(7.0, 1.702))
    for part in (own, experts, clamped, replace(experts, gate=None)):
        assert obstacles(changed(mixture, feed_forward=part)) == [None] * 5


OF_EXPERTS: dict[str, Callable[[MixtureOfExperts], MixtureOfExperts]] = {
    "experts without a norm before them": lambda own: replace(own, norm=None),
    "factors of matrices": lambda own: replace(own, down=replace(own.down, factors=float_tensor("f", np.ones(8)))),
    "a norm of the sum of experts": lambda own: replace(own, sum_norm=own.norm),
    "a norm behind experts": lambda own: replace(own, post_norm=own.norm),
    "routers with a norm of their own": lambda own: replace(own, router=replace(own.router, norm=own.norm)),
    "routers that weigh what experts read": lambda own: replace(own, router=replace(own.router, weighs_input=True)),
    "routers of kind sparse mixer": lambda own: replace(own, router=replace(own.router, scoring=Scoring.SPARSE_MIXER)),
    "1025 experts in a layer": lambda own: replace(own, router=replace(own.router, experts=1025)),
    "the activation clamped_swiglu": lambda own: replace(own, gate=None, activation=Activation.CLAMPED_SWIGLU),
    "weights of type Q5_1": lambda own: replace(
        own, down=replace(own.down, weight=float_tensor("d", np.zeros((8, 64, 64)), "Q5_1"))
    ),
}


@pytest.mark.parametrize("what", OF_EXPERTS)
def test_experts_without_a_shader(mixture: Description, what: str) -> None:
    own = mixture.layers[0].feed_forward
    assert isinstance(own, MixtureOfExperts)
    assert obstacles(changed(mixture, feed_forward=OF_EXPERTS[what](own))) == [None, what, None, None, None]


def test_a_kind_of_block_that_is_new(model: Description) -> None:
    """Attention of another class, and any field that no shader knows, once it has a value."""
    attention, ffn = parts(model)
    other = PerLayerInput(ffn.down, ffn.down, model.output_norm)  # a class of descriptions that is no attention
    assert obstacles(changed(model, attention=other)) == ["PerLayerInput blocks", None, None, None, None]
    for part in (attention, ffn, model.layers[0], attention.norm, attention.q, attention.rope, model):
        for name in {field.name for field in fields(part)} - KNOWN_FIELDS[type(part)]:
            given = replace(part, **{name: "a new value"})
            assert list(_unknown_fields(given)), name
