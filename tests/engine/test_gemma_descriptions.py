"""What the metadata and tensors of each Gemma family say, by hand-computed values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.arch import describe
from edgellm.arch.blocks import Activation
from edgellm.gguf import GGUFFile
from support.family_file import attentions, windows
from support.gemma_families import (
    FAMILIES,
    Described,
    Keys,
    frequencies,
    gemma2_keys,
    gemma3_keys,
    gemma3n_keys,
    gemma3n_shapes,
    gemma4_keys,
    gemma4_shapes,
)
from support.gemma_files import common, plain_shapes, windowed_keys, write_shapes


def test_gemma(described: Described) -> None:
    model = described("gemma", common(2), plain_shapes(2, "attn_norm ffn_norm"))
    assert (model.embedding_scale, model.logit_soft_cap, model.logit_scale) == (4.0, None, 1.0)
    assert windows(model) == [None, None]
    assert [attention.scale for attention in attentions(model)] == [8**-0.5] * 2
    assert frequencies(attentions(model)[0]) == pytest.approx([1, 0.1, 0.01, 0.001])
    assert all(layer.feed_forward.activation is Activation.GELU for layer in model.layers if layer.feed_forward)
    assert not any(
        attention.post_norm or attention.q_norm or attention.v_norm or attention.soft_cap
        for attention in attentions(model)
    )


def test_gemma2(described: Described) -> None:
    model = described("gemma2", gemma2_keys(4), plain_shapes(4))
    assert (model.embedding_scale, model.logit_soft_cap) == (4.0, 4.0)
    assert windows(model) == [16, None, 16, None]
    assert [attention.soft_cap for attention in attentions(model)] == [5.0] * 4
    assert [attention.scale for attention in attentions(model)] == pytest.approx([8**-0.5] * 4)
    assert all(attention.post_norm and not attention.q_norm for attention in attentions(model))
    assert all(layer.feed_forward and layer.feed_forward.post_norm for layer in model.layers)
    assert len(model.position_tables) == 1


def test_gemma2_without_the_keys_of_later_converters(described: Described) -> None:
    model = described("gemma2", common(3) | {"context_length": 8192}, plain_shapes(3))
    assert windows(model) == [4096, None, 4096]
    assert (model.logit_soft_cap, attentions(model)[1].soft_cap) == (30.0, 50.0)


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
        assert [attention.scale for attention in attentions(model)] == pytest.approx([scale] * count)


def test_gemma3(described: Described) -> None:
    model = described("gemma3", gemma3_keys(7), plain_shapes(7, head_norms=True))
    assert (model.embedding_scale, model.logit_soft_cap) == (4.0, None)
    assert windows(model) == [16, 16, 16, 16, 16, None, 16]
    assert frequencies(attentions(model)[0]) == pytest.approx([1, 0.1, 0.01, 0.001])
    assert frequencies(attentions(model)[5]) == pytest.approx([1 / 8, 10**-1.5 / 8, 1e-3 / 8, 10**-4.5 / 8])
    assert all(
        attention.post_norm and attention.q_norm and attention.k_norm and not attention.v_norm
        for attention in attentions(model)
    )
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
    assert frequencies(attentions(model)[0])[1] == pytest.approx(10**-1.5 / 8)


@pytest.mark.parametrize("arch", ["gemma3", "gemma4"])
def test_windows_as_long_as_the_context_keep_their_rope(described: Described, arch: str) -> None:
    keys, shapes = FAMILIES[arch]
    model = described(arch, keys | {"attention.sliding_window": 256}, shapes, {"rope_freqs.weight": 1.0})
    assert set(windows(model)) == {None}
    assert frequencies(attentions(model)[0])[1] == pytest.approx(0.1 if arch == "gemma3" else 0.01)


def test_gemma3_with_the_tensors_of_images(described: Described) -> None:
    shapes = plain_shapes(1, head_norms=True) | {"v.patch_embd.weight": (4, 4), "mm.input_projection.weight": (4, 4)}
    assert len(described("gemma3", gemma3_keys(1), shapes).layers) == 1


def test_gemma4(described: Described) -> None:
    values: Keys = {"rope_freqs.weight": [1, 1, 1e30, 1e30], "blk.3.layer_output_scale.weight": 0.5}
    model = described("gemma4", gemma4_keys(), gemma4_shapes(), values)
    found = attentions(model)
    assert (model.embedding_scale, model.logit_soft_cap) == (4.0, 30.0)
    assert windows(model) == [16, None, 16, 16, None]
    assert [(attention.key_dim, attention.value_dim, attention.kv_heads) for attention in found[:2]] == [
        (4, 4, 2),
        (8, 8, 1),
    ]
    assert {attention.scale for attention in found} == {1.0}
    assert [attention.kv_layer for attention in found] == [None, None, None, 2, 1]
    assert [(attention.k is not None, attention.v is not None) for attention in found] == [
        (True, True),
        (True, False),
        (True, True),
        (False, False),
        (False, False),
    ]
    assert [attention.v_norm is not None for attention in found] == [True] * 3 + [False] * 2
    assert all(attention.v_norm.weight is None for attention in found[:3] if attention.v_norm)
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
    assert [attention.kv_layer for attention in attentions(model)] == [None, None]


def test_gemma3n(described: Described) -> None:
    model = described("gemma3n", gemma3n_keys(), gemma3n_shapes())
    assert (model.embedding_scale, model.logit_soft_cap) == (4.0, 30.0)
    assert windows(model) == [16, 16, 16, 16, None]
    assert {attention.scale for attention in attentions(model)} == {1.0}
    assert [layer.feed_forward.sparsity for layer in model.layers if layer.feed_forward] == [1.5, 1.5, None, 0.25, None]
    assert frequencies(attentions(model)[0]) == pytest.approx([1, 0.1, 0.01, 0.001])
    assert frequencies(attentions(model)[4]) == pytest.approx([1, 10**-1.5, 1e-3, 10**-4.5])
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
    assert [attention.kv_layer for attention in attentions(described("gemma3n", keys, gemma3n_shapes()))] == [
        None
    ] * 3 + [2, 1]
