"""Checkpoints of Qwen3.5 and Qwen3-Next: the order of heads, fused experts, layers for multi-token prediction."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from converters.architectures import describe
from converters.checkpoint import Checkpoint
from converters.tensors import Metadata
from edgellm.errors import EdgeLLMWarning
from support.checkpoint_tokenizers import write_tokenizer
from support.families import CASES
from support.families.references import load_reference

Tensors = dict[str, NDArray[Any]]
Change = Callable[[Tensors], None]


def converted(
    folder: Path, name: str, change: Change | None = None, step: int = 7
) -> tuple[Metadata, Tensors, Tensors]:
    """Metadata and tensors of GGUF, read `step` rows at a time, and the tensors of the checkpoint after a change."""
    folder.mkdir()
    write_tokenizer(folder, "qwen2")
    (folder / "config.json").write_text(json.dumps(CASES[name].config), encoding="utf-8")
    tensors = {
        key: np.random.default_rng([*key.encode()]).standard_normal(each.shape, np.float32)
        for key, each in load_reference(name).tensors.items()
    }
    if change:
        change(tensors)
    save_file(tensors, folder / "model.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EdgeLLMWarning)  # of the vision tower
        metadata, sources = describe(Checkpoint.open(folder))
    made = {}
    for source in sources:
        parts = [source.rows(i, min(i + step, source.row_count)) for i in range(0, source.row_count, step)]
        made[source.name] = np.concatenate(parts).view(np.float32).reshape(source.shape)
    return metadata, made, tensors


def test_heads_of_values_follow_the_key_heads_in_turn(tmp_path: Path) -> None:
    """With 2 key heads and 6 heads of values, heads 0, 3, 1, 4, 2, 5 of the checkpoint."""
    _, made, tensors = converted(tmp_path / "in", "qwen3_5")
    order, n, keys = [0, 3, 1, 4, 2, 5], 32, 64
    layer = {
        name.split("layers.0.linear_attn.")[1]: each for name, each in tensors.items() if ".0.linear_attn." in name
    }

    def of_heads(values: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([values[head * n : (head + 1) * n] for head in order])

    qkv, conv = layer["in_proj_qkv.weight"], layer["conv1d.weight"]
    assert np.array_equal(made["blk.0.attn_qkv.weight"], np.concatenate([qkv[:keys], of_heads(qkv[keys:])]))
    assert np.array_equal(made["blk.0.ssm_conv1d.weight"], np.concatenate([conv[:keys], of_heads(conv[keys:])])[:, 0])
    assert np.array_equal(made["blk.0.attn_gate.weight"], of_heads(layer["in_proj_z.weight"]))
    assert np.array_equal(made["blk.0.ssm_out.weight"], of_heads(layer["out_proj.weight"].T).T)
    assert np.array_equal(made["blk.0.ssm_alpha.weight"], layer["in_proj_a.weight"][order])
    assert np.array_equal(made["blk.0.ssm_beta.weight"], layer["in_proj_b.weight"][order])
    assert np.array_equal(made["blk.0.ssm_dt.bias"], layer["dt_bias"][order])
    assert np.allclose(made["blk.0.ssm_a"], -np.exp(layer["A_log"][order]), rtol=1e-6)
    assert np.array_equal(made["blk.0.ssm_norm.weight"], layer["norm.weight"])


def test_the_matrix_of_q_k_v_and_z_is_split_by_key_heads(tmp_path: Path) -> None:
    """Each of 2 key heads has 16 rows of q and of k, and 32 of v and of z."""
    _, made, tensors = converted(tmp_path / "in", "qwen3_next")
    first, second = np.split(tensors["model.layers.0.linear_attn.in_proj_qkvz.weight"], 2)
    parts = [np.split(each, [16, 32, 64]) for each in (first, second)]
    q, k, v, z = (np.concatenate([head[i] for head in parts]) for i in range(4))
    assert np.array_equal(made["blk.0.attn_qkv.weight"], np.concatenate([q, k, v]))
    assert np.array_equal(made["blk.0.attn_gate.weight"], z)


@pytest.mark.parametrize("name", ["qwen3_5", "qwen3_5_moe", "qwen3_next"])
def test_chunks_of_rows_make_the_same_file(tmp_path: Path, name: str) -> None:
    few, many = (converted(tmp_path / f"{step}", name, step=step)[1] for step in (1, 1 << 20))
    assert few.keys() == many.keys()
    assert all(np.array_equal(few[key], many[key]) for key in few)


def _fuse(tensors: Tensors) -> None:
    """As the published checkpoints of Qwen3.5 have experts."""
    layers = {name.split(".mlp.experts.")[0] for name in tensors if ".mlp.experts." in name}
    for layer in (f"{each}.mlp.experts" for each in layers):
        gate, up, down = (
            np.stack([tensors.pop(f"{layer}.{i}.{name}_proj.weight") for i in range(8)])
            for name in ("gate", "up", "down")
        )
        tensors |= {f"{layer}.gate_up_proj": np.concatenate([gate, up], 1), f"{layer}.down_proj": down}


def _within_model(tensors: Tensors) -> None:
    for name in [name for name in tensors if name.startswith("mtp.")]:
        tensors[f"model.{name}"] = tensors.pop(name)


@pytest.mark.parametrize("change", [_fuse, _within_model])
def test_other_names_of_the_same_tensors(tmp_path: Path, change: Change) -> None:
    as_saved, otherwise = (converted(tmp_path / f"{i}", "qwen3_next", each)[1] for i, each in enumerate((None, change)))
    assert as_saved.keys() == otherwise.keys()
    assert "blk.4.ffn_gate_exps.weight" in as_saved
    assert all(np.array_equal(values, otherwise[name]) for name, values in as_saved.items())


def _without_prediction(tensors: Tensors) -> None:
    for name in [name for name in tensors if name.startswith("mtp.")]:
        del tensors[name]


def test_layers_for_prediction_follow_the_others_where_there_are_any(tmp_path: Path) -> None:
    metadata, made, tensors = converted(tmp_path / "with", "qwen3_5")
    assert metadata["qwen35.block_count"].value == 6
    assert metadata["qwen35.nextn_predict_layers"].value == 1
    assert metadata["qwen35.attention.recurrent_layers"].value == [True, False, True, True, True, False]
    assert np.array_equal(made["blk.5.nextn.eh_proj.weight"], tensors["mtp.fc.weight"])
    assert np.array_equal(made["blk.5.nextn.hnorm.weight"], tensors["mtp.pre_fc_norm_hidden.weight"] + np.float32(1))
    assert np.array_equal(made["blk.5.nextn.shared_head_norm.weight"], tensors["mtp.norm.weight"] + np.float32(1))
    metadata, made, _ = converted(tmp_path / "without", "qwen3_5", _without_prediction)
    assert metadata["qwen35.block_count"].value == 5
    assert "qwen35.nextn_predict_layers" not in metadata
    assert metadata["qwen35.attention.recurrent_layers"].value == [True, False, True, True, True]
    assert not any(name.startswith("blk.5.") for name in made)
