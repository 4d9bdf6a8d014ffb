"""Quantized weights that cannot be read: the error is one line that names the tensor, and no file is written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgellm.errors import ModelFileError
from support.checkpoint_numbers import WIDTH
from support.make_checkpoint import Stored
from support.quantized_damage import Change, changed, error_of, groups, read, singles, words
from support.quantized_weights import awq, awq_gemv, bnb_4bit, bnb_int8, gptq, stored

GPTQ: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 32}
AWQ: dict[str, Any] = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}
GEMV = {**AWQ, "version": "gemv"}
BNB: dict[str, Any] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
STATE = "weight.quant_state.bitsandbytes__nf4"


def halves(*shape: int, at: tuple[int, ...] = (), value: float = 1.0) -> Stored:
    numbers = np.ones(shape, np.float16)
    numbers[at] = value
    return stored(numbers)


_GPTQ: list[tuple[dict[str, Change], str]] = [
    ({"scales": None}, "the quantized m has no scales beside it; download the checkpoint again"),
    ({"qzeros": None}, "the quantized m has no qzeros beside it"),
    ({"qzeros": words(3, 7)}, "tensor m.qzeros is I32 [3, 7], not I32 [3, 8], as the tensors beside it ask"),
    ({"qzeros": words(2, 8)}, "tensor m.qzeros is I32 [2, 8], not I32 [3, 8]"),
    ({"scales": halves(3, 60)}, "tensor m.scales is F16 [3, 60], not F32 or F16 or BF16 [any, 64]"),
    ({"scales": words(3, 64)}, "tensor m.scales is I32 [3, 64], not F32 or F16 or BF16 [any, 64]"),
    ({"scales": halves(192)}, "tensor m.scales is F16 [192], not"),
    ({"scales": halves(3, 64, at=(2, 5), value=np.nan)}, "tensor m.scales, row 5, group 2: holds nan instead of a"),
    ({"scales": halves(3, 64, at=(0, 63), value=-np.inf)}, "tensor m.scales, row 63, group 0: holds -inf instead"),
    ({"qweight": stored(np.zeros((12, 64), np.uint8))}, "tensor m.qweight is U8 [12, 64], not I32 [any, any]"),
    ({"qweight": words(11, 64)}, "tensor m.qweight has 11 words in a column, and g_idx 96 numbers"),
    ({"g_idx": Stored("I32", (0,), np.zeros(1, np.uint8))}, "tensor m.g_idx is I32 [0], not I32 [any]"),
    ({"g_idx": stored(np.zeros(96, np.float32))}, "tensor m.g_idx is F32 [96], not I32 [any]"),
    ({"g_idx": groups(at40=3)}, "tensor m.g_idx, column 40: names group 3 of 3; get a whole copy of the model"),
    ({"g_idx": groups(at7=-1, at8=9)}, "tensor m.g_idx, column 7: names group -1 of 3"),
    ({"g_idx": None, "scales": halves(4, 64), "qzeros": words(4, 8)}, "4 groups, which are not those of 96 columns in"),
    ({"weight": singles(64, 96)}, "tensor m.weight is there twice, once quantized"),
]


def test_words_that_no_integers_of_3_bits_fill(tmp_path: Path) -> None:
    """Three words hold 32 integers, and nothing but the words tells how many there are."""
    module = changed(gptq("m", 64, 96, 3, -1, g_idx=False), {"qweight": words(8, 64)})
    expected = "tensor m.qweight has 8 words in a column, which no integers of 3 bits fill; download the checkpoint"
    assert expected in error_of(tmp_path, module, {**GPTQ, "bits": 3, "group_size": -1})


@pytest.mark.parametrize(("changes", "expected"), _GPTQ)
def test_gptq(tmp_path: Path, changes: dict[str, Change], expected: str) -> None:
    assert expected in error_of(tmp_path, changed(gptq("m", 64, 96), changes), GPTQ)


_SETTINGS: list[tuple[Any, str]] = [
    ({**GPTQ, "bits": 5}, "bits of the quantization is 5, not one of 2, 3, 4, 8; download it again"),
    ({"quant_method": "gptq"}, "has no bits of the quantization; get another copy of the checkpoint"),
    ({**GPTQ, "bits": True}, "bits of the quantization is True, not"),
    ({**GPTQ, "group_size": -7}, "group_size of the quantization is -7, not a whole number from -1 to 2147483647"),
    ({**GPTQ, "group_size": "32"}, "group_size of the quantization is '32'"),
    ({**GPTQ, "checkpoint_format": "marlin"}, "GPTQ weights in the format marlin are not read, only gptq and gptq_v2"),
    ({**GPTQ, "checkpoint_format": 2}, "checkpoint_format of the quantization is 2, not text"),
    ({**GPTQ, "is_marlin_format": True}, "GPTQ weights in the format marlin are not read"),
    ({**GPTQ, "extra_config": 1}, "extra_config of the quantization is 1, not an object"),
    ({**AWQ, "version": "gemv_fast"}, "AWQ weights in the version gemv_fast are not read, only gemm and gemv"),
    (
        {"quant_method": "hqq", "nbits": 4},
        "the weights are quantized already, by HQQ, which is not read; get the checkpoint "
        "that it was made from, or one in GPTQ, AWQ, compressed-tensors, bitsandbytes or FP8",
    ),
    ({"quant_method": "auto-round", "packing_format": "gguf"}, "already, by AutoRound (gguf), which is not read"),
    (None, "tensor m.qweight is quantized already, by GPTQ or AWQ, and config.json does not say so"),
    (BNB, "tensor m.qweight is quantized already, by GPTQ or AWQ, and the settings of the quantization say otherwise"),
    ({**AWQ, "bits": 8}, "bits of the quantization is 8, not 4, which alone is possible; download it again"),
]


@pytest.mark.parametrize(("quantization", "expected"), _SETTINGS)
def test_settings(tmp_path: Path, quantization: Any, expected: str) -> None:
    assert expected in error_of(tmp_path, gptq("m", 64, 96).tensors, quantization)


_AWQ: list[tuple[dict[str, Change], str]] = [
    ({"qzeros": None}, "the quantized m has no qzeros beside it"),
    ({"qzeros": words(3, 4)}, "tensor m.qzeros is I32 [3, 4], not I32 [3, 8]"),
    ({"scales": halves(2, 64), "qzeros": words(2, 8)}, "2 groups, which are not those of 96 columns in groups of 32"),
    ({"scales": halves(3, 64, at=(1, 9), value=np.inf)}, "tensor m.scales, row 9, group 1: holds inf instead"),
]


@pytest.mark.parametrize(("changes", "expected"), _AWQ)
def test_awq(tmp_path: Path, changes: dict[str, Change], expected: str) -> None:
    assert expected in error_of(tmp_path, changed(awq("m", 64, 96), changes), AWQ)


_GEMV: list[tuple[dict[str, Change], str]] = [
    ({"qzeros": words(63, 4)}, "tensor m.qzeros is I32 [63, 4], not I32 [64, any]"),
    ({"scales": halves(64, 8)}, "tensor m.scales is F16 [64, 8], not F32 or F16 or BF16 [64, 32]"),
    ({"qweight": words(64, 200)}, "tensor m.scales has 32 groups, fewer than 1600 columns have in groups of 32"),
    ({"scales": halves(64, 32, at=(11, 2), value=np.nan)}, "tensor m.scales, row 11, group 2: holds nan instead"),
]


@pytest.mark.parametrize(("changes", "expected"), _GEMV)
def test_awq_gemv(tmp_path: Path, changes: dict[str, Change], expected: str) -> None:
    assert expected in error_of(tmp_path, changed(awq_gemv("m", 64, 96), changes), GEMV)


def state(**changes: Any) -> Stored:
    values = {"quant_type": "nf4", "blocksize": 64, "shape": [64, 96], "nested_blocksize": 16, "nested_offset": 0.1}
    return text(json.dumps({key: value for key, value in {**values, **changes}.items() if value is not ...}))


def text(content: str) -> Stored:
    return stored(np.frombuffer(content.encode(), np.uint8))


_4BIT: list[tuple[dict[str, Change], str]] = [
    ({"weight": None}, "the NF4 tensor m.weight of shape [64, 96] has no tensor, not 3072 bytes"),
    ({STATE: state(shape=[64, 97])}, "the NF4 tensor m.weight of shape [64, 97] has 3072 bytes, not 3104 bytes"),
    ({STATE: state(shape=[64, 0])}, "the shape of a tensor of 4 bits is [64, 0]; download"),
    ({STATE: state(shape=[1 << 40, 96])}, "the shape of a tensor of 4 bits is [1099511627776, 96]"),
    ({STATE: state(shape=...)}, "the shape of a tensor of 4 bits is None"),
    ({STATE: state(blocksize=0)}, "blocksize of the quantization is 0, not one of 32, 64, 128, 256, "),
    ({STATE: state(blocksize=1 << 30)}, "blocksize of the quantization is 1073741824, not one of 32,"),
    ({STATE: state(nested_blocksize=...)}, "has no nested_blocksize of the quantization; get another"),
    (
        {STATE: state(nested_offset=1e300)},
        "nested_offset of the quantization is 1e+300, not a number from -1e+15",
    ),
    ({STATE: text("{")}, "tensor m.weight.quant_state.bitsandbytes__nf4 is no valid JSON"),
    ({STATE: text("[]")}, "holds no JSON object"),
    ({STATE: words(8)}, "is I32 of 32 bytes, and no short text"),
    ({STATE: stored(np.zeros(1 << 17, np.uint8))}, "is U8 of 131072 bytes, and no short text"),
    ({"weight.quant_map": None}, "the quantized m.weight has no quant_map beside it"),
    ({"weight.quant_map": singles(15)}, "tensor m.weight.quant_map is F32 [15], not F32 [16]"),
    ({"weight.quant_map": singles(16, at=(3,), value=np.nan)}, "tensor m.weight.quant_map, code 3: holds nan instead"),
    ({"weight.absmax": singles(95)}, "tensor m.weight.absmax is F32 [95], not F32 or U8 [96]"),
    ({"weight.absmax": singles(96, at=(70,), value=np.inf)}, "tensor m.weight.absmax, block 70: holds inf instead"),
    ({"weight.nested_absmax": None}, "the quantized m.weight has no nested_absmax beside it"),
    ({"weight.nested_absmax": singles(5)}, "tensor m.weight.nested_absmax is F32 [5], not F32 [6]"),
    ({"weight.nested_absmax": singles(6, at=(4,), value=np.nan)}, "m.weight.nested_absmax, block 4: holds nan instead"),
    (
        {"weight.nested_quant_map": singles(256, value=1e30), "weight.nested_absmax": singles(6, value=1e30)},
        "tensor m.weight.absmax, block 0: holds inf instead of a number",
    ),
    ({"weight.nested_quant_map": singles(255)}, "tensor m.weight.nested_quant_map is F32 [255], not F32 [256]"),
]


@pytest.mark.parametrize(("changes", "expected"), _4BIT)
def test_bitsandbytes_4bit(tmp_path: Path, changes: dict[str, Change], expected: str) -> None:
    assert expected in error_of(tmp_path, changed(bnb_4bit("m.weight", (64, 96), nested=16), changes), BNB)


_INT8: list[tuple[dict[str, Change], str]] = [
    ({"weight": stored(np.zeros((30, 50), np.uint8))}, "tensor m.weight is U8 [30, 50], not I8 [any, any]"),
    ({"SCB": singles(31)}, "tensor m.SCB is F32 [31], not F32 [30]"),
    ({"SCB": singles(30, at=(29,), value=np.nan)}, "tensor m.SCB, row 29: holds nan instead of a number"),
    ({"weight_format": stored(np.array(2, np.uint8))}, "tensor m.weight is ordered for one kind of GPU"),
    ({"SCB": None}, "tensor m.weight has the dtype I8; get a checkpoint in BF16"),
]


@pytest.mark.parametrize(("changes", "expected"), _INT8)
def test_bitsandbytes_int8(tmp_path: Path, changes: dict[str, Change], expected: str) -> None:
    assert expected in error_of(tmp_path, changed(bnb_int8("m", 30, 50), changes), BNB)


@pytest.mark.parametrize(
    ("name", "method"),
    [("m.q_weight", "EXL2"), ("m.trellis", "EXL3"), ("m.W_q", "HQQ"), ("m.qweight", "GPTQ or AWQ")],
)
def test_tensors_of_methods_that_config_json_does_not_name(tmp_path: Path, name: str, method: str) -> None:
    expected = f"tensor {name} is quantized already, by {method}, and config.json does not say so; get the checkpoint"
    assert expected in error_of(tmp_path, {name: words(2, 2)}, {})


DTYPES = ("I32", "F16", "F32", "U8", "I8", "BF16")
SHAPES = st.lists(st.integers(0, 3) | st.sampled_from([8, 16, 32, 64]), max_size=3)
PARTS = [
    *("m.qweight", "m.qzeros", "m.scales", "m.g_idx", "m.weight", "m.SCB", "m.weight_format", "m.weight.absmax"),
    *("m.weight.nested_absmax", "m.weight.quant_map", "m.weight.nested_quant_map"),
]


@settings(deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_parts_there_are(tmp_path: Path, data: st.DataObject) -> None:
    """A module of each method, a few parts of which have any shapes, dtypes and bytes."""
    make, plan = data.draw(
        st.sampled_from(
            [
                (lambda: gptq("m", 32, 32), GPTQ),
                (lambda: gptq("m", 32, 64, 3), {**GPTQ, "bits": 3}),
                (lambda: awq("m", 32, 32), AWQ),
                (lambda: awq_gemv("m", 8, 32), GEMV),
                (lambda: bnb_4bit("m.weight", (4, 32), nested=2), BNB),
                (lambda: bnb_int8("m", 4, 8), BNB),
            ]
        )
    )
    tensors = make().tensors
    for name in data.draw(st.lists(st.sampled_from([*tensors, *PARTS]), max_size=3)):
        dtype, shape = data.draw(st.sampled_from(DTYPES)), tuple(data.draw(SHAPES))
        nbytes = WIDTH[dtype] * int(np.prod(shape))
        content: NDArray[np.uint8] = np.random.default_rng(nbytes).integers(0, 256, max(nbytes, 1), np.uint8)
        tensors[name] = Stored(dtype, shape, content)
    try:
        read(tmp_path, tensors, plan)
    except ModelFileError as error:
        assert str(error).isprintable()
