"""Checkpoints with matrices in NVFP4 and MXFP4: their blocks become those of GGUF, and keep their type with any mix."""

from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from converters import convert, quantize
from converters.architectures.sources import mapped, reordered_columns, reordered_rows, reshaped, stacked
from converters.checkpoint.quantized.nvfp4 import find_nvfp4
from converters.checkpoint.shard import read_shard
from converters.quant_mixes.stored_blocks import with_stored_blocks
from converters.tensors import Source
from edgellm import Model
from edgellm.errors import EdgeLLMWarning
from edgellm.gguf import GGUFFile
from support.compressed_weights import mxfp4, nvfp4
from support.families import CASES
from support.families.references import load_reference
from support.make_checkpoint import Stored, write_safetensors
from support.oracle import llama_cpp_logits
from support.quantized_checkpoints import Quantize, write, write_pair

MODELOPT: dict[str, Any] = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
NVFP4: dict[str, Any] = {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}
MXFP4: dict[str, Any] = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}
CASES_OF: list[tuple[str, Quantize, dict[str, Any]]] = [
    ("NVFP4", nvfp4, MODELOPT),
    ("NVFP4", partial(nvfp4, layout="compressed"), NVFP4),
    ("MXFP4", mxfp4, MXFP4),
]
IDS = [1, 5, 300, 77, 12, 250, 9, 33]


def tensors_of(path: Path) -> dict[str, tuple[str, NDArray[np.float32]]]:
    """The type of each tensor, and its numbers by the gguf package."""
    return {
        each.name: (each.tensor_type.name, gguf.quants.dequantize(each.data, each.tensor_type))
        for each in gguf.GGUFReader(path).tensors
    }


@pytest.mark.parametrize(("kind", "make", "settings"), CASES_OF)
def test_weights_are_those_of_the_checkpoint(
    tmp_path: Path, kind: str, make: Quantize, settings: dict[str, Any]
) -> None:
    """Blocks times the factor, which llama.cpp names STEM.scale."""
    folder, _ = write_pair(tmp_path, make, settings, "qwen3", ffn=128)
    convert(folder, tmp_path / "out.gguf", "F16", threads=1)
    found = tensors_of(tmp_path / "out.gguf")
    shapes = {"self_attn.k_proj": (64, 64), "mlp.down_proj": (64, 128), "mlp.up_proj": (128, 64)}
    for stem, module in (("attn_k", "self_attn.k_proj"), ("ffn_down", "mlp.down_proj"), ("ffn_up", "mlp.up_proj")):
        wanted = make(f"model.layers.0.{module}", *shapes[module]).weights
        type_name, weights = found[f"blk.0.{stem}.weight"]
        assert type_name == kind
        factor = np.ones(1, np.float32)
        if kind == "NVFP4":
            type_name, factor = found[f"blk.0.{stem}.scale"]
            assert (type_name, factor.shape) == ("F32", (1,))
        assert np.array_equal(weights.astype(np.float64) * factor.astype(np.float64), wanted)
    assert {name for name in found if name.endswith(".scale")} == (
        {name.replace("weight", "scale") for name, (type_name, _) in found.items() if type_name == "NVFP4"}
    )


@pytest.mark.parametrize(("kind", "make", "settings"), CASES_OF)
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_logits_are_those_of_floats_and_of_llama_cpp(
    tmp_path: Path, kind: str, make: Quantize, settings: dict[str, Any], family: str
) -> None:
    """llama.cpp reads the same file. It rounds activations to 8 bits, and so does edgellm, in its own way."""
    folder, exact = write_pair(tmp_path, make, settings, family, ffn=128, head_dim=16, layers=2)
    convert(folder, tmp_path / "out.gguf", "F16", threads=2)
    convert(exact, tmp_path / "exact.gguf", "F16", tensor_types=["attn=F32", "ffn=F32"], threads=2)
    with Model.open(tmp_path / "out.gguf") as model, Model.open(tmp_path / "exact.gguf") as floats:
        ours, wanted = model.logits(IDS), floats.logits(IDS)
    for found in (ours, llama_cpp_logits(tmp_path / "out.gguf", IDS)):
        assert np.linalg.norm(found - wanted) < 0.05 * np.linalg.norm(wanted)
    assert np.linalg.norm(wanted) > 0


