"""Checkpoints are read as the safetensors library and the definitions of the number formats say."""

import json
import os
import tracemalloc
from codecs import BOM_UTF8
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors import deserialize
from safetensors.numpy import save_file

from converters.checkpoint import Checkpoint
from support.checkpoint_numbers import encode, fp8_values
from support.make_checkpoint import FAMILIES, Stored, large, tensor_shapes, write_checkpoint, write_safetensors

Array = NDArray[Any]


def folder_of(path: Path, tensors: Mapping[str, Stored], **config: Any) -> Checkpoint:
    """A checkpoint of one file with these tensors."""
    write_safetensors(path / "model.safetensors", tensors)
    (path / "config.json").write_text(json.dumps(config))
    return Checkpoint.open(path)


def f32(values: list[float]) -> Array:
    return np.array(values, np.float32)


def stored(dtype: str, shape: tuple[int, ...], values: Array) -> Stored:
    return Stored(dtype, shape, np.ascontiguousarray(values).reshape(-1).view(np.uint8))


def all_rows(checkpoint: Checkpoint, name: str, order: Array | None = None) -> Array:
    source = checkpoint.source(name, "new.name", order)
    return source.rows(0, source.row_count)


@pytest.mark.parametrize(("dtype", "shards"), [("F32", 1), ("F16", 3), ("BF16", 2)])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_has_the_bytes_that_the_library_reads(
    tmp_path: Path, family: str, dtype: str, shards: int
) -> None:
    write_checkpoint(tmp_path, family=family, dtype=dtype, shards=shards)
    files = sorted(tmp_path.glob("*.safetensors"))
    expected = {name: found for file in files for name, found in deserialize(file.read_bytes())}  # type: ignore[no-untyped-call]
    checkpoint = Checkpoint.open(tmp_path)
    assert len(files) == shards
    assert checkpoint.tensors.keys() == expected.keys()
    for name, tensor in checkpoint.tensors.items():
        source = checkpoint.source(name, "new.name")
        assert (source.name, source.type) == ("new.name", dtype) == ("new.name", expected[name]["dtype"])
        assert list(source.shape) == list(tensor.shape) == expected[name]["shape"]
        assert source.rows(0, source.row_count).tobytes() == expected[name]["data"]
        assert tensor.nbytes == len(expected[name]["data"])


def test_a_file_by_the_library_under_any_name(tmp_path: Path) -> None:
    matrix = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    save_file({"cube": matrix, "single": np.array([[7]], np.float16)}, tmp_path / "some.safetensors")
    (tmp_path / "config.json").write_text('{"hidden_size": 4}')
    checkpoint = Checkpoint.open(str(tmp_path))
    source = checkpoint.source("cube", "cube")
    assert (source.row_count, source.columns) == (6, 4)
    assert source.rows(1, 5).view(np.float32).tolist() == matrix.reshape(6, 4)[1:5].tolist()
    assert checkpoint.config["hidden_size"] == 4
    assert checkpoint.path == tmp_path


@settings(max_examples=60, deadline=None, database=None)
@given(st.data())
def test_any_rows_in_any_order(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 9))
    dtype = data.draw(st.sampled_from(["F32", "F16", "BF16", "F8_E4M3"]))
    width = {"F32": 4, "F8_E4M3": 1}.get(dtype, 2)
    values = np.random.default_rng(0).integers(0, 120, (rows, columns * width), np.uint8)
    # A byte in front: the numbers begin where none of several bytes may.
    tensors = {"odd": Stored("U8", (1,), np.zeros(1, np.uint8)), "w": stored(dtype, (rows, columns), values)}
    tensors["w_scale"] = stored("F32", (), f32([2]))
    checkpoint = folder_of(tmp_path_factory.mktemp("c"), tensors)
    first = data.draw(st.integers(0, rows - 1))
    last = data.draw(st.integers(first + 1, rows))
    order = np.array(data.draw(st.permutations(range(rows))))
    expected = (fp8_values(dtype)[values] * 2).view(np.uint8) if width == 1 else values
    assert np.array_equal(checkpoint.source("w", "w").rows(first, last), expected[first:last])
    assert np.array_equal(checkpoint.source("w", "w", order).rows(first, last), expected[order][first:last])


def test_numbers_of_a_vector_in_another_order(tmp_path: Path) -> None:
    checkpoint = folder_of(tmp_path, {"bias": stored("F32", (4,), f32([10, 11, 12, 13]))})
    assert all_rows(checkpoint, "bias").view(np.float32).tolist() == [[10, 11, 12, 13]]
    assert all_rows(checkpoint, "bias", np.array([2, 0, 3, 1])).view(np.float32).tolist() == [[12, 10, 13, 11]]


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2"])
def test_every_fp8_number(tmp_path: Path, kind: str) -> None:
    tensors = {"w": stored(kind, (16, 16), np.arange(256, dtype=np.uint8))}
    tensors["w_scale"] = stored("F32", (1,), f32([1]))
    found = all_rows(folder_of(tmp_path, tensors), "w").view(np.float32).reshape(-1)
    assert np.array_equal(found, fp8_values(kind), equal_nan=True)
    assert np.array_equal(np.signbit(found)[[0, 128]], [False, True])


