"""Integers of GPTQ and AWQ in blocks of GGUF that hold the same numbers: the file is as good as the checkpoint."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from converters import convert
from converters.architectures.fused import MatrixCache, fused_part
from converters.architectures.sources import mapped, padded, reordered_columns, reordered_rows, stacked
from converters.checkpoint import Checkpoint
from converters.tensors import ExactRows, Source, exact_source
from edgellm.arch.tensor_names import FusedTensor
from kquants.ggml import NAMED_TYPES
from support.checkpoint_numbers import encode
from support.make_checkpoint import Spec, Stored, tensor_shapes, write_safetensors
from support.quantized_checkpoints import TINY, Quantize, write_pair
from support.quantized_weights import QuantizedModule, awq, gptq

GPTQ: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 32}
AWQ: dict[str, Any] = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}
Array = NDArray[Any]


def weights_in(path: Path) -> dict[str, tuple[str, Array]]:
    """The type of each matrix of layers, and its weights by the gguf package."""
    return {
        each.name: (each.tensor_type.name, gguf.quants.dequantize(each.data, each.tensor_type))
        for each in gguf.GGUFReader(path).tensors
        if each.name.startswith("blk.") and len(each.shape) > 1
    }


def exact_weights(quantize: Quantize) -> dict[str, Array]:
    """The weights of all modules by the names of the file, float64."""
    stems = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output"}
    stems |= {f"{name}_proj": f"ffn_{name}" for name in ("gate", "up", "down")}
    found = {}
    for name, shape in tensor_shapes(Spec(**{"family": "qwen2", **TINY})):
        if name.endswith("_proj.weight"):
            module = name.removesuffix(".weight")
            found[f"blk.0.{stems[module.rpartition('.')[2]]}.weight"] = quantize(module, *shape).weights
    return found


@pytest.mark.parametrize(
    ("quantize", "settings", "kind", "options"),
    [
        (gptq, GPTQ, "Q4_0", {}),
        (partial(gptq, group=-1), {**GPTQ, "group_size": -1}, "Q4_0", {"g_idx": False}),
        (partial(gptq, bits=3, sym=False), {**GPTQ, "bits": 3}, "Q4_0", {}),
        (partial(gptq, bits=2, sym=False, v2=True), {**GPTQ, "bits": 2, "checkpoint_format": "gptq_v2"}, "Q4_0", {}),
        (partial(gptq, sym=False), GPTQ, "Q5_0", {}),
        (awq, AWQ, "Q5_0", {}),
    ],
)
def test_weights_are_those_of_the_checkpoint(
    tmp_path: Path, quantize: Callable[..., QuantizedModule], settings: dict[str, Any], kind: str, options: Any
) -> None:
    """Q4_0 is a type of its own; Q5_0 is asked for by name. The report knows of no error."""
    make = partial(quantize, **options)
    folder, _ = write_pair(tmp_path, make, settings, "qwen2")
    types = [] if kind == "Q4_0" else ["attn=Q5_0", "ffn=Q5_0"]
    report = convert(folder, tmp_path / "out.gguf", "Q4_0", tensor_types=types, threads=1)
    found, wanted = weights_in(tmp_path / "out.gguf"), exact_weights(make)
    assert found.keys() == wanted.keys()
    for name, (type_name, weights) in found.items():
        assert type_name == kind
        assert np.array_equal(weights, wanted[name])
    assert {each.error for each in report.tensors if each.name in wanted} == {0}


def rows_of(folder: Path, module: QuantizedModule, settings: dict[str, Any]) -> ExactRows:
    """The reader of the weight of a module "m"."""
    folder.mkdir(exist_ok=True)
    write_safetensors(folder / "model.safetensors", module.tensors)
    (folder / "config.json").write_text(json.dumps({"quantization_config": settings}))
    rows = Checkpoint.open(folder).source("m.weight", "t").rows
    assert isinstance(rows, ExactRows)
    return rows


def kinds_of(rows: ExactRows) -> set[str]:
    """The types that hold the same numbers."""
    return {kind for kind in NAMED_TYPES if rows.blocks(kind)}


def test_types_that_hold_the_same_numbers(tmp_path: Path) -> None:
    """Integers in the range of a type, scales in float16, and groups that no block divides."""
    shuffled = np.random.default_rng(0).permutation(96).tolist()
    asymmetric = gptq("m", 64, 96, sym=False)
    wide = dict(asymmetric.tensors)
    scales = asymmetric.tensors["m.scales"].data.view(np.float16).astype(np.float32)
    wide["m.scales"] = Stored("F32", (3, 64), encode(scales, "F32"))
    cases = [
        (gptq("m", 64, 96), GPTQ, {"Q4_0", "Q5_0"}),
        (gptq("m", 64, 96, order=range(95, -1, -1)), GPTQ, {"Q4_0", "Q5_0"}),
        (asymmetric, GPTQ, {"Q5_0"}),
        (awq("m", 64, 96), AWQ, {"Q5_0"}),
        (gptq("m", 64, 96, 8), {**GPTQ, "bits": 8}, set()),
        (gptq("m", 64, 96, group=16), GPTQ, set()),
        (gptq("m", 64, 48, group=48), {**GPTQ, "group_size": 48}, set()),
        (gptq("m", 64, 96, order=shuffled), GPTQ, set()),
        (QuantizedModule(wide, asymmetric.weights), GPTQ, set()),
    ]
    assert [kinds_of(rows_of(tmp_path, module, plan)) for module, plan, _ in cases] == [kinds for *_, kinds in cases]


def test_blocks_are_the_same_in_any_chunks_and_places(tmp_path: Path) -> None:
    """Matrices that are stacked or split, and rows in another order, are blocks still; changed numbers are not."""
    rows = rows_of(tmp_path, gptq("m", 64, 96), GPTQ)
    source = Source("t", (64, 96), "F32", rows)
    blocks = exact_source(source, "Q4_0")
    whole = blocks.rows(0, 64)
    assert (blocks.type, whole.shape) == ("Q4_0", (64, 54))
    assert np.array_equal(np.concatenate([blocks.rows(0, 5), blocks.rows(5, 63), blocks.rows(63, 64)]), whole)
    order = np.random.default_rng(1).permutation(64)
    assert np.array_equal(exact_source(reordered_rows(source, order), "Q4_0").rows(3, 60), whole[order][3:60])
    both = exact_source(stacked("s", [source, reordered_rows(source, order)]), "Q4_0")
    assert (both.type, both.shape) == ("Q4_0", (2, 64, 96))
    assert np.array_equal(both.rows(60, 70), np.concatenate([whole[60:], whole[order][:6]]))
    part = fused_part(source, FusedTensor("x", ("a", "b"), stacked=False), 1, (32, 96), MatrixCache())
    assert np.array_equal(exact_source(part, "Q4_0").rows(1, 30), whole[33:62])
    plain = Source("t", (64, 96), "F32", rows.floats)
    for changed in (
        mapped(source, lambda values: 2 * values),
        reordered_columns(source, np.arange(96)[::-1]),
        padded(source, 70),
        stacked("s", [source, plain]),
    ):
        assert exact_source(changed, "Q4_0") is changed


def test_a_type_that_holds_other_numbers_is_encoded_from_floats(tmp_path: Path) -> None:
    quantized, exact = write_pair(tmp_path, partial(gptq, sym=False), GPTQ)
    for folder, name in ((quantized, "quantized.gguf"), (exact, "exact.gguf")):
        convert(folder, tmp_path / name, "Q4_0", threads=1)
    assert (tmp_path / "quantized.gguf").read_bytes() == (tmp_path / "exact.gguf").read_bytes()
