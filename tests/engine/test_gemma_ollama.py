"""Gemma files of Ollama's converter, with a vision model beside the text model."""

import pytest

from edgellm import ModelFileError
from support.family_file import attentions
from support.gemma_families import (
    Described,
    Keys,
    frequencies,
    gemma3_keys,
    gemma3n_keys,
    gemma3n_shapes,
)
from support.gemma_files import common, plain_shapes


def test_tokens_of_images_may_have_no_embedding(described: Described) -> None:
    shapes = plain_shapes(1, head_norms=True)
    with_images = shapes | {"mm.input_projection.weight": (4, 4)}
    assert described("gemma3", gemma3_keys(1) | {"tokens": 8 + 64}, with_images).vocab == 8
    for tokens, tensors in ((9, shapes), (8 + 65, with_images), (7, with_images)):
        with pytest.raises(ModelFileError, match=f"token_embd.weight has 8 rows for {tokens} tokens"):
            described("gemma3", gemma3_keys(1) | {"tokens": tokens}, tensors)


def ollama_keys(layers: int) -> Keys:
    """The keys that Ollama's converter writes for 4B, 12B and 27B."""
    keys = common(layers) | {"attention.sliding_window": 16, "mm.tokens_per_image": 256}
    del keys["attention.layer_norm_rms_epsilon"]
    return keys


@pytest.mark.parametrize(("layers", "factor"), [(34, 8), (30, 1)])
def test_gemma3_of_ollama(described: Described, layers: int, factor: int) -> None:
    model = described("gemma3", ollama_keys(layers), plain_shapes(layers, head_norms=True))
    local, full = attentions(model)[4:6]
    assert frequencies(local) == pytest.approx([1, 0.1, 0.01, 0.001])
    assert frequencies(full) == pytest.approx([x / factor for x in (1, 10**-1.5, 1e-3, 10**-4.5)])
    assert model.output_norm.eps == pytest.approx(1e-6)


def test_gemma3_1b_of_ollama(described: Described) -> None:
    bases = {"rope.global.freq_base": 1e8, "rope.local.freq_base": 1e4}
    keys = common(26) | {"attention.sliding_window": 16, "final_logit_softcapping": 30.0} | bases
    model = described("gemma3", keys, plain_shapes(26, head_norms=True))
    assert model.logit_soft_cap is None
    assert frequencies(attentions(model)[0]) == pytest.approx([1, 0.1, 0.01, 0.001])
    assert frequencies(attentions(model)[5]) == pytest.approx([1, 0.01, 1e-4, 1e-6])


def test_keys_of_other_converters_stay(described: Described) -> None:
    keys = gemma3_keys(26) | {"final_logit_softcapping": 30.0, "rope.scaling.factor": 2.0}
    model = described("gemma3", keys, plain_shapes(26, head_norms=True))
    assert model.logit_soft_cap == 30.0
    assert frequencies(attentions(model)[5])[0] == pytest.approx(1 / 2)


def test_gemma3n_of_ollama(described: Described) -> None:
    keys = gemma3n_keys() | {"head_dim": 8, "rope.freq_base_local": 1e8}
    for key in ("attention.key_length", "attention.value_length", "rope.freq_base_swa"):
        del keys[key]
    model = described("gemma3n", keys, gemma3n_shapes())
    assert [attention.key_dim for attention in attentions(model)] == [8] * 5
    assert frequencies(attentions(model)[0]) == pytest.approx([1, 0.01, 1e-4, 1e-6])
