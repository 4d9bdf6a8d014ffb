"""Files of importance matrices, in both of llama.cpp's formats: what they hold, and that damaged ones are refused."""

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter

from edgellm.errors import ModelFileError, UnsupportedModelError
from edgellm.gguf import GGUFFile
from edgellm.gguf.imatrix import find_imatrix, read_imatrix

SUMS = np.array([[2.0, 8.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0], [6.0, 0.0, 1.5, 2.0]], np.float32)
COUNTS = np.array([[2.0], [0.0], [6.0]], np.float32)
STACK, MATRIX = "blk.0.ffn_up_exps.weight", "blk.0.attn_q.weight"


def tensors(**changed: Any) -> dict[str, Any]:
    """Those of a file with a stack of three experts, and a matrix."""
    found = {f"{STACK}.in_sum2": SUMS, f"{STACK}.counts": COUNTS}
    found |= {f"{MATRIX}.in_sum2": SUMS[:1], f"{MATRIX}.counts": COUNTS[:1]}
    return {name: value for name, value in (found | changed).items() if value is not None}


def write(path: Path, arrays: Mapping[str, Any], kind: str = "imatrix", chunks: int = 4) -> Path:
    writer = GGUFWriter(path, arch="")
    writer.kv_data[0].clear()  # as llama.cpp writes it, without an architecture
    writer.add_type(kind)
    writer.add_array("imatrix.datasets", ["wiki.txt", "code.txt"])
    writer.add_int64("imatrix.chunk_count", chunks)
    writer.add_uint32("imatrix.chunk_size", 512)
    for name, values in arrays.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def older(entries: Mapping[str, tuple[int, list[float]]], end: bytes = b"") -> bytes:
    """The bytes of the older format: a name has the number of calls, and the means times that."""
    parts = [struct.pack("<i", len(entries))]
    for name, (calls, values) in entries.items():
        parts += [struct.pack("<i", len(name)), name.encode(), struct.pack("<ii", calls, len(values))]
        parts.append(struct.pack(f"<{len(values)}f", *values))
    return b"".join(parts) + end


def test_a_gguf_file(tmp_path: Path) -> None:
    """Experts have means of their own; one without data those of all together."""
    found = read_imatrix(write(tmp_path / "i.gguf", tensors()))
    assert (found.datasets, found.chunks, found.chunk_size) == (("wiki.txt", "code.txt"), 4, 512)
    expected = [[1, 4, 0.25, 0], [1, 1, 0.25, 0.25], [1, 0, 0.25, 1 / 3]]
    np.testing.assert_allclose(found.entries[STACK].means(), expected, rtol=1e-7)
    assert found.entries[MATRIX].means().tolist() == [[1, 4, 0.25, 0]]


def test_means_are_finite_whatever_the_numbers_are(tmp_path: Path) -> None:
    """Sums of an expert that no row chose count for nothing, and counts are added up without overflow."""
    sums = np.full((3, 4), 3e38, np.float32)
    for counts in ([[0.0], [1.0], [0.0]], [[2.0**61]] * 3):
        arrays = tensors(**{f"{STACK}.in_sum2": sums, f"{STACK}.counts": np.array(counts, np.float32)})
        means = read_imatrix(write(tmp_path / "i.gguf", arrays)).entries[STACK].means()
        np.testing.assert_allclose(means, np.full((3, 4), 3e38 / max(map(max, counts))), rtol=1e-6)


@pytest.mark.parametrize("chunks", [-1, 1 << 40])
def test_impossible_numbers_of_chunks_are_refused(tmp_path: Path, chunks: int) -> None:
    path = write(tmp_path / "i.gguf", tensors(), chunks=chunks)
    with pytest.raises(ModelFileError, match=f"is damaged: key imatrix.chunk_count is {chunks}; make it again"):
        read_imatrix(path)


def test_the_older_format(tmp_path: Path) -> None:
    path = tmp_path / "i.dat"
    end = struct.pack("<ii", 7, 8) + b"wiki.txt"
    for tail, chunks, datasets in ((end, 7, ("wiki.txt",)), (end[:4], 7, ()), (b"", None, ())):
        path.write_bytes(older({MATRIX: (2, [3, 5]), STACK: (4, [1, 2, 3, 4, 5, 6])}, tail))
        found = read_imatrix(path)
        assert (found.chunks, found.datasets, found.chunk_size) == (chunks, datasets, None)
        assert found.entries[MATRIX].means().tolist() == [[1.5, 2.5]]
        assert found.entries[STACK].means().tolist() == [[0.25, 0.5, 0.75, 1, 1.25, 1.5]]


