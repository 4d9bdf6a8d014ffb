"""Checkpoints with experts in MXFP4: their blocks become those of GGUF, and keep their type with any mix."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from converters import convert, quantize
from converters.checkpoint import Checkpoint
from edgellm.errors import ModelFileError
from edgellm.gguf import GGUFFile
from support.checkpoint_tokenizers import write_json, write_tokenizer
from support.families import CASES
from support.families.references import load_reference
from support.make_checkpoint import Stored, write_safetensors

Bytes = NDArray[np.uint8]
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
"""The magnitudes of MXFP4's weights; the highest bit of four is the sign (OCP Microscaling Formats 1.0, 5.3.3)."""
EXPERTS = "mlp.experts.{}_proj"


def exact(blocks: Bytes, scales: Bytes) -> NDArray[np.float64]:
    """The weights of a checkpoint's tensor: pairs in each byte, the low half first, times 2^(scale - 127)."""
    halves = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*scales.shape, 32)
    values = np.array(E2M1)[halves & 7] * np.where(halves & 8, -1.0, 1.0)
    weights: NDArray[np.float64] = values * 2.0 ** (scales.astype(float)[..., None] - 127)
    return weights.reshape(*scales.shape[:-1], -1)


def parts(name: str, experts: int, rows: int, columns: int) -> dict[str, Bytes]:
    """The random blocks and scales of a tensor."""
    rng = np.random.default_rng([*name.encode()])
    blocks = rng.integers(0, 256, (experts, rows, columns // 32, 16), np.uint8)
    return {f"{name}_blocks": blocks, f"{name}_scales": rng.integers(118, 124, blocks.shape[:-1], np.uint8)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint as gpt-oss is published: experts in MXFP4, all else in BF16."""
    return write(tmp_path / "model")


def write(folder: Path, **changes: Stored | None) -> Path:
    """Write the checkpoint; `changes` replace tensors by the ends of their names, in layer 1, or leave them out."""
    folder.mkdir()
    config = CASES["gpt_oss"].config
    write_json(folder / "config.json", config | {"quantization_config": {"quant_method": "mxfp4"}})
    write_tokenizer(folder, "qwen2")
    drawn = load_reference("gpt_oss").tensors
    stored = {name: Stored("BF16", each.shape, each.bfloat16(name)) for name, each in drawn.items()}
    for i in range(config["num_hidden_layers"]):
        for which, rows, columns in (("gate_up", 192, 64), ("down", 64, 96)):
            name = f"model.layers.{i}.{EXPERTS.format(which)}"
            del stored[name]
            stored |= {
                key: Stored("U8", data.shape, data.ravel()) for key, data in parts(name, 8, rows, columns).items()
            }
    for end, change in changes.items():
        name = f"model.layers.1.{EXPERTS.format(end.rsplit('_', 1)[0])}_{end.rsplit('_', 1)[1]}"
        stored.pop(name)
        stored |= {name: change} if change else {}
    write_safetensors(folder / "model.safetensors", stored)
    return folder


def types_of(path: Path) -> dict[str, str]:
    with GGUFFile.open(path) as file:
        return {name: tensor.type.name for name, tensor in file.tensors.items()}


def test_weights_are_those_of_the_checkpoint(folder: Path, tmp_path: Path) -> None:
    convert(folder, tmp_path / "out.gguf", "BF16", threads=1)
    found = {tensor.name: tensor for tensor in gguf.GGUFReader(tmp_path / "out.gguf").tensors}
    for i in range(4):
        both = exact(*parts(f"model.layers.{i}.{EXPERTS.format('gate_up')}", 8, 192, 64).values())
        down = exact(*parts(f"model.layers.{i}.{EXPERTS.format('down')}", 8, 64, 96).values())
        for stem, weights in (("gate", both[:, 0::2]), ("up", both[:, 1::2]), ("down", down)):
            tensor = found[f"blk.{i}.ffn_{stem}_exps.weight"]
            assert tensor.tensor_type.name == "MXFP4"
            assert np.array_equal(gguf.quants.dequantize(tensor.data, tensor.tensor_type), weights)


def test_rows_are_the_same_in_any_chunks(folder: Path) -> None:
    source = Checkpoint.open(folder).source(f"model.layers.2.{EXPERTS.format('down')}_blocks", "t")
    whole = source.rows(0, source.row_count)
    assert (source.shape, whole.shape) == ((8, 64, 96), (512, 51))
    for first, last in ((0, 1), (63, 65), (100, 512), (511, 512)):
        assert np.array_equal(source.rows(first, last), whole[first:last])


@pytest.mark.parametrize(
    ("mix", "number", "others"),
    [("BF16", 38, {"BF16"}), ("F16", 38, {"F16"}), ("Q8_0", 7, {"Q8_0"}), ("Q4_K_M", 15, {"Q5_0", "Q5_1", "Q8_0"})],
)
def test_experts_keep_their_type_with_any_mix(
    folder: Path, tmp_path: Path, mix: str, number: int, others: set[str]
) -> None:
    """The file type is that of llama.cpp's converter: with floats the experts give the name (MXFP4_MOE)."""
    convert(folder, tmp_path / "out.gguf", mix, threads=1)
    types = types_of(tmp_path / "out.gguf")
    assert {kind for name, kind in types.items() if "exps.weight" in name} == {"MXFP4"}
    assert {kind for name, kind in types.items() if "exps" not in name} - {"F32"} == others
    with GGUFFile.open(tmp_path / "out.gguf") as file:
        assert file.get_int("general.file_type") == number


def test_an_exception_gives_experts_another_type(folder: Path, tmp_path: Path) -> None:
    convert(folder, tmp_path / "out.gguf", "BF16", tensor_types=["ffn_down_exps=Q8_0"], threads=1)
    types = types_of(tmp_path / "out.gguf")
    assert types["blk.0.ffn_down_exps.weight"] == "Q8_0" and types["blk.0.ffn_up_exps.weight"] == "MXFP4"


def test_a_file_with_them_is_quantized_without_a_loss_in_them(folder: Path, tmp_path: Path) -> None:
    convert(folder, tmp_path / "floats.gguf", "BF16", threads=1)
    quantize(tmp_path / "floats.gguf", tmp_path / "out.gguf", "Q8_0", threads=1)
    convert(folder, tmp_path / "direct.gguf", "Q8_0", threads=1)
    assert (tmp_path / "out.gguf").read_bytes() == (tmp_path / "direct.gguf").read_bytes()


def nan_scale(*place: int) -> Bytes:
    """Scales of 1 but for one, which is NaN (OCP Microscaling Formats 1.0, 5.4.1)."""
    scales = np.full((8, 64, 3), 127, np.uint8)
    scales[place] = 255
    return scales.ravel()


_WRONG: list[tuple[dict[str, Any], str]] = [
    ({"down_scales": None}, "has no scales beside it"),
    ({"down_blocks": None}, "has no place in this gpt-oss model"),
    ({"down_scales": Stored("U8", (8, 64, 2), np.zeros(1, np.uint8))}, r"scales U8 \[8, 64, 2\], which do not fit"),
    ({"down_scales": Stored("F32", (8, 64, 3), np.zeros(4, np.uint8))}, r"scales F32 \[8, 64, 3\], which do not fit"),
    ({"down_blocks": Stored("U8", (8, 64, 3, 8), np.zeros(1, np.uint8))}, r"blocks \[8, 64, 3, 8\] and scales"),
    ({"down_scales": Stored("U8", (8, 64, 3), nan_scale(3, 5, 2))}, "matrix 3, row 5, block 2: holds nan instead"),
    (
        {
            "down_blocks": Stored("U8", (8, 32, 3, 16), np.zeros(1, np.uint8)),
            "down_scales": Stored("U8", (8, 32, 3), np.zeros(1, np.uint8)),
        },
        r"has shape \[8, 32, 96\], not \[8, 64, 96\] as config.json asks",
    ),
]


@pytest.mark.parametrize(("changes", "words"), _WRONG)
def test_blocks_and_scales_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    folder = write(tmp_path / "model", **changes)
    with pytest.raises(ModelFileError, match=words) as error:
        convert(folder, tmp_path / "out.gguf", threads=1)
    assert "\n" not in str(error.value) and not (tmp_path / "out.gguf").exists()
