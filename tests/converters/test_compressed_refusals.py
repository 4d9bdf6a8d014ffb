"""Weights of compressed-tensors and ModelOpt that cannot be read: the error is one line that names the tensor."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as options
from hypothesis import strategies as st

from converters.checkpoint import Checkpoint
from converters.tensors import ExactRows
from edgellm.errors import ModelFileError
from support.checkpoint_numbers import WIDTH
from support.compressed_weights import float_quantized, int_quantized, mxfp4, nvfp4, pack_quantized
from support.make_checkpoint import Stored, write_safetensors
from support.quantized_damage import Change, changed, error_of, groups, read, singles, words
from support.quantized_weights import stored


def settings(kind: str, *schemes: dict[str, Any], **others: Any) -> dict[str, Any]:
    groups = {f"group_{i}": {"targets": ["Linear"], "weights": each} for i, each in enumerate(schemes)}
    return {"quant_method": "compressed-tensors", "format": kind, "config_groups": groups} | others


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
PACKED, BYTES = settings("pack-quantized", INT4), settings("int-quantized", {"num_bits": 8, "type": "int"})
FLOAT = settings("float-quantized", {"num_bits": 8, "type": "float"})
FP4 = settings("nvfp4-pack-quantized")
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4"}


def shape(*numbers: int) -> Stored:
    return stored(np.array(numbers, np.int64), "I64")


_PACKED: list[tuple[dict[str, Change], str]] = [
    ({"weight_scale": None}, "the quantized m has no weight_scale beside it; download the checkpoint again"),
    ({"weight_shape": None}, "the quantized m has no weight_shape beside it"),
    ({"weight_shape": shape(64, 97)}, "m.weight_packed [64, 12]: no scheme of config.json fits a matrix [64, 97]"),
    ({"weight_shape": shape(-1, 96)}, "tensor m.weight_shape is [-1, 96], no shape"),
    ({"weight_shape": shape(64, 1 << 62)}, "no scheme of config.json fits a matrix [64, 4611686018427387904]"),
    ({"weight_shape": shape(64, 96, 1)}, "tensor m.weight_shape is I64 [3], not I64 or I32 [2]"),
    ({"weight_packed": words(64, 11)}, "tensor m.weight_packed [64, 11]: no scheme of config.json fits"),
    ({"weight_packed": singles(64, 12)}, "tensor m.weight_packed is F32 [64, 12], not I32 [any, any]"),
    ({"weight_scale": singles(63, 3)}, "tensor m.weight_scale is F32 [63, 3], not F32 or F16 or BF16 [64, any]"),
    ({"weight_scale": singles(64, 4)}, "fits a matrix [64, 96] with 4 scales in a row"),
    ({"weight_scale": words(64, 3)}, "tensor m.weight_scale is I32 [64, 3], not F32 or F16 or BF16 [64, any]"),
    ({"weight_scale": singles(64, 3, at=(60, 2), value=np.nan)}, "m.weight_scale, row 60, group 2: holds nan instead"),
    ({"weight_scale": singles(64, 3, at=(1, 0), value=-np.inf)}, "m.weight_scale, row 1, group 0: holds -inf instead"),
    ({"weight_zero_point": words(9, 3)}, "tensor m.weight_zero_point is I32 [9, 3], not I32 or I8 [8, 3]"),
    ({"weight_zero_point": singles(8, 3)}, "tensor m.weight_zero_point is F32 [8, 3], not I32 or I8 [8, 3]"),
    ({"weight_zero_point": stored(np.zeros((8, 3), np.int8))}, "m.weight_zero_point is I8 [8, 3], not I8 [64, 3]"),
    ({"weight_g_idx": groups(at40=3)}, "tensor m.weight_g_idx, column 40: names group 3 of 3; get a whole copy"),
    ({"weight_g_idx": groups(at7=-1)}, "tensor m.weight_g_idx, column 7: names group -1 of 3"),
    ({"weight_g_idx": words(95)}, "tensor m.weight_g_idx is I32 [95], not I32 [96]"),
    ({"weight": singles(64, 96)}, "tensor m.weight is there twice, once quantized"),
]


@pytest.mark.parametrize(("changes", "expected"), _PACKED)
def test_packed_integers(tmp_path: Path, changes: dict[str, Change], expected: str) -> None:
    assert expected in error_of(tmp_path, changed(pack_quantized("m", 64, 96), changes), PACKED)


_BYTES: list[tuple[dict[str, Change], str]] = [
    ({"weight_scale": singles(64, 5)}, "tensor m.weight_scale has 5 groups, which are not those of 96 columns"),
    ({"weight_scale": singles(64, 1, at=(9, 0), value=np.nan)}, "tensor m.weight_scale, row 9, group 0: holds nan"),
    ({"weight_scale": singles(1, at=(0,), value=np.inf)}, "tensor m.weight_scale, row 0, group 0: holds inf"),
    ({"weight_zero_point": stored(np.zeros(64, np.int8))}, "m.weight_zero_point is I8 [64], not I8 [64, 1]"),
]


@pytest.mark.parametrize(("changes", "expected"), _BYTES)
def test_integers_in_bytes(tmp_path: Path, changes: dict[str, Change], expected: str) -> None:
    assert expected in error_of(tmp_path, changed(int_quantized("m", 64, 96), changes), BYTES)


def fp8(*shape: int, value: int = 0x38, at: tuple[int, ...] = (), code: int = 0) -> Stored:
    numbers = np.full(shape, value, np.uint8)
    numbers[at] = code or value
    return Stored("F8_E4M3", shape, numbers.ravel())


_NVFP4: list[tuple[dict[str, Change], str]] = [
    ({"weight_scale_2": None}, "the quantized m has no weight_scale_2 beside it"),
    ({"weight_scale_2": singles(2)}, "tensor m.weight_scale_2 is F32 [2], not F32 or F16 or BF16 [1]"),
    ({"weight_scale_2": singles(1, value=np.nan)}, "tensor m.weight_scale_2, number 0: holds nan instead of a number"),
    ({"weight_scale_2": singles(1, value=0)}, "tensor m.weight_scale_2: holds 0.0, which is no factor"),
    ({"weight_scale": fp8(64, 7)}, "tensor m.weight_scale is F8_E4M3 [64, 7], not F8_E4M3 [64, 8]"),
    ({"weight_scale": fp8(64, 8, at=(62, 5), code=0x7F)}, "tensor m.weight_scale, row 62, group 5: holds nan instead"),
    ({"weight_scale": fp8(64, 8, at=(3, 1), code=0xB8)}, "row 3, group 1: holds -1.0, and scales are not negative"),
    ({"weight_scale": None}, "tensor m.weight has the dtype U8"),
]


@pytest.mark.parametrize(("changes", "expected"), _NVFP4)
def test_nvfp4(tmp_path: Path, changes: dict[str, Change], expected: str) -> None:
    assert expected in error_of(tmp_path, changed(nvfp4("m", 64, 128), changes), MODELOPT)


def test_rows_of_nvfp4_that_are_no_groups(tmp_path: Path) -> None:
    changes: dict[str, Change] = {"weight": stored(np.zeros((64, 60), np.uint8))}
    expected = "tensor m.weight has rows of 120 weights, which are no groups of 16"
    assert expected in error_of(tmp_path, changed(nvfp4("m", 64, 128), changes), MODELOPT)


@pytest.mark.parametrize("value", [0.0, np.inf, 1e-40])
def test_numbers_that_nothing_is_divided_by(tmp_path: Path, value: float) -> None:
    changes: dict[str, Change] = {"weight_global_scale": singles(1, value=value)}
    found = error_of(tmp_path, changed(nvfp4("m", 64, 128, "compressed"), changes), FP4)
    assert "tensor m.weight_global_scale" in found and ("which is no factor" in found or "holds inf" in found)


@pytest.mark.parametrize("kind", ["floats", "blocks"])
def test_scales_that_are_nan_in_blocks_too(tmp_path: Path, kind: str) -> None:
    """Rows may be read as floats or as blocks."""
    for module, quantization, words_of in (
        (mxfp4("m", 64, 96), settings("mxfp4-pack-quantized"), "row 63, block 2: holds nan instead of a number"),
        (nvfp4("m", 64, 128), MODELOPT, "row 63, group 7: holds nan instead of a number"),
    ):
        scale = module.tensors["m.weight_scale"]
        scale.data[-1] = 0xFF
        write_safetensors(tmp_path / "model.safetensors", module.tensors)
        (tmp_path / "config.json").write_text(json.dumps({"quantization_config": quantization}))
        rows = Checkpoint.open(tmp_path).source("m.weight", "t").rows
        assert isinstance(rows, ExactRows)
        assert rows.stored
        reader = rows if kind == "floats" else rows.stored.rows
        with pytest.raises(ModelFileError, match=words_of):
            reader(60, 64)


_MXFP4: list[tuple[dict[str, Change], str]] = [
    ({"weight_scale": None}, "the quantized m has no weight_scale beside it"),
    ({"weight_scale": stored(np.zeros((64, 2), np.uint8))}, "tensor m.weight_packed is U8 [64, 48], not U8 [64, 32]"),
    ({"weight_scale": singles(64, 3)}, "tensor m.weight_packed has the dtype U8"),
]


@pytest.mark.parametrize(("changes", "expected"), _MXFP4)
def test_mxfp4(tmp_path: Path, changes: dict[str, Change], expected: str) -> None:
    assert expected in error_of(tmp_path, changed(mxfp4("m", 64, 96), changes), settings("mxfp4-pack-quantized"))


_FP8: list[tuple[dict[str, Change], str]] = [
    ({"weight_scale": None}, "FP8 tensor m.weight has no scale beside it"),
    ({"weight_scale": singles(64, 3)}, "tensor m.weight_scale holds 64x3 scales, which fit no 64x96 matrix"),
    ({"weight_scale": singles(1, 1, 1, 1, 2)}, "tensor m.weight_scale holds 1x1x1x1x2 scales, which fit no 64x96"),
    ({"weight_scale": stored(np.zeros((64, 3), np.uint8))}, "has U8 scales; get another checkpoint"),
    ({"weight_zero_point": fp8(64, 1)}, "FP8 tensor m.weight (64x96) has zero points that are not 0"),
]


@pytest.mark.parametrize(("changes", "expected"), _FP8)
def test_fp8(tmp_path: Path, changes: dict[str, Change], expected: str) -> None:
    assert expected in error_of(tmp_path, changed(float_quantized("m", 64, 96), changes), FLOAT)


def with_scheme(**changes: Any) -> dict[str, Any]:
    return settings("pack-quantized", INT4 | changes)


_ROTATED = {"config_groups": {"R4": {"apply": [{"location": "weight_output"}, {"location": "input"}]}}}
_SETTINGS: list[tuple[Any, str]] = [
    (
        settings("marlin-24", INT4),
        "compressed-tensors weights in the format marlin-24 are not read, only pack-quantized",
    ),
    (settings("mixed-precision") | {"config_groups": {"a": {"format": "x y"}}}, "in the format x y are not read"),
    (PACKED | {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse weights in the format sparse-24-bitmask"),
    (PACKED | {"transform_config": _ROTATED}, "weights whose inputs are rotated (transform_config) are not read"),
    (PACKED | {"transform_config": {"config_groups": {"a": {"apply": 5}}}}, "weights whose inputs are rotated"),
    (PACKED | {"transform_config": 3}, "transform_config of the quantization is 3, not an object"),
    (PACKED | {"config_groups": {"a": 1}}, "a of the quantization is no object"),
    (PACKED | {"config_groups": {"a": None}}, "a of config_groups is null, not an object; download it again"),
    (PACKED | {"config_groups": {"a": {"weights": 1}}}, "weights of the quantization is 1, not an object"),
    (with_scheme(num_bits=9), "num_bits of the quantization is 9, not a whole number from 2 to 8"),
    (with_scheme(num_bits="4"), "num_bits of the quantization is '4', not a whole number"),
    (with_scheme(group_size=-5), "group_size of the quantization is -5, not a whole number from -1"),
    (with_scheme(type=1), "type of the quantization is 1, not text"),
    (with_scheme(group_size=48), "no scheme of config.json fits a matrix [64, 96] with 3 scales in a row"),
    (settings("pack-quantized", INT4, INT4 | {"group_size": 40}), "more than one scheme of config.json fits"),
    (settings("x", {"type": "float", "block_structure": [1]}), "in the format x are not read"),
    (settings("dense", {"type": "float", "block_structure": [1]}), "block_structure must be two numbers above 0"),
    ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, "ModelOpt weights in W4A16_AWQ are not read, only FP8,"),
    (MODELOPT | {"quantized_layers": {"a": {"quant_algo": "INT4_AWQ"}}}, "ModelOpt weights in INT4_AWQ are not read"),
    (MODELOPT | {"quantized_layers": 3}, "quantized_layers of the quantization is 3, not an object"),
]


@pytest.mark.parametrize(("quantization", "expected"), _SETTINGS)
def test_settings(tmp_path: Path, quantization: Any, expected: str) -> None:
    assert expected in error_of(tmp_path, pack_quantized("m", 64, 96).tensors, quantization)


def test_rotations_of_weights_alone_are_in_the_weights(tmp_path: Path) -> None:
    rotated = {"config_groups": {"R1": {"apply": [{"location": "weight_output"}, {"location": "weight_input"}]}}}
    read(tmp_path, pack_quantized("m", 64, 96).tensors, PACKED | {"transform_config": rotated})


PARTS = ["weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx", "weight"]
PARTS += ["weight_global_scale", "weight_scale_2", "input_scale"]
SHAPES = st.lists(st.integers(0, 3) | st.sampled_from([8, 16, 32, 64]), max_size=3)


@options(deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_parts_there_are(tmp_path: Path, data: st.DataObject) -> None:
    """A module of each kind, a few parts of which have any shapes, dtypes and bytes."""
    make, plan = data.draw(
        st.sampled_from(
            [
                (lambda: pack_quantized("m", 32, 64, sym=False), PACKED),
                (lambda: pack_quantized("m", 8, 64, order=range(63, -1, -1)), PACKED),
                (lambda: int_quantized("m", 8, 64, sym=False), BYTES),
                (lambda: float_quantized("m", 8, 32), FLOAT),
                (lambda: nvfp4("m", 8, 64), MODELOPT),
                (lambda: nvfp4("m", 8, 64, "compressed"), FP4),
                (lambda: mxfp4("m", 8, 64), settings("mxfp4-pack-quantized")),
            ]
        )
    )
    tensors = make().tensors
    for name in data.draw(st.lists(st.sampled_from(PARTS), max_size=3)):
        dtype, drawn = data.draw(st.sampled_from(sorted(WIDTH))), tuple(data.draw(SHAPES))
        nbytes = WIDTH[dtype] * int(np.prod(drawn))
        content = np.random.default_rng(nbytes).integers(0, 256, max(nbytes, 1), np.uint8)
        tensors[f"m.{name}"] = Stored(dtype, drawn, content)
    try:
        read(tmp_path, tensors, plan)
    except ModelFileError as error:
        assert str(error).isprintable()