def test_every_cut_of_the_older_format_is_refused(tmp_path: Path) -> None:
    path, whole = tmp_path / "i.dat", older({MATRIX: (2, [3, 5]), STACK: (4, [1, 2])})
    for n in range(32, len(whole)):
        path.write_bytes(whole[:n])
        with pytest.raises(ModelFileError, match="is cut off or damaged at byte"):
            read_imatrix(path)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({f"{STACK}.counts": None}, "has 2 tensors of sums and 3 in all"),
        ({f"{STACK}.in_sum2": None}, "has 1 tensors of sums and 3 in all"),
        ({f"{STACK}.in_sum2": None, "x.in_sum2": SUMS}, "needs x.counts of type F32"),
        ({f"{MATRIX}.in_sum2": SUMS[:1].astype(np.float16)}, "needs blk.0.attn_q.weight.in_sum2 of type F32"),
        (
            {f"{MATRIX}.counts": np.ones((3, 1), np.float32)},
            "4 values of blk.0.attn_q.weight, which its 3 counts do not fit",
        ),
        ({f"{MATRIX}.counts": np.full((1, 1), 1.5, np.float32)}, "counts do not fit"),
        ({f"{MATRIX}.counts": np.full((1, 1), 1e30, np.float32)}, "counts do not fit"),
        ({f"{MATRIX}.in_sum2": SUMS[:1] * np.float32(np.nan)}, r"attn_q.weight.in_sum2 holds NaN or Inf"),
        ({f"{MATRIX}.in_sum2": SUMS[:1] - 1}, r"attn_q.weight.in_sum2 holds negative values"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    path = write(tmp_path / "i.gguf", tensors(**changed))
    with pytest.raises(ModelFileError, match=problem) as caught:
        read_imatrix(path)
    assert str(caught.value).endswith("; make it again with `edgellm imatrix`")


@pytest.mark.parametrize("value", [-1.0, np.inf, np.nan])
def test_impossible_numbers_of_the_older_format_are_refused(tmp_path: Path, value: float) -> None:
    path = tmp_path / "i.dat"
    path.write_bytes(older({MATRIX: (2, [3, value])}))
    with pytest.raises(ModelFileError, match=r"attn_q.weight holds (NaN or Inf|negative values)"):
        read_imatrix(path)


def test_what_to_do_with_one_that_is_cut_short(tmp_path: Path) -> None:
    """It is no download: at any length the advice is that for importance matrices."""
    whole, cut = write(tmp_path / "i.gguf", tensors()).read_bytes(), tmp_path / "cut.gguf"
    for length in (10, 100, len(whole) // 2, len(whole) - 32):
        cut.write_bytes(whole[:length])
        for advice in ("make it again with `edgellm imatrix`", "start anew"):
            with pytest.raises(ModelFileError, match=f"cut.gguf: [^;]*; {advice}$"):
                read_imatrix(cut, advice)


def test_other_files_are_none(tmp_path: Path) -> None:
    """And a matrix is no model: the error says what it is for."""
    text, other, path = tmp_path / "t.txt", write(tmp_path / "o.gguf", {"x": SUMS}, "model"), tmp_path / "i.gguf"
    text.write_text("blk.0.attn_q.weight is the name of a tensor")
    os.mkfifo(tmp_path / "fifo")
    others = (text, other, *(tmp_path / name for name in ("none", "fifo", ".", "zero\0")))
    assert [find_imatrix(each) for each in others] == [None] * 6
    for name in ("t.txt", "o.gguf", "fifo", "."):
        with pytest.raises(ModelFileError, match=r"is no importance matrix; make it again with `edgellm imatrix`$"):
            read_imatrix(tmp_path / name)
    with pytest.raises(ModelFileError, match=r"there is no such file; check the path$"):
        read_imatrix(tmp_path / "none")
    with GGUFFile.open(write(path, tensors())) as file, pytest.raises(UnsupportedModelError, match="--imatrix"):
        _ = file.architecture
    path.write_bytes(older({MATRIX: (2, [3, 5])}))
    with pytest.raises(ModelFileError, match=r"importance matrix in llama.cpp's older format, not a model"):
        GGUFFile.open(path)
