"""What the metadata and tensors of each Gemma family say, by hand-computed values, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import EdgeLLMError, ModelFileError, UnsupportedModelError
from edgellm.arch import describe
from edgellm.arch.blocks import Activation, Attention
from edgellm.arch.description import Description
from edgellm.arch.positions import RopeType
from edgellm.gguf import GGUFFile
from support.gemma_files import (
    SANDWICH,
    Shapes,
    altup_shapes,
    attention_shapes,
    common,
    head_norm_shapes,
    layer_shapes,
    per_layer_shapes,
    plain_shapes,
    windowed_keys,
    write_shapes,
)

Keys = dict[str, Any]
Described = Callable[..., Description]


@pytest.fixture
def described(tmp_path: Path) -> Described:
    """`described(arch, keys, shapes, values)`: the description of such a file."""

    def read(arch: str, keys: Keys, shapes: Shapes, values: Keys | None = None) -> Description:
        with GGUFFile.open(write_shapes(tmp_path / "m.gguf", arch, keys, shapes, values or {})) as file:
            return describe(file)

    return read


def mixers(model: Description) -> list[Attention]:
    """The attention of all layers."""
    return [layer.mixer for layer in model.layers if layer.mixer]


def windows(model: Description) -> list[int | None]:
    return [mixer.window for mixer in mixers(model)]


def frequencies(mixer: Attention) -> list[float]:
    assert mixer.rope and mixer.rope.rope_type is RopeType.NEOX
    return [float(value) for value in mixer.rope.frequencies]


def gemma2_keys(layers: int) -> Keys:
    caps = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 4.0}
    return common(layers) | caps | {"attention.sliding_window": 16}


def gemma3_keys(layers: int) -> Keys:
    scaling = {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0, "rope.freq_base": 1e6}
    return common(layers) | scaling | {"rope.freq_base_swa": 1e4, "attention.sliding_window": 16}


# Layers 0 and 2 with windows (heads of 4 values, 2 KV heads), layer 1 without (heads of 8, K = V); layers 3 and 4
# read the keys and values of layers 2 and 1.
GEMMA4_WINDOWED = [True, False, True, True, False]


def gemma4_keys() -> Keys:
    return windowed_keys(5, GEMMA4_WINDOWED, shared=2) | {
        "attention.key_length_swa": 4,
        "attention.value_length_swa": 4,
        "attention.head_count_kv": [2, 1, 2, 2, 1],
        "feed_forward_length": [24, 24, 24, 48, 48],
        "rope.dimension_count": 8,
        "rope.dimension_count_swa": 4,
        "embedding_length_per_layer_input": 4,
        "final_logit_softcapping": 30.0,
    }


def gemma4_shapes() -> Shapes:
    shapes = per_layer_shapes(5, 4) | {"token_embd.weight": (8, 16), "output_norm.weight": (16,)}
    shapes["rope_freqs.weight"] = (4,)
    for i, windowed in enumerate(GEMMA4_WINDOWED):
        sizes = {"key_dim": 4, "kv_heads": 2} if windowed else {"key_dim": 8, "kv_heads": 1}
        shapes |= attention_shapes(i, **sizes) | head_norm_shapes(i, sizes["key_dim"])
        shapes |= layer_shapes(i, SANDWICH, 48 if i > 2 else 24)
    del shapes["blk.1.attn_v.weight"]
    for name in ("attn_k", "attn_v", "attn_k_norm"):
        del shapes[f"blk.4.{name}.weight"]  # layer 3 has them, as conversions of the published checkpoints do
    return shapes | {f"blk.{i}.layer_output_scale.weight": (1,) for i in range(5)}


def gemma3n_keys() -> Keys:
    return windowed_keys(5, [True, True, True, True, False]) | {
        "embedding_length_per_layer_input": 4,
        "altup.active_idx": 0,
        "altup.num_inputs": 4,
        "activation_sparsity_scale": [1.5, 1.5, float("-inf"), 0.25, float("-inf")],
    }


def gemma3n_shapes() -> Shapes:
    return plain_shapes(5, head_norms=True) | per_layer_shapes(5, 4) | altup_shapes(5)


def test_gemma(described: Described) -> None:
    model = described("gemma", common(2), plain_shapes(2, "attn_norm ffn_norm"))
    assert (model.embedding_scale, model.logit_soft_cap, model.logit_scale) == (4.0, None, 1.0)
    assert windows(model) == [None, None]
    assert [mixer.scale for mixer in mixers(model)] == [8**-0.5] * 2
    assert frequencies(mixers(model)[0]) == pytest.approx([1, 0.1, 0.01, 0.001])
    assert all(layer.feed_forward.activation is Activation.GELU for layer in model.layers if layer.feed_forward)
    assert not any(mixer.post_norm or mixer.q_norm or mixer.v_norm or mixer.soft_cap for mixer in mixers(model))


def test_gemma2(described: Described) -> None:
    model = described("gemma2", gemma2_keys(4), plain_shapes(4))
    assert (model.embedding_scale, model.logit_soft_cap) == (4.0, 4.0)
    assert windows(model) == [16, None, 16, None]
    assert [mixer.soft_cap for mixer in mixers(model)] == [5.0] * 4
    assert [mixer.scale for mixer in mixers(model)] == pytest.approx([8**-0.5] * 4)
    assert all(mixer.post_norm and not mixer.q_norm for mixer in mixers(model))
    assert all(layer.feed_forward and layer.feed_forward.post_norm for layer in model.layers)
    assert len(model.position_tables) == 1


def test_gemma2_without_the_keys_of_later_converters(described: Described) -> None:
    model = described("gemma2", common(3) | {"context_length": 8192}, plain_shapes(3))
    assert windows(model) == [4096, None, 4096]
    assert (model.logit_soft_cap, mixers(model)[1].soft_cap) == (30.0, 50.0)


@pytest.mark.parametrize(("arch", "layers"), [("gemma2", 46), ("gemma3", 62)])
def test_only_the_number_of_layers_tells_27b(described: Described, arch: str, layers: int) -> None:
    for count, scale in ((layers, 6**-0.5), (layers - 1, 8**-0.5)):
        keys = common(count) | {"attention.head_count": 2, "attention.sliding_window": 16}
        shapes = plain_shapes(count, head_norms=arch == "gemma3")
        wide = {
            name: tuple(12 if n == 16 and "attn_q.w" not in name else n for n in shape)
            for name, shape in shapes.items()
        }
        wide |= {f"blk.{i}.attn_q.weight": (16, 12) for i in range(count)}
        wide |= {f"blk.{i}.attn_output.weight": (12, 16) for i in range(count)}
        model = described(arch, keys | {"embedding_length": 12}, wide)
        assert [mixer.scale for mixer in mixers(model)] == pytest.approx([scale] * count)


def test_gemma3(described: Described) -> None:
    model = described("gemma3", gemma3_keys(7), plain_shapes(7, head_norms=True))
    assert (model.embedding_scale, model.logit_soft_cap) == (4.0, None)
    assert windows(model) == [16, 16, 16, 16, 16, None, 16]
    assert frequencies(mixers(model)[0]) == pytest.approx([1, 0.1, 0.01, 0.001])
    assert frequencies(mixers(model)[5]) == pytest.approx([1 / 8, 10**-1.5 / 8, 1e-3 / 8, 10**-4.5 / 8])
    assert all(mixer.post_norm and mixer.q_norm and mixer.k_norm and not mixer.v_norm for mixer in mixers(model))
    assert len(model.position_tables) == 2
    assert model.kv_groups == (16, None)


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [([True, False, False], [16, None, None]), (2, [16, None, 16]), (1, [None] * 3), (0, [16] * 3)],
)
def test_gemma3_with_a_pattern(described: Described, pattern: Any, wanted: list[int | None]) -> None:
    keys = gemma3_keys(3) | {"attention.sliding_window_pattern": pattern}
    assert windows(described("gemma3", keys, plain_shapes(3, head_norms=True))) == wanted


def test_gemma3_without_a_window_has_one_rope(described: Described) -> None:
    keys = gemma3_keys(3) | {"final_logit_softcapping": 30.0}
    del keys["attention.sliding_window"]
    model = described("gemma3", keys, plain_shapes(3, head_norms=True))
    assert windows(model) == [None] * 3
    assert model.logit_soft_cap == 30.0
    assert frequencies(mixers(model)[0])[1] == pytest.approx(10**-1.5 / 8)


@pytest.mark.parametrize("arch", ["gemma3", "gemma4"])
def test_windows_as_long_as_the_context_keep_their_rope(described: Described, arch: str) -> None:
    keys, shapes = FAMILIES[arch]
    model = described(arch, keys | {"attention.sliding_window": 256}, shapes, {"rope_freqs.weight": 1.0})
    assert set(windows(model)) == {None}
    assert frequencies(mixers(model)[0])[1] == pytest.approx(0.1 if arch == "gemma3" else 0.01)


def test_gemma3_with_the_tensors_of_images(described: Described) -> None:
    shapes = plain_shapes(1, head_norms=True) | {"v.patch_embd.weight": (4, 4), "mm.input_projection.weight": (4, 4)}
    assert len(described("gemma3", gemma3_keys(1), shapes).layers) == 1


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
    local, full = mixers(model)[4:6]
    assert frequencies(local) == pytest.approx([1, 0.1, 0.01, 0.001])
    assert frequencies(full) == pytest.approx([x / factor for x in (1, 10**-1.5, 1e-3, 10**-4.5)])
    assert model.output_norm.eps == pytest.approx(1e-6)


def test_gemma3_1b_of_ollama(described: Described) -> None:
    bases = {"rope.global.freq_base": 1e8, "rope.local.freq_base": 1e4}
    keys = common(26) | {"attention.sliding_window": 16, "final_logit_softcapping": 30.0} | bases
    model = described("gemma3", keys, plain_shapes(26, head_norms=True))
    assert model.logit_soft_cap is None
    assert frequencies(mixers(model)[0]) == pytest.approx([1, 0.1, 0.01, 0.001])
    assert frequencies(mixers(model)[5]) == pytest.approx([1, 0.01, 1e-4, 1e-6])


def test_keys_of_other_converters_stay(described: Described) -> None:
    keys = gemma3_keys(26) | {"final_logit_softcapping": 30.0, "rope.scaling.factor": 2.0}
    model = described("gemma3", keys, plain_shapes(26, head_norms=True))
    assert model.logit_soft_cap == 30.0
    assert frequencies(mixers(model)[5])[0] == pytest.approx(1 / 2)


def test_gemma3n_of_ollama(described: Described) -> None:
    keys = gemma3n_keys() | {"head_dim": 8, "rope.freq_base_local": 1e8}
    for key in ("attention.key_length", "attention.value_length", "rope.freq_base_swa"):
        del keys[key]
    model = described("gemma3n", keys, gemma3n_shapes())
    assert [mixer.key_dim for mixer in mixers(model)] == [8] * 5
    assert frequencies(mixers(model)[0]) == pytest.approx([1, 0.01, 1e-4, 1e-6])


def test_gemma4(described: Described) -> None:
    values: Keys = {"rope_freqs.weight": [1, 1, 1e30, 1e30], "blk.3.layer_output_scale.weight": 0.5}
    model = described("gemma4", gemma4_keys(), gemma4_shapes(), values)
    found = mixers(model)
    assert (model.embedding_scale, model.logit_soft_cap) == (4.0, 30.0)
    assert windows(model) == [16, None, 16, 16, None]
    assert [(mixer.key_dim, mixer.value_dim, mixer.kv_heads) for mixer in found[:2]] == [(4, 4, 2), (8, 8, 1)]
    assert {mixer.scale for mixer in found} == {1.0}
    assert [mixer.kv_layer for mixer in found] == [None, None, None, 2, 1]
    assert [(mixer.k is not None, mixer.v is not None) for mixer in found] == [
        (True, True),
        (True, False),
        (True, True),
        (False, False),
        (False, False),
    ]
    assert [mixer.v_norm is not None for mixer in found] == [True] * 3 + [False] * 2
    assert all(mixer.v_norm.weight is None for mixer in found[:3] if mixer.v_norm)
    assert frequencies(found[0]) == pytest.approx([1, 0.01])
    assert frequencies(found[1]) == pytest.approx([1, 10**-1.5, 0, 0], abs=1e-20)
    assert [layer.output_scale for layer in model.layers] == [0, 0, 0, 0.5, 0]
    widths = [layer.feed_forward.up.weight.shape[0] for layer in model.layers if layer.feed_forward]
    assert widths == [24, 24, 24, 48, 48]
    assert model.kv_groups == (16, None)


def test_per_layer_embeddings_of_gemma4(described: Described) -> None:
    model = described("gemma4", gemma4_keys(), gemma4_shapes(), {"rope_freqs.weight": 1.0})
    embeddings = model.per_layer_embeddings
    assert embeddings
    assert (embeddings.width, embeddings.table_scale, embeddings.projection_scale) == (4, 2.0, 0.25)
    assert (embeddings.table.shape, embeddings.projection.weight.shape) == ((8, 20), (20, 16))
    assert all(layer.per_layer_input for layer in model.layers)
    assert not any(layer.laurel or layer.altup for layer in model.layers)


def test_gemma4_without_per_layer_embeddings_and_shared_layers(described: Described) -> None:
    keys = windowed_keys(2, [True, False]) | {"embedding_length_per_layer_input": 0}
    shapes = plain_shapes(2, head_norms=True)
    model = described("gemma4", keys | {"attention.key_length_swa": 8}, shapes)
    assert model.per_layer_embeddings is None
    assert not any(layer.per_layer_input for layer in model.layers)
    assert [layer.output_scale for layer in model.layers] == [1.0, 1.0]
    assert [mixer.kv_layer for mixer in mixers(model)] == [None, None]


def test_gemma3n(described: Described) -> None:
    model = described("gemma3n", gemma3n_keys(), gemma3n_shapes())
    assert (model.embedding_scale, model.logit_soft_cap) == (4.0, 30.0)
    assert windows(model) == [16, 16, 16, 16, None]
    assert {mixer.scale for mixer in mixers(model)} == {1.0}
    assert [layer.feed_forward.sparsity for layer in model.layers if layer.feed_forward] == [1.5, 1.5, None, 0.25, None]
    assert frequencies(mixers(model)[0]) == pytest.approx([1, 0.1, 0.01, 0.001])
    assert frequencies(mixers(model)[4]) == pytest.approx([1, 10**-1.5, 1e-3, 10**-4.5])
    assert model.streams
    assert [each.weight.shape for each in model.streams.projections] == [(16, 16)] * 3
    assert all(layer.altup and layer.laurel and layer.per_layer_input for layer in model.layers)


def test_streams_are_the_parts_of_their_tensor(described: Described, tmp_path: Path) -> None:
    stacked = np.arange(3 * 16 * 16, dtype=np.float32).reshape(3, 16, 16)
    with GGUFFile.open(
        write_shapes(tmp_path / "s.gguf", "gemma3n", gemma3n_keys(), gemma3n_shapes(), {"altup_proj.weight": stacked})
    ) as file:
        model = describe(file)
        assert model.streams
        for matrix, wanted in zip(model.streams.projections, stacked, strict=True):
            assert (matrix.weight.data.view(np.float32).reshape(16, 16) == wanted).all()
        del model, matrix


def test_gemma3n_shares_keys_and_values_as_the_file_says(described: Described) -> None:
    keys = gemma3n_keys() | {
        "attention.shared_kv_layers": 2,
        "attention.sliding_window_pattern": [True, False, True, True, False],
    }
    assert [mixer.kv_layer for mixer in mixers(described("gemma3n", keys, gemma3n_shapes()))] == [None] * 3 + [2, 1]


FAMILIES: dict[str, tuple[Keys, Shapes]] = {
    "gemma2": (gemma2_keys(2), plain_shapes(2)),
    "gemma3": (gemma3_keys(2), plain_shapes(2, head_norms=True)),
    "gemma3n": (gemma3n_keys(), gemma3n_shapes()),
    "gemma4": (gemma4_keys(), gemma4_shapes()),
}
# The architecture, keys to change, and words of the error.
WRONG_KEYS: list[tuple[str, Keys, str]] = [
    ("gemma2", {"attn_logit_softcapping": -1.0}, "gemma2.attn_logit_softcapping is -1.0"),
    (
        "gemma3",
        {"attention.sliding_window_pattern": [True]},
        "gemma3.attention.sliding_window_pattern must be an array of 2",
    ),
    ("gemma3", {"rope.freq_base_swa": 0.0}, "gemma3.rope.freq_base_swa is 0.0"),
    ("gemma4", {"attention.sliding_window_pattern": [True] * 4}, "must be an array of 5 integers"),
    ("gemma4", {"attention.sliding_window_pattern": 6}, "has no array gemma4.attention.sliding_window_pattern"),
    ("gemma4", {"attention.sliding_window": 0}, "no gemma4.attention.sliding_window above 0"),
    ("gemma4", {"attention.head_count_kv": [2, 1, 2, 2]}, "gemma4.attention.head_count_kv must be an array of 5"),
    ("gemma4", {"attention.head_count_kv": [2, 1, 2, 1, 1]}, "no layer has keys and values for layer 3"),
    ("gemma4", {"attention.shared_kv_layers": 4}, "no layer has keys and values for layer 1"),
    ("gemma4", {"attention.shared_kv_layers": 5}, "gemma4.attention.shared_kv_layers is 5 of 5 layers"),
    ("gemma4", {"attention.value_length": 4}, "no tensor blk.1.attn_v.weight"),
    ("gemma4", {"rope.dimension_count_swa": 6}, "gemma4.rope.dimension_count_swa is 6, but a head has 4"),
    ("gemma4", {"feed_forward_length": [24] * 4}, "gemma4.feed_forward_length must be an array of 5"),
    ("gemma4", {"embedding_length_per_layer_input": 1 << 17}, "embedding_length_per_layer_input is 131072"),
    ("gemma4", {"embedding_length_per_layer_input": 8}, "blk.0.inp_gate.weight has shape [4, 16]"),
    ("gemma3n", {"activation_sparsity_scale": [1.5] * 4}, "activation_sparsity_scale must be 5 numbers below 100"),
    ("gemma3n", {"activation_sparsity_scale": [float("nan")] * 5}, "must be 5 numbers below 100"),
    ("gemma3n", {"embedding_length_per_layer_input": 0}, "gemma3n.embedding_length_per_layer_input"),
]


def refused(described: Described, arch: str, keys: Keys, shapes: Shapes, kind: type[EdgeLLMError], words: str) -> None:
    """Reading says `words` in one line."""
    first, more = FAMILIES[arch]
    values = {"rope_freqs.weight": 1.0}
    kept = {name: shape for name, shape in (more | shapes).items() if shape}
    with pytest.raises(kind) as error:
        described(arch, first | keys, kept, values)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arch", "keys", "words"), WRONG_KEYS, ids=[f"{arch} {words}" for arch, _, words in WRONG_KEYS]
)
def test_metadata_that_cannot_be(described: Described, arch: str, keys: Keys, words: str) -> None:
    refused(described, arch, keys, {}, ModelFileError, words)


@pytest.mark.parametrize(
    ("arch", "name", "shape", "words"),
    [
        ("gemma4", "blk.2.layer_output_scale.weight", (2,), "blk.2.layer_output_scale.weight has shape [2]"),
        ("gemma4", "per_layer_token_embd.weight", (8, 16), "per_layer_token_embd.weight has shape [8, 16]"),
        ("gemma4", "per_layer_proj_norm.weight", (), "no tensor per_layer_proj_norm.weight"),
        ("gemma3n", "blk.1.laurel_l.weight", (32, 16), "blk.1.laurel_l.weight has shape [32, 16]"),
        ("gemma3n", "altup_proj.weight", (2, 16, 16), "altup_proj.weight has shape [2, 16, 16]"),
        ("gemma3n", "blk.0.altup_predict_coef.weight", (4, 4), "altup_predict_coef.weight has shape [4, 4]"),
        ("gemma3", "blk.1.post_ffw_norm.weight", (), "no tensor blk.1.post_ffw_norm.weight"),
    ],
)
def test_tensors_that_cannot_be(described: Described, arch: str, name: str, shape: tuple[int, ...], words: str) -> None:
    refused(described, arch, {}, {name: shape}, ModelFileError, words)


@pytest.mark.parametrize(
    ("arch", "keys", "words"),
    [
        ("gemma4", {"expert_count": 8}, "gemma4 with a mixture of experts"),
        ("gemma3", {"attention.causal": 0}, "attention.causal"),
        ("gemma3n", {"altup.num_inputs": 2}, "stream 0 of 2 is active; only the first of 4"),
        ("gemma3n", {"altup.active_idx": 1}, "stream 1 of 4 is active; only the first of 4"),
    ],
)
def test_variants_are_refused_by_name(described: Described, arch: str, keys: Keys, words: str) -> None:
    kind = ModelFileError if "causal" in words else UnsupportedModelError
    refused(described, arch, keys, {}, kind, words)


def test_a_scale_that_is_no_number(described: Described) -> None:
    values = {"rope_freqs.weight": 1.0, "blk.0.layer_output_scale.weight": float("nan")}
    with pytest.raises(ModelFileError, match=r"blk\.0\.layer_output_scale\.weight is nan"):
        described("gemma4", gemma4_keys(), gemma4_shapes(), values)