@pytest.mark.parametrize(("mix", "number"), [("F16", 39), ("BF16", 39), ("Q8_0", 7), ("Q4_K_M", 15)])
def test_matrices_keep_their_type_with_any_mix(tmp_path: Path, mix: str, number: int) -> None:
    """All but that of 96 columns, which are no whole blocks. With floats NVFP4 is the type of the file."""
    folder, _ = write_pair(tmp_path, nvfp4, MODELOPT)
    report = convert(folder, tmp_path / "out.gguf", mix, threads=1)
    types = {name: kind for name, (kind, _) in tensors_of(tmp_path / "out.gguf").items() if name.startswith("blk.")}
    assert types.pop("blk.0.ffn_down.weight") != "NVFP4" and "blk.0.ffn_down.scale" not in types
    assert {kind for name, kind in types.items() if "norm" not in name and "scale" not in name} == {"NVFP4"}
    assert {each.error for each in report.tensors if each.type == "NVFP4"} == {0}
    with GGUFFile.open(tmp_path / "out.gguf") as file:
        assert file.get_int("general.file_type") == number


def test_a_note_says_that_the_file_holds_what_the_checkpoint_has(tmp_path: Path) -> None:
    folder, _ = write_pair(tmp_path, nvfp4, MODELOPT, ffn=128)
    note = convert(folder, tmp_path / "out.gguf", "Q8_0", dry_run=True).source_note
    assert note.endswith(
        "by NVFP4 at 4 bits in groups of 16, so the new file is at best that good; NVFP4 holds its weights exactly"
    )


def test_an_exception_gives_matrices_another_type(tmp_path: Path) -> None:
    """These are made of floats, with the factor in them."""
    folder, exact = write_pair(tmp_path, nvfp4, MODELOPT, ffn=128)
    for each in (folder, exact):
        convert(each, tmp_path / f"{each.parent.name}.gguf", "F16", tensor_types=["ffn_up=Q8_0"], threads=1)
    found, wanted = (tensors_of(tmp_path / f"{name}.gguf") for name in ("quantized", "exact"))
    assert "blk.0.ffn_up.scale" not in found and "blk.0.ffn_gate.scale" in found
    kind, weights = found["blk.0.ffn_up.weight"]
    assert kind == "Q8_0" and np.array_equal(weights, wanted["blk.0.ffn_up.weight"][1])


def test_an_exception_that_names_their_own_type_keeps_them(tmp_path: Path) -> None:
    """They are not made anew of floats."""
    folder, _ = write_pair(tmp_path, nvfp4, MODELOPT, ffn=128)
    for name, types in (("out", ["attn=NVFP4", "ffn=NVFP4"]), ("kept", [])):
        convert(folder, tmp_path / f"{name}.gguf", "F16", tensor_types=types, threads=1)
    assert (tmp_path / "out.gguf").read_bytes() == (tmp_path / "kept.gguf").read_bytes()


def test_a_file_with_them_is_quantized_without_a_loss_in_them(tmp_path: Path) -> None:
    folder, _ = write_pair(tmp_path, nvfp4, MODELOPT, ffn=128)
    convert(folder, tmp_path / "floats.gguf", "F16", threads=1)
    quantize(tmp_path / "floats.gguf", tmp_path / "out.gguf", "Q8_0", threads=1)
    convert(folder, tmp_path / "direct.gguf", "Q8_0", threads=1)
    assert (tmp_path / "out.gguf").read_bytes() == (tmp_path / "direct.gguf").read_bytes()


def test_experts_have_a_factor_each(tmp_path: Path) -> None:
    """Mixtral: each matrix of experts is a module of its own."""
    config = CASES["mixtral"].config
    tensors = dict[str, Stored]()
    modules = {}
    for name, each in load_reference("mixtral").tensors.items():
        module = name.removesuffix(".weight")
        if name.endswith((".w1.weight", ".w2.weight", ".w3.weight")) and each.shape[1] % 64 == 0:
            modules[module] = nvfp4(module, *each.shape)
            tensors |= modules[module].tensors
        else:
            tensors[name] = Stored("BF16", each.shape, each.bfloat16(name))
    write(tmp_path / "model", "qwen2", {**config, "quantization_config": MODELOPT}, tensors)
    convert(tmp_path / "model", tmp_path / "out.gguf", "BF16", threads=2)
    found = tensors_of(tmp_path / "out.gguf")
    kind, weights = found["blk.1.ffn_gate_exps.weight"]
    factors = found["blk.1.ffn_gate_exps.scale"][1]
    assert kind == "NVFP4" and len({*factors.tolist()}) == len(weights) == config["num_local_experts"]
    for i, (blocks, factor) in enumerate(zip(weights, factors, strict=True)):
        wanted = modules[f"model.layers.1.block_sparse_moe.experts.{i}.w1"].weights
        assert np.array_equal(blocks * np.float64(factor), wanted)
    ids = [*IDS[:2], 7, 3]
    theirs = llama_cpp_logits(tmp_path / "out.gguf", ids)
    with Model.open(tmp_path / "out.gguf") as model:
        assert np.linalg.norm(model.logits(ids) - theirs) < 0.05 * np.linalg.norm(theirs)


