"""Experts of checkpoints, split or fused, as stacks of GGUF; what is refused, in one line, with nothing written."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from converters import convert, quantize
from converters.architectures import describe
from converters.checkpoint import Checkpoint
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile
from support.checkpoint_tokenizers import write_tokenizer
from support.families import CASES
from support.families.files import convert_case
from support.families.references import load_reference

Tensors = dict[str, NDArray[Any]]
LAYER = "model.layers.1.mlp.experts"


def checkpoint(folder: Path, name: str = "qwen3moe", change: Callable[[Tensors], None] | None = None) -> Path:
    """The checkpoint of a case in F32, after a change of its tensors."""
    folder.mkdir()
    write_tokenizer(folder, "qwen2")
    (folder / "config.json").write_text(json.dumps(CASES[name].config), encoding="utf-8")
    tensors = {key: values(key, each.shape) for key, each in load_reference(name).tensors.items()}
    if change:
        change(tensors)
    save_file(tensors, folder / "model.safetensors")
    return folder


def values(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng([*name.encode()]).standard_normal(shape, np.float32)


def contents(folder: Path) -> dict[str, tuple[tuple[int, ...], bytes]]:
    """Shape and bytes of each GGUF tensor, read in chunks that begin and end within matrices."""
    found = {}
    for source in describe(Checkpoint.open(folder))[1]:
        rows = range(0, source.row_count, 7)
        read = b"".join(source.rows(first, min(first + 7, source.row_count)).tobytes() for first in rows)
        found[source.name] = (source.shape, read)
    return found


def fuse(tensors: Tensors) -> None:
    """As transformers 5 holds experts in memory, and as training frameworks save them."""
    for layer in (f"model.layers.{i}.mlp.experts" for i in range(3)):
        gate, up, down = (
            np.stack([tensors.pop(f"{layer}.{i}.{name}_proj.weight") for i in range(8)])
            for name in ("gate", "up", "down")
        )
        tensors |= {f"{layer}.gate_up_proj": np.concatenate([gate, up], 1), f"{layer}.down_proj": down}


def test_split_and_fused_experts_are_the_same_model(tmp_path: Path) -> None:
    split = contents(checkpoint(tmp_path / "split"))
    tensors = load_file(tmp_path / "split" / "model.safetensors")
    for i, (name, stem) in enumerate((("gate", "ffn_gate"), ("up", "ffn_up"), ("down", "ffn_down"))):
        wanted = np.stack([tensors[f"{LAYER}.{i}.{name}_proj.weight"] for i in range(8)])
        assert split[f"blk.1.{stem}_exps.weight"] == (wanted.shape, wanted.tobytes()), i
    assert contents(checkpoint(tmp_path / "fused", change=fuse)) == split


def test_experts_may_be_in_any_shard(tmp_path: Path) -> None:
    whole = contents(checkpoint(tmp_path / "whole"))
    folder = checkpoint(tmp_path / "sharded")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    shards = {f"model-0000{i + 1}-of-00003.safetensors": list(tensors)[i::3] for i in range(3)}
    for file, names in shards.items():
        save_file({name: tensors[name] for name in names}, folder / file)
    index = {"weight_map": {name: file for file, names in shards.items() for name in names}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert contents(folder) == whole


def without(name: str) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.__delitem__(name)


def adding(name: str, *shape: int) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.__setitem__(name, np.ones(shape, np.float32))


def half_of_one_expert(tensors: Tensors) -> None:
    name = f"{LAYER}.2.up_proj.weight"
    tensors[name] = tensors[name].astype(np.float16)


def with_number(value: float) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[f"{LAYER}.3.up_proj.weight"][5, 7] = value

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (without(f"{LAYER}.3.up_proj.weight"), "has 7 of 8 parts of blk.1.ffn_up_exps.weight, and lacks number 3"),
        (without(f"{LAYER}.0.down_proj.weight"), "has 7 of 8 parts of blk.1.ffn_down_exps.weight, and lacks number 0"),
        (without("model.layers.2.mlp.gate.weight"), "no tensor for blk.2.ffn_gate_inp.weight"),
        (adding(f"{LAYER}.8.up_proj.weight", 32, 64), f"tensor {LAYER}.8.up_proj.weight has no place"),
        (adding(f"{LAYER}.9999.up_proj.weight", 32, 64), f"tensor {LAYER}.9999.up_proj.weight has no place"),
        (adding(f"{LAYER}.3.up_proj.weight", 32, 63), "has shape [32, 63], not [32, 64] as config.json asks"),
        (adding(f"{LAYER}.3.up_proj.weight", 8, 32, 64), "has shape [8, 32, 64], not [32, 64]"),
        (adding(f"{LAYER}.up_proj", 8, 32, 64), f"tensor {LAYER}.up_proj has no place"),
        (adding(f"{LAYER}.down_proj", 8, 64, 32), f"{LAYER}.0.down_proj.weight and {LAYER}.down_proj hold the same"),
        (adding("model.layers.1.mlp.gate.weight", 9, 64), "has shape [9, 64], not [8, 64]"),
        (half_of_one_expert, "tensor blk.1.ffn_up_exps.weight: its parts are F32 and F16"),
        (with_number(np.nan), "tensor blk.1.ffn_up_exps.weight, matrix 3, row 5, column 7: holds nan"),
        (with_number(-np.inf), "tensor blk.1.ffn_up_exps.weight, matrix 3, row 5, column 7: holds -inf"),
    ],
)
def test_damaged_experts_are_one_clear_line(tmp_path: Path, change: Callable[[Tensors], None], expected: str) -> None:
    refused(checkpoint(tmp_path / "in", change=change), expected)


def fused_with(change: Callable[[Tensors], None]) -> Callable[[Tensors], None]:
    def both(tensors: Tensors) -> None:
        fuse(tensors)
        change(tensors)

    return both


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (adding(f"{LAYER}.gate_up_proj", 8, 65, 64), "has shape [8, 65, 64], not [8, 64, 64]"),
        (adding(f"{LAYER}.gate_up_proj", 7, 64, 64), "has shape [7, 64, 64], not [8, 64, 64]"),
        (
            adding(f"{LAYER}.0.up_proj.weight", 32, 64),
            f"{LAYER}.0.up_proj.weight and {LAYER}.gate_up_proj hold the same",
        ),
        (without(f"{LAYER}.gate_up_proj"), "no tensor for blk.1.ffn_gate_exps.weight"),
    ],
)
def test_damaged_fused_experts_are_one_clear_line(
    tmp_path: Path, change: Callable[[Tensors], None], expected: str
) -> None:
    refused(checkpoint(tmp_path / "in", change=fused_with(change)), expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"num_experts": 10**9}, "num_experts is 1000000000, not a whole number from 1 to 4096"),
        ({"num_experts": 0}, "num_experts is 0, not"),
        ({"num_experts": -8}, "num_experts is -8, not"),
        ({"num_experts": "8"}, "num_experts is '8', not"),
        ({"num_experts": 4096}, "has shape [8, 64], not [4096, 64] as config.json asks"),
        ({"num_experts": 2}, "3 experts compute each token, and num_experts is 2; correct it"),
        ({"num_experts_per_tok": 2**40}, "num_experts_per_tok is 1099511627776, not"),
        ({"num_experts_per_tok": 0}, "num_experts_per_tok is 0, not"),
        ({"moe_intermediate_size": 2**40}, "moe_intermediate_size is 1099511627776, not"),
        ({"mlp_only_layers": [1]}, "layers without experts among others (decoder_sparse_step, mlp_only_layers)"),
        ({"mlp_only_layers": 7}, "mlp_only_layers is 7, not a list"),
        ({"decoder_sparse_step": 2}, "layers without experts among others"),
        ({"norm_topk_prob": False}, "weights of experts that do not add up to 1 (norm_topk_prob)"),
    ],
)
def test_a_config_of_experts_that_cannot_be(tmp_path: Path, values: Mapping[str, object], expected: str) -> None:
    refused(edited(checkpoint(tmp_path / "in"), values), expected)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("qwen2moe", {"norm_topk_prob": True}, "that add up to 1 (norm_topk_prob) are not supported"),
        ("olmoe", {"norm_topk_prob": True}, "that add up to 1 (norm_topk_prob) are not supported"),
        ("olmoe", {"clip_qkv": 8.0}, "clipped projections of q, k and v (clip_qkv)"),
        ("minimax_m2", {"scoring_func": "softmax"}, "other scores than sigmoids (scoring_func)"),
        ("minimax_m2", {"scoring_func": "dice"}, "scoring_func dice is not supported, only softmax and sigmoid"),
        ("minimax_m2", {"qk_norm_type": "per_head"}, "(qk_norm_type) are not supported"),
        ("minimax_m2", {"attn_type_list": [1, 0, 1]}, "layers of linear attention (attn_type_list)"),
        ("minimax_m2", {"rotary_dim": 64}, "rotary_dim is 64, not a whole number from 1 to 32"),
        ("mixtral", {"num_local_experts": 1}, "has no place in this llama model"),
    ],
)
def test_variants_of_families_are_refused(
    tmp_path: Path, name: str, values: Mapping[str, object], expected: str
) -> None:
    refused(edited(checkpoint(tmp_path / "in", name), values), expected)


def edited(folder: Path, values: Mapping[str, object]) -> Path:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | dict(values)
    path.write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_a_truncated_checkpoint_of_experts(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "in")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    refused(folder, "model.safetensors: is cut off or damaged")


def refused(folder: Path, expected: str) -> None:
    """The conversion raises one line that has the expected text, and leaves no file."""
    for mix in ("BF16", "Q8_0"):
        with pytest.raises(EdgeLLMError) as error:
            convert(folder, folder.parent / "out.gguf", mix)
        assert expected in str(error.value)
        assert "\n" not in str(error.value)
        assert list(folder.parent.iterdir()) == [folder]


def test_a_file_is_quantized_as_its_checkpoint_is_converted(tmp_path: Path) -> None:
    straight = convert_case(tmp_path, "wide_qwen2moe", "Q4_K_M")
    whole = tmp_path / "whole.gguf"
    convert(tmp_path / "model", whole, "BF16")
    quantize(whole, tmp_path / "detour.gguf", "Q4_K_M")
    with GGUFFile.open(straight) as wanted, GGUFFile.open(tmp_path / "detour.gguf") as found:
        stacks = {name for name, tensor in wanted.tensors.items() if len(tensor.shape) == 3}
        assert {wanted.tensors[name].type.name for name in stacks} == {"Q4_K", "Q6_K"}
        assert wanted.tensors.keys() == found.tensors.keys()
        for name, tensor in wanted.tensors.items():
            assert found.tensors[name].type == tensor.type, name
            assert np.array_equal(found.tensors[name].data, tensor.data), name
