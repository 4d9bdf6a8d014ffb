"""The header of a GGUF file, read back by the `gguf` package and by our own reader."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from converters.conversion import with_file_type
from converters.gguf_source import raw_pairs
from converters.header import encode_pairs, layout_file
from converters.tensors import MetadataValue, PlannedTensor, Source
from edgellm.gguf import GGUFFile
from kquants.ggml import GGML_TYPES
from support import gguf_bytes as raw

VALUES: list[tuple[str, str, Any]] = [
    ("u8", "UINT8", 255),
    ("i8", "INT8", -128),
    ("u16", "UINT16", 65535),
    ("i16", "INT16", -2),
    ("u32", "UINT32", 2**32 - 1),
    ("i32", "INT32", -(2**31)),
    ("f32", "FLOAT32", 0.5),
    ("bool", "BOOL", True),
    ("str", "STRING", "zwölf 🙂"),
    ("u64", "UINT64", 2**64 - 1),
    ("i64", "INT64", -(2**63)),
    ("f64", "FLOAT64", 1e-300),
    ("str", "STRING", ["a", "", "ß"]),
    ("i32", "INT32", [1, -2, 3]),
    ("bool", "BOOL", [True, False]),
]


def planned(name: str, shape: tuple[int, ...], kind: int = 0) -> PlannedTensor:
    def rows(first: int, last: int) -> Any:
        raise AssertionError("no weight is read for a header")

    return PlannedTensor(Source(name, shape, "F32", rows), GGML_TYPES[kind])


def write(path: Path, pairs: dict[str, bytes], tensors: list[PlannedTensor]) -> Path:
    layout = layout_file(pairs, tensors)
    path.write_bytes(layout.header.ljust(layout.nbytes, b"\0"))
    return path


def test_the_gguf_package_reads_every_kind_of_value(tmp_path: Path) -> None:
    metadata = {f"a.{number}": MetadataValue(kind, value) for number, (kind, _, value) in enumerate(VALUES)}
    reader = gguf.GGUFReader(write(tmp_path / "a.gguf", encode_pairs(metadata), []))
    for key, (_, name, value) in zip(metadata, VALUES, strict=True):
        field: Any = reader.fields[key]
        assert (field.contents(), field.types[-1].name) == (value, name)
    assert [key for key in reader.fields if not key.startswith("GGUF.")] == list(metadata)


def test_numpy_arrays_and_empty_lists_are_arrays(tmp_path: Path) -> None:
    metadata = {
        "a": MetadataValue("f32", np.array([1.5, 2.5])),
        "b": MetadataValue("u16", []),
        "c": MetadataValue("str", [b"\xff", "x"]),
    }
    with GGUFFile.open(write(tmp_path / "a.gguf", encode_pairs(metadata), [])) as file:
        assert file.metadata["a"].tolist() == [1.5, 2.5]
        assert len(file.metadata["b"]) == 0
        assert list(file.get_strings("c").raws()) == [b"\xff", b"x"]


@pytest.mark.parametrize("alignment", [None, 64])
def test_tensors_follow_each_other_aligned_with_shapes_in_their_order(tmp_path: Path, alignment: int | None) -> None:
    tensors = [planned("z", (3, 5)), planned("a", (7,)), planned("m", (2, 3, 256), 12)]
    metadata = {} if alignment is None else {"general.alignment": MetadataValue("u32", alignment)}
    layout = layout_file(encode_pairs(metadata), tensors)
    path = write(tmp_path / "a.gguf", encode_pairs(metadata), tensors)
    reader = gguf.GGUFReader(path)
    assert [(t.name, t.shape.tolist()) for t in reader.tensors] == [("z", [5, 3]), ("a", [7]), ("m", [256, 3, 2])]
    assert [t.data_offset for t in reader.tensors] == layout.offsets
    assert all(offset % (alignment or 32) == 0 for offset in layout.offsets)
    assert layout.nbytes - layout.offsets[2] == 6 * 144 + (-6 * 144) % (alignment or 32)


def test_the_pairs_of_another_file_stay_as_they_are_but_for_its_parts(tmp_path: Path) -> None:
    nested = raw.array(raw.ARRAY, [raw.array(raw.U8, [raw.number(raw.U8, 3)])])
    kept = [
        raw.string_pair("general.architecture", b"ll\xffama"),
        raw.pair("a.wide", raw.U64, raw.number(raw.U64, 5)),
        raw.pair("a.nested", raw.ARRAY, nested),
        raw.pair("a.nan", raw.F32, b"\x01\x00\xc0\x7f"),
    ]
    split = [raw.pair(f"split.{key}", raw.U16, raw.number(raw.U16, 0)) for key in ("no", "count")]
    (tmp_path / "a.gguf").write_bytes(raw.RawGGUF(pairs=tuple(kept + split), version=2).build())
    pairs = raw_pairs(tmp_path / "a.gguf")
    assert [raw.text(key) + value for key, value in pairs.items()] == kept


def test_the_file_type_is_written_in_place_or_at_the_end() -> None:
    u32 = lambda n: encode_pairs({"": MetadataValue("u32", n)})[""]  # noqa: E731
    pairs = with_file_type({"general.file_type": b"old", "a": b"1"}, "Q4_K_M", [])
    assert list(pairs.items()) == [
        ("general.file_type", u32(15)),
        ("a", b"1"),
        ("general.quantization_version", u32(2)),
    ]