def test_fp8_numbers_known_by_heart() -> None:
    """The extremes in the tables of the specification: the oracle of the test above is right."""
    e4m3, e5m2 = fp8_values("F8_E4M3"), fp8_values("F8_E5M2")
    assert e4m3[[0x01, 0x08, 0x38, 0x7E, 0xFE]].tolist() == [2**-9, 2**-6, 1, 448, -448]
    assert e5m2[[0x01, 0x04, 0x3C, 0x7B, 0x7C]].tolist() == [2**-16, 2**-14, 1, 57344, np.inf]


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize(
    ("added", "shape", "block"),
    [
        ("_scale", (), (200, 150)),
        ("_scale", (1,), (200, 150)),
        ("_scale_inv", (1, 1), (200, 150)),
        ("_scale", (200,), (1, 150)),
        ("_scale", (200, 1), (1, 150)),
        ("_scale_inv", (2, 2), (128, 128)),
        ("_scale_inv", (4, 3), (64, 50)),
        ("_scale_inv", (2, 1), (128, 1 << 70)),
    ],
)
def test_fp8_with_its_scales(
    tmp_path: Path, added: str, shape: tuple[int, ...], block: tuple[int, int], dtype: str
) -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 127, (200, 150), np.uint8)
    scales = np.asarray(rng.integers(1, 256, shape) / 256, np.float32)  # exact in BF16, too
    tensors = {"w": stored("F8_E4M3", (200, 150), codes)}
    tensors["w" + added] = Stored(dtype, shape, encode(scales, dtype))
    checkpoint = folder_of(tmp_path, tensors, quantization_config={"quant_method": "fp8", "weight_block_size": block})
    grid = scales.reshape(-(-200 // block[0]), -(-150 // block[1]))
    each = grid.repeat(min(block[0], 200), 0)[:200].repeat(min(block[1], 150), 1)[:, :150]
    source = checkpoint.source("w", "w")
    assert (source.type, source.shape) == ("F32", (200, 150))
    assert np.array_equal(source.rows(60, 131).view(np.float32), (fp8_values("F8_E4M3")[codes] * each)[60:131])


def test_scales_beyond_all_bounds_give_numbers_that_the_encoders_refuse(tmp_path: Path) -> None:
    """Without a warning, that is: the encoders name the tensor."""
    tensors = {"w": stored("F8_E4M3", (4, 1), np.array([0x7E, 0, 0x7E, 0x7F], np.uint8))}
    tensors["w_scale"] = stored("F32", (4,), f32([3e38, np.inf, np.nan, 1]))
    found = all_rows(folder_of(tmp_path, tensors), "w").view(np.float32).reshape(-1)
    assert np.array_equal(found, [np.inf, np.nan, np.nan, np.nan], equal_nan=True)


@pytest.mark.parametrize("scales", ["block", "row", "tensor"])
def test_fp8_comes_near_what_it_was_made_from(tmp_path: Path, scales: str) -> None:
    exact = Checkpoint.open(write_checkpoint(tmp_path / "exact", family="qwen3", dtype="F32"))
    near = Checkpoint.open(write_checkpoint(tmp_path / "near", family="qwen3", dtype="F8_E4M3", scales=scales))
    assert near.tensors.keys() == exact.tensors.keys()
    name = "model.layers.1.mlp.down_proj.weight"
    a, b = (all_rows(checkpoint, name).view(np.float32) for checkpoint in (exact, near))
    assert np.sqrt(np.mean((a - b) ** 2)) < 0.03 * np.std(a)


def test_scales_are_no_tensors_of_their_own(tmp_path: Path) -> None:
    one = stored("F32", (1,), f32([1]))
    names = ("q.weight_scale", "q.input_scale", "norm.weight_scale")
    tensors = {"q.weight": stored("F8_E4M3", (1, 1), np.array([56], np.uint8)), **dict.fromkeys(names, one)}
    assert folder_of(tmp_path, tensors).tensors.keys() == {"q.weight", "norm.weight_scale"}


def test_a_row_is_read_without_the_others(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    header = {"w": {"dtype": "F32", "shape": [1 << 20, 1 << 10], "data_offsets": [0, 1 << 32]}}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.seek((1 << 32) - 4, os.SEEK_CUR)
        file.write(np.float32(5).tobytes())
    (tmp_path / "config.json").write_text("{}")
    tracemalloc.start()
    rows = Checkpoint.open(tmp_path).source("w", "w").rows((1 << 20) - 2, 1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows.shape == (2, 4096)
    assert rows.view(np.float32)[1, -1] == 5
    assert peak < 1 << 20


def test_links_out_of_the_folder_as_in_the_cache_of_the_hub(tmp_path: Path) -> None:
    blobs, snapshot = write_checkpoint(tmp_path / "blobs", shards=2), tmp_path / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(Path("../..") / "blobs" / file.name)
    name = "model.norm.weight"
    assert np.array_equal(all_rows(Checkpoint.open(snapshot), name), all_rows(Checkpoint.open(blobs), name))


def test_the_one_file_comes_before_others(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    save_file({"norm": f32([1])}, tmp_path / "consolidated.safetensors")
    assert "norm" not in Checkpoint.open(tmp_path).tensors


def test_small_files(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(write_checkpoint(tmp_path, family="mistral"))
    (tmp_path / "chat_template.jinja").write_bytes(BOM_UTF8 + "{{ 'é' }}\r\n".encode())
    (tmp_path / "pair.json").write_bytes(rb'"\ud83d\ude00"')
    assert checkpoint.text("chat_template.jinja") == "{{ 'é' }}\n"
    assert (checkpoint.json("generation_config.json") or {})["top_p"] == 0.9
    assert checkpoint.json("pair.json") == "😀"
    assert checkpoint.bytes("tokenizer.model") == (tmp_path / "tokenizer.model").read_bytes()
    assert [checkpoint.json("none"), checkpoint.text("none"), checkpoint.bytes("none")] == [None] * 3


def test_a_large_one_is_as_large_as_asked_for() -> None:
    spec = large(8, "BF16")
    assert 7.7e9 < sum(2 * np.prod(shape) for _, shape in tensor_shapes(spec)) < 8.3e9