def test_a_warning_where_llama_cpp_does_not_multiply_by_factors(tmp_path: Path) -> None:
    """Its converter writes such files, but its graph of Qwen2 lacks those of feed-forwards. edgellm has them."""
    folder, exact = write_pair(tmp_path, nvfp4, MODELOPT, "qwen2", ffn=128, head_dim=16)
    with pytest.warns(EdgeLLMWarning, match="llama.cpp does not multiply by the factors of NVFP4 matrices in qwen2"):
        convert(folder, tmp_path / "out.gguf", "F16", threads=2)
    convert(folder, tmp_path / "other.gguf", "F16", tensor_types=["attn=Q8_0", "ffn=Q8_0"], threads=2)
    convert(exact, tmp_path / "exact.gguf", "F16", tensor_types=["attn=F32", "ffn=F32"], threads=2)
    with Model.open(tmp_path / "out.gguf") as model, Model.open(tmp_path / "exact.gguf") as floats:
        ours, wanted = model.logits(IDS), floats.logits(IDS)
    assert np.linalg.norm(ours - wanted) < 0.05 * np.linalg.norm(wanted)


def test_blocks_are_kept_in_places_that_have_factors_alone(tmp_path: Path) -> None:
    """Rows in another order, and stacks of matrices, are blocks; changed numbers and other places are floats."""
    write_safetensors(tmp_path / "model.safetensors", nvfp4("a", 40, 128).tensors | nvfp4("b", 40, 128).tensors)
    (one, other) = find_nvfp4(read_shard(tmp_path / "model.safetensors"))
    order = np.random.default_rng(0).permutation(40)

    def kept(source: Source) -> list[Source]:
        found = with_stored_blocks([source], "llama", [])
        return found if found[0].type == "NVFP4" else []

    up = Source("blk.0.ffn_up.weight", one.shape, "F32", one.reader())
    blocks, factor = kept(up)
    assert (factor.name, factor.shape, factor.type) == ("blk.0.ffn_up.scale", (1,), "F32")
    whole = blocks.rows(0, 40)
    assert whole.shape == (40, 72)
    assert np.array_equal(np.concatenate([blocks.rows(0, 7), blocks.rows(7, 40)]), whole)
    assert np.array_equal(kept(reordered_rows(up, order))[0].rows(3, 30), whole[order][3:30])
    second = Source("x", other.shape, "F32", other.reader())
    stack, factors = kept(stacked("blk.0.ffn_up_exps.weight", [up, second]))
    assert (stack.shape, factors.shape) == ((2, 40, 128), (2,))
    assert np.array_equal(stack.rows(30, 50)[:10], whole[30:])
    assert [len(kept(each)) for each in (reshaped(up, (1, 40, 128)), reshaped(up, (4, 10, 128)))] == [2, 0]
    floats = Source("x", one.shape, "F32", lambda first, last: one.reader()(first, last))
    for changed in (
        mapped(up, lambda values: 2 * values),
        reordered_columns(up, np.arange(128)[::-1]),
        stacked("blk.0.ffn_up_exps.weight", [up, floats]),
        Source("blk.0.attn_k_b.weight", one.shape, "F32", one.reader()),
        Source("blk.0.ffn_gate_inp.weight", one.shape, "F32", one.reader()),
        Source("token_embd.weight", one.shape, "F32", one.reader()),
    ):
        assert kept(changed) == []
    exact = nvfp4("a", 40, 128).weights.astype(np.float32)
    assert np.array_equal(mapped(up, lambda values: values).rows(0, 40).view(np.float32), exact)
