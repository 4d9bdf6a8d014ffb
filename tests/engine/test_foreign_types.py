"""Tensors of types that models are not computed in: those of ik_llama.cpp, float64, integers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from converters import quantize
from edgellm import Model, UnsupportedModelError, info
from edgellm.errors import EdgeLLMWarning
from edgellm.gguf import GGUFFile
from edgellm.gguf.check import find_problems
from kquants.ggml import GGML_TYPES, NAMED_TYPES, REMOVED_TYPES, GGMLType
from kquants.ik_types import IK_TYPES, replacement
from kquants.plain_types import exact_floats, plain_floats
from support.gguf_parts import GGUFParts
from support.model_file import ModelFile

SMALL: dict[str, Any] = {"width": 256, "heads": 2, "kv_heads": 1, "head_dim": 64, "ffn": 256, "types": "F32"}
IDS = [1, 7, 300, 12, 5]

Change = Callable[[str, int, bytes], Path]


@pytest.fixture
def changed(model_file: ModelFile, tmp_path: Path) -> Change:
    """`changed(name, kind, data)`: a small F32 model with this type and these bytes for one of its tensors."""

    def write(name: str, kind: int, data: bytes) -> Path:
        parts, path = GGUFParts.read(model_file(**SMALL)), tmp_path / "m.gguf"
        other = replace(parts.tensors[name], kind=kind, data=data)
        path.write_bytes(replace(parts, tensors=parts.tensors | {name: other}).build())
        return path

    return write


def logits(path: Path) -> NDArray[np.float32]:
    with Model.open(path, threads=1, ctx=64) as model:
        return model.logits(IDS)


def stored(model_file: ModelFile, name: str) -> NDArray[np.float32]:
    return np.frombuffer(GGUFParts.read(model_file(**SMALL)).tensors[name].data, np.float32)


FILES = {"IQ4_KS": "IQ4_XS", "IQ4_KSS": "IQ4_XS", "IQ2_K": "IQ2_XS", "IQ3_K": "IQ3_S", "IQ4_K": "Q4_K_M"}
FILES |= {"IQ5_KS": "Q5_K_M", "IQ5_K": "Q5_K_M", "IQ6_K": "Q6_K", "Q6_0": "Q6_K", "IQ2_KL": "Q2_K", "IQ1_KT": "IQ1_M"}
FILES |= {"Q4_K_R4": "Q4_K_M", "IQ4_XS_R8": "IQ4_XS", "IQ3_S_R4": "IQ3_S", "BF16_R16": "BF16", "Q8_K_R8": "Q8_0"}
FILES |= {"IQ2_BN": "TQ2_0", "IQ1_BN": "TQ1_0", "IQ2_BN_R4": "TQ2_0", "IQ3_KT": "IQ3_XXS", "IQ2_KT": "IQ2_XXS"}


def test_types_of_ik_llama_cpp_have_the_nearest_files() -> None:
    assert not IK_TYPES.keys() & (GGML_TYPES.keys() | REMOVED_TYPES.keys())
    names = {kind.name: kind for kind in IK_TYPES.values()}
    assert len(names) == len(IK_TYPES) and not names.keys() & NAMED_TYPES.keys()
    assert {name: replacement(names[name]) for name in FILES} == FILES


@pytest.mark.parametrize("kind", IK_TYPES.values(), ids=lambda kind: kind.name)
def test_files_with_types_of_ik_llama_cpp_are_shown_and_refused(
    changed: Change, tmp_path: Path, kind: GGMLType
) -> None:
    # A row of IQ4_KS is a float32 and 136 bytes for 256 weights; with wrong sizes the tensors behind it would overlap.
    path = changed("blk.0.ffn_up.weight", kind.number, bytes(256 * kind.row_bytes(256)))
    with GGUFFile.open(path) as file:
        assert file.tensors["blk.0.ffn_up.weight"].type is kind
        assert not list(find_problems(file))
        shown = info.describe(file)
    what = f"tensor blk.0.ffn_up.weight has type {kind.name}, which only ik_llama.cpp computes; take a file"
    assert kind.name in [share.type for share in shown.types] and shown.unsupported
    assert shown.unsupported == f"{what} of the same model in {replacement(kind)}"
    with pytest.raises(UnsupportedModelError, match=r"only ik_llama\.cpp computes"):
        Model.open(path)
    refused = pytest.raises(UnsupportedModelError, match=rf"is {kind.name}, which only ik_llama\.cpp reads; start from")
    with pytest.warns(EdgeLLMWarning, match="quantized already"), refused:
        quantize(path, tmp_path / "out.gguf", "Q8_0", requantize=True)


PARAMETERS: dict[str, Callable[[NDArray[np.float32]], NDArray[Any]]] = {
    "F16": lambda v: v.astype(np.float16),
    "BF16": lambda v: (v.view(np.uint32) >> 16).astype(np.uint16),
    "F64": lambda v: v.astype(np.float64),
    "I8": lambda v: v.astype(np.int8),
    "I16": lambda v: v.astype(np.int16),
    "I32": lambda v: v.astype(np.int32),
    "I64": lambda v: v.astype(np.int64),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_vectors_of_other_numbers_become_float32(changed: Change, model_file: ModelFile, name: str) -> None:
    norm = "blk.0.attn_norm.weight"
    values = np.rint(4 * stored(model_file, norm)) / (4 if name[0] in "BF" else 1)  # few bits, in integers none behind
    wanted = logits(changed(norm, 0, values.astype(np.float32).tobytes()))
    other = PARAMETERS[name](values.astype(np.float32))
    assert np.array_equal(logits(changed(norm, NAMED_TYPES[name].number, other.tobytes())), wanted)


@pytest.mark.parametrize(
    ("name", "values"), [("F64", [1.1] * 256), ("I64", [2**53 + 1] * 256), ("I32", [-(2**24) - 1] * 256)]
)
def test_vectors_that_float32_does_not_hold_are_refused(changed: Change, name: str, values: list[float]) -> None:
    data = np.array(values, {"F64": np.float64, "I64": np.int64, "I32": np.int32}[name])
    path = changed("output_norm.weight", NAMED_TYPES[name].number, data.tobytes())
    with pytest.raises(UnsupportedModelError, match=f"output_norm.weight has {name} values that float32 does not hold"):
        Model.open(path)


def test_matrices_of_float64_are_refused_and_quantized(changed: Change, model_file: ModelFile, tmp_path: Path) -> None:
    name = "blk.1.ffn_down.weight"
    path = changed(name, NAMED_TYPES["F64"].number, stored(model_file, name).astype(np.float64).tobytes())
    with pytest.raises(UnsupportedModelError, match="has type F64; `edgellm quantize` writes a file of types that"):
        Model.open(path)
    for number, source in enumerate((path, model_file(**SMALL))):
        quantize(source, tmp_path / f"{number}.gguf", "Q8_0")
    made, wanted = (GGUFParts.read(tmp_path / f"{number}.gguf").tensors[name].data for number in range(2))
    assert made == wanted


def test_blocks_of_activations_are_their_scale_times_their_integers() -> None:
    q = np.arange(-128, 128, dtype=np.int8)
    q8_1 = np.array([0.5, 77], np.float16).tobytes() + q[:32].tobytes()
    q8_k = np.float32(0.25).tobytes() + q.tobytes() + np.full(16, 9, np.int16).tobytes()
    for name, block, wanted in (("Q8_1", q8_1, q[:32] / 2), ("Q8_K", q8_k, q / 4)):
        found = plain_floats(NAMED_TYPES[name], np.frombuffer(2 * block, np.uint8))
        assert found.dtype == np.float32 and np.array_equal(found, np.tile(wanted, 2))


def test_exact_floats_keep_nan_and_inf() -> None:
    values = np.array([np.nan, np.inf, -0.0, 1e-45])
    found = exact_floats(NAMED_TYPES["F64"], values.view(np.uint8))
    assert found is None  # 1e-45 is no float32, if near one
    found = exact_floats(NAMED_TYPES["F64"], values[:3].view(np.uint8))
    assert found is not None and np.array_equal(found, values[:3], equal_nan=True) and np.signbit(found[2])
