"""Weights of compressed-tensors and ModelOpt are those of the layouts' definitions, in any chunks of rows."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from converters import convert
from converters.checkpoint import Checkpoint
from converters.checkpoint.quantized import scaled_integers
from converters.tensors import ExactRows
from support.compressed_weights import float_quantized, int_quantized, mxfp4, nvfp4, pack_quantized
from support.make_checkpoint import Stored, write_safetensors
from support.quantized_checkpoints import Quantize, write_pair
from support.quantized_weights import QuantizedModule, stored

SHUFFLED = np.random.default_rng(0).permutation(96).tolist()
MODELOPT: dict[str, Any] = {"quant_method": "modelopt", "quant_algo": "NVFP4"}


def settings(kind: str, *schemes: dict[str, Any], **others: Any) -> dict[str, Any]:
    """A quantization_config with a group of modules for each of `schemes`."""
    groups = {f"group_{i}": {"targets": ["Linear"], "weights": each} for i, each in enumerate(schemes)}
    return {
        "quant_method": "compressed-tensors",
        "format": kind,
        "config_groups": groups,
        "ignore": ["lm_head"],
    } | others


def integers(bits: int = 4, group: int = 32, **others: Any) -> dict[str, Any]:
    """The scheme of integers, `group` as in `pack_quantized`."""
    strategy = "group" if group > 0 else "channel" if group else "tensor"
    size = group if group > 0 else None
    return {"num_bits": bits, "type": "int", "strategy": strategy, "group_size": size, "symmetric": True} | others


PACKED = settings("pack-quantized", integers())
FLOAT: dict[str, Any] = {"num_bits": 8, "type": "float"}
FP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}


def checkpoint_of(folder: Path, tensors: Mapping[str, Stored], quantization: Any) -> Checkpoint:
    """A checkpoint of these tensors alone."""
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({"quantization_config": quantization}))
    return Checkpoint.open(folder)


def check_rows(checkpoint: Checkpoint, module: QuantizedModule, name: str = "m") -> None:
    """The weights, rounded to float32, in one chunk and in several; and no part of them is a tensor."""
    source = checkpoint.source(f"{name}.weight", "t")
    wanted = module.weights.astype(np.float32)
    assert (source.shape, source.type) == (wanted.shape, "F32")
    assert not (module.tensors.keys() - {f"{name}.weight"}) & checkpoint.tensors.keys()
    last = len(wanted)
    for rows in ((0, last), (0, 1), (last - 1, last), (last // 2 - 3, last // 2 + 6), (5, last - 5)):
        assert np.array_equal(source.rows(*rows).view(np.float32), wanted[slice(*rows)])


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize(("columns", "group"), [(96, 32), (90, -1), (96, 0), (96, 128)])
def test_packed_integers(tmp_path: Path, bits: int, sym: bool, columns: int, group: int) -> None:
    """Words hold whole integers; the last of a row is filled up, and so is the last of zero points, along 61 rows."""
    module = pack_quantized("m", 61, columns, bits, group, sym=sym, dtype="F16")
    quantization = settings("pack-quantized", integers(bits, group, symmetric=sym))
    check_rows(checkpoint_of(tmp_path, module.tensors, quantization), module)


def test_integers_known_by_heart(tmp_path: Path) -> None:
    """-8 … 7 of 4 bits are 0 … 15, the first lowest; weights of a row whose scale is 0.5."""
    tensors = {
        "m.weight_packed": stored(np.array([[0x76543210, -0x01234568]], np.int32)),
        "m.weight_scale": stored(np.array([[0.5]], np.float16)),
        "m.weight_shape": stored(np.array([1, 16], np.int32)),
    }
    source = checkpoint_of(tmp_path, tensors, settings("pack-quantized", integers(4, -1))).source("m.weight", "t")
    assert source.rows(0, 1).view(np.float32).tolist() == [[n / 2 for n in range(-8, 8)]]


@pytest.mark.parametrize("sym", [True, False])
def test_order_of_activations(tmp_path: Path, sym: bool) -> None:
    module = pack_quantized("m", 64, 96, sym=sym, order=SHUFFLED)
    quantization = settings("pack-quantized", integers(symmetric=sym, actorder="group"))
    check_rows(checkpoint_of(tmp_path, module.tensors, quantization), module)


def test_an_order_that_is_not_known_yet_is_none(tmp_path: Path) -> None:
    module = pack_quantized("m", 64, 96)
    module.tensors["m.weight_g_idx"] = stored(np.full(96, -1, np.int32))
    check_rows(checkpoint_of(tmp_path, module.tensors, PACKED), module)


@pytest.mark.parametrize("kind", ["int-quantized", "naive-quantized"])
@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize(("group", "sym"), [(-1, True), (0, True), (0, False), (32, False), (-1, False)])
def test_integers_in_bytes(tmp_path: Path, kind: str, dtype: str, group: int, sym: bool) -> None:
    module = int_quantized("m", 40, 96, group, sym=sym, dtype=dtype)
    check_rows(checkpoint_of(tmp_path, module.tensors, settings(kind, integers(8, group))), module)


@pytest.mark.parametrize("kind", ["float-quantized", "naive-quantized"])
@pytest.mark.parametrize(
    ("scaling", "scheme"),
    [
        ("tensor", {"strategy": "tensor"}),
        ("channel", {"strategy": "channel"}),
        ("group", {"strategy": "group", "group_size": 32}),
        ("block", {"strategy": "block", "block_structure": [16, 32]}),
    ],
)
def test_fp8(tmp_path: Path, kind: str, scaling: Any, scheme: dict[str, Any]) -> None:
    module = float_quantized("m", 40, 100, scaling)
    check_rows(checkpoint_of(tmp_path, module.tensors, settings(kind, FLOAT | scheme)), module)


def test_zero_points_of_fp8_that_are_0(tmp_path: Path) -> None:
    module = float_quantized("m", 40, 96, "tensor")
    module.tensors["m.weight_zero_point"] = Stored("F8_E4M3", (1,), np.zeros(1, np.uint8))
    check_rows(checkpoint_of(tmp_path, module.tensors, settings("float-quantized", FLOAT)), module)


@pytest.mark.parametrize("scaling", ["tensor", "channel", "block"])
def test_fp8_of_modelopt(tmp_path: Path, scaling: Any) -> None:
    """Settings are in a file of their own. Scales of blocks, 128 x 128, have dimensions of 1 besides."""
    module = float_quantized("m", 16 if scaling == "block" else 40, 32 if scaling == "block" else 96, scaling)
    scale = module.tensors["m.weight_scale"]
    shapes = {"tensor": (), "channel": (40,), "block": (1, 1, 1, 1)}
    module.tensors["m.weight_scale"] = Stored(scale.dtype, shapes[scaling], scale.data)
    module.tensors["m.input_scale"] = stored(np.array(0.5, np.float32))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "FP8"}}))
    check_rows(checkpoint_of(tmp_path, module.tensors, None), module)


def test_blocks_of_fp8_of_modelopt(tmp_path: Path) -> None:
    codes = np.random.default_rng(1).integers(0, 100, (200, 300), np.uint8)
    scales = np.random.default_rng(2).uniform(1e-3, 1e-2, (2, 1, 3, 1)).astype(np.float32)
    tensors = {"m.weight": Stored("F8_E4M3", (200, 300), codes.ravel()), "m.weight_scale": stored(scales)}
    plain = {"m.weight": tensors["m.weight"], "m.weight_scale_inv": stored(scales.reshape(2, 3))}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    found = checkpoint_of(tmp_path / "a", tensors, {"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"})
    wanted = checkpoint_of(tmp_path / "b", plain, {"quant_method": "fp8", "weight_block_size": [128, 128]})
    ours, theirs = (each.source("m.weight", "t").rows(100, 200).view(np.float32) for each in (found, wanted))
    assert np.array_equal(ours, theirs) and ours.any()


@pytest.mark.parametrize("columns", [64, 80, 192])
@pytest.mark.parametrize(
    ("layout", "quantization"),
    [
        ("modelopt", MODELOPT),
        ("modelopt", None),
        ("compressed", settings("nvfp4-pack-quantized", FP4)),
    ],
)
def test_nvfp4(tmp_path: Path, layout: Any, quantization: Any, columns: int) -> None:
    module = nvfp4("m", 40, columns, layout)
    check_rows(checkpoint_of(tmp_path, module.tensors, quantization), module)


def test_mxfp4(tmp_path: Path) -> None:
    module = mxfp4("m", 40, 96)
    quantization = settings("mxfp4-pack-quantized", FP4)
    check_rows(checkpoint_of(tmp_path, module.tensors, quantization), module)
    scales = module.tensors["m.weight_scale"]
    module.tensors["m.weight_scale"] = Stored("F8_E8M0", scales.shape, scales.data)
    check_rows(checkpoint_of(tmp_path, module.tensors, quantization), module)


def test_groups_of_modules_with_schemes_of_their_own(tmp_path: Path) -> None:
    """The tensors of a module tell which scheme it has; modules without one are floats."""
    modules = {
        "a": pack_quantized("a", 40, 96),
        "b": pack_quantized("b", 40, 96, 8, 96, sym=False),
        "c": pack_quantized("c", 40, 96, 4, 48),
        "d": int_quantized("d", 40, 96),
        "e": float_quantized("e", 40, 96),
        "f": float_quantized("f", 40, 96, "block"),
        "g": nvfp4("g", 40, 96, "compressed"),
        "h": mxfp4("h", 40, 96),
    }
    tensors = {name: tensor for module in modules.values() for name, tensor in module.tensors.items()}
    tensors["i.weight"] = stored(np.ones((2, 3), np.float16))
    block = FLOAT | {"strategy": "block", "block_structure": [16, 32]}
    schemes = [integers(), integers(8, -1), integers(4, 48), integers(8, -1), FLOAT, block, FP4]
    checkpoint = checkpoint_of(tmp_path, tensors, settings("mixed-precision", *schemes))
    assert checkpoint.tensors.keys() == {f"{name}.weight" for name in (*modules, "i")}
    for name, module in modules.items():
        check_rows(checkpoint, module, name)


def test_mixed_precision_of_modelopt(tmp_path: Path) -> None:
    modules = {"a": nvfp4("a", 40, 64), "b": float_quantized("b", 40, 96, "tensor")}
    tensors = {name: tensor for module in modules.values() for name, tensor in module.tensors.items()}
    layers = {"a": {"quant_algo": "NVFP4", "group_size": 16}, "b": {"quant_algo": "FP8"}}
    quantization = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    checkpoint = checkpoint_of(tmp_path, tensors, quantization)
    for name, module in modules.items():
        check_rows(checkpoint, module, name)


_PAIRS: list[tuple[Quantize, dict[str, Any], dict[str, Any]]] = [
    (partial(pack_quantized, sym=False), PACKED, {"family": "qwen2"}),
    (partial(pack_quantized, bits=8, group=-1, sym=False), settings("pack-quantized", integers(8, -1)), {}),
    (partial(int_quantized, sym=False), settings("int-quantized", integers(8, -1)), {}),
    (float_quantized, settings("float-quantized", FLOAT), {"family": "qwen2"}),
    (nvfp4, MODELOPT, {}),
    (mxfp4, settings("mxfp4-pack-quantized", FP4), {}),
]


@pytest.mark.parametrize(("quantize", "quantization", "options"), _PAIRS)
def test_the_file_is_that_of_the_checkpoint_in_floats(
    tmp_path: Path, quantize: Quantize, quantization: dict[str, Any], options: dict[str, Any]
) -> None:
    """Byte by byte, so that logits are the same, where another type than that of the checkpoint is asked for."""
    quantized, exact = write_pair(tmp_path, quantize, quantization, **options)
    for kind in ("F32", "Q6_K"):
        types = [f"attn={kind}", f"ffn={kind}"]
        convert(quantized, tmp_path / "quantized.gguf", "F16", tensor_types=types, threads=2, force=True)
        convert(exact, tmp_path / "exact.gguf", "F16", tensor_types=types, threads=1, force=True)
        assert (tmp_path / "quantized.gguf").read_bytes() == (tmp_path / "exact.gguf").read_bytes()


@pytest.mark.parametrize(
    ("quantize", "scheme", "kind"),
    [
        (pack_quantized, integers(), "Q4_0"),
        (partial(pack_quantized, sym=False), integers(), "Q5_0"),
        (partial(pack_quantized, group=-1, dtype="F16"), integers(4, -1), "Q4_0"),
        (partial(pack_quantized, bits=8, group=0), integers(8, 0), "Q8_0"),
        (int_quantized, integers(8, -1), "Q8_0"),
    ],
)
def test_integers_that_a_type_holds_exactly(
    tmp_path: Path, quantize: Quantize, scheme: dict[str, Any], kind: str
) -> None:
    """The weights that the gguf package reads are those of the checkpoint, and the report knows of no error."""
    kinds = "int-quantized" if quantize is int_quantized else "pack-quantized"
    folder, _ = write_pair(tmp_path, quantize, settings(kinds, scheme), "qwen2")
    types = [f"attn={kind}", f"ffn={kind}"]
    report = convert(folder, tmp_path / "out.gguf", "F16", tensor_types=types, threads=1)
    found = {each.name: each for each in gguf.GGUFReader(tmp_path / "out.gguf").tensors}
    for stem, module, shape in (("attn_k", "self_attn.k_proj", (64, 64)), ("ffn_down", "mlp.down_proj", (64, 96))):
        tensor = found[f"blk.0.{stem}.weight"]
        wanted = quantize(f"model.layers.0.{module}", *shape).weights
        assert np.array_equal(gguf.quants.dequantize(tensor.data, tensor.tensor_type), wanted)
    assert {each.error for each in report.tensors if each.name.endswith(("attn_k.weight", "ffn_down.weight"))} == {0}


def test_types_that_hold_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales in float16 are asked for, in value if not in type; 8 bits with zero points are too wide."""
    monkeypatch.setattr(scaled_integers, "_CHUNK", 7)
    small, large = pack_quantized("m", 64, 96), pack_quantized("m", 64, 96)
    for module, scale in ((small, 2.0**-30), (large, 1e5)):
        scales = np.full((64, 3), 0.5, np.float32)
        scales[61, 2] = scale
        module.tensors["m.weight_scale"] = stored(scales)
    order = pack_quantized("m", 64, 96, order=SHUFFLED)
    cases = [
        (pack_quantized("m", 64, 96), integers(), {"Q4_0", "Q5_0"}),
        (pack_quantized("m", 64, 96, sym=False, dtype="F16"), integers(), {"Q5_0"}),
        (pack_quantized("m", 64, 96, 8), integers(8), {"Q8_0"}),
        (pack_quantized("m", 64, 96, 6, sym=False), integers(6), {"Q8_0"}),
        (pack_quantized("m", 64, 96, 8, sym=False), integers(8), set()),
        (pack_quantized("m", 64, 96, 4, 16), integers(4, 16), set()),
        (pack_quantized("m", 64, 90, 4, -1), integers(4, -1), set()),
        (order, integers(), set()),
        (small, integers(), set()),
        (large, integers(), set()),
    ]
    for module, scheme, kinds in cases:
        rows = checkpoint_of(tmp_path, module.tensors, settings("pack-quantized", scheme)).source("m.weight", "t").rows
        assert isinstance(rows, ExactRows)
        assert {kind for kind in ("Q4_0", "Q5_0", "Q8_0", "Q4_1", "Q4_K") if rows.blocks(kind)} == kinds


_NOTES: list[tuple[Quantize, dict[str, Any], str, str]] = [
    (pack_quantized, PACKED, "Q8_0", "by compressed-tensors at 4 bits in groups of 32, … ; --type Q4_0 holds"),
    (
        int_quantized,
        settings("int-quantized", integers(8, -1)),
        "F16",
        "at 8 bits with a scale for each row, … ; --type Q8_0",
    ),
    (
        partial(int_quantized, group=0),
        settings("int-quantized", integers(8, 0)),
        "Q8_0",
        "for each matrix, … ; Q8_0 holds",
    ),
    (
        float_quantized,
        settings("float-quantized", FLOAT),
        "F16",
        "by FP8 at 8 bits with a scale for each row, … ; --type",
    ),
]


@pytest.mark.parametrize(("quantize", "quantization", "mix", "words"), _NOTES)
def test_plan_and_report_say_what_was_lost(
    tmp_path: Path, quantize: Quantize, quantization: dict[str, Any], mix: str, words: str
) -> None:
    folder, _ = write_pair(tmp_path, quantize, quantization)
    note = convert(folder, tmp_path / "out.gguf", mix, dry_run=True).source_note
    assert words.replace("… ", "so the new file is at best that good") in note
