"""Models split over several files: any part opens all of them, and a missing or foreign part is named."""

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from edgellm.errors import ModelFileError
from edgellm.gguf import GGUFFile
from support import gguf_bytes as raw
from support.split_files import ARCH, split_pairs, write_parts


def error_of(path: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        GGUFFile.open(path)
    return str(caught.value)


@pytest.mark.parametrize("given", [0, 1, 2])
def test_any_part_opens_the_whole(tmp_path: Path, given: int) -> None:
    paths = write_parts(tmp_path)
    with GGUFFile.open(paths[given]) as file:
        assert (file.path, file.paths) == (paths[0], tuple(paths))
        assert file.architecture == "llama"
        assert [t.data.view(np.float32)[0] for t in file.tensors.values()] == [0, 1, 2]
        assert [t.path for t in file.tensors.values()] == paths
        assert file.nbytes == sum(path.stat().st_size for path in paths)


def test_a_model_split_by_the_gguf_package(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "big.gguf", "llama", split_max_tensors=2)
    for i in range(5):
        writer.add_tensor(f"t{i}", np.full((2, 3), i, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    paths = sorted(tmp_path.glob("*.gguf"))
    assert len(paths) == 3
    for path in paths:
        with GGUFFile.open(path) as file:
            values = {name: tensor.data.view(np.float32).tolist() for name, tensor in file.tensors.items()}
            assert values == {f"t{i}": [i] * 6 for i in range(5)}


def test_a_relative_path_finds_the_other_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with GGUFFile.open(write_parts(tmp_path)[1].name) as file:
        assert len(file.tensors) == 3


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    paths[1].unlink()
    assert paths[1].name in error_of(paths[0])
    assert paths[1].name in error_of(paths[2])
    paths[0].unlink()
    assert paths[0].name in error_of(paths[2])


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    paths[2].write_bytes(paths[2].read_bytes()[:-4])
    assert error_of(paths[0]).startswith(f"{paths[2]}: is cut off: it ends 4 bytes before the end of tensor t2")


def test_the_error_of_a_renamed_part_has_its_name(tmp_path: Path) -> None:
    renamed = write_parts(tmp_path)[1].rename(tmp_path / "model.gguf")
    assert "is part 2 of 3" in error_of(renamed)
    assert "-00002-of-00003.gguf" in error_of(renamed)


@pytest.mark.parametrize("padding", [0, 28])
def test_joined_parts_are_recognized(tmp_path: Path, padding: int) -> None:
    parts = write_parts(tmp_path)
    content = bytes(padding).join(path.read_bytes() for path in parts)
    for name in ("joined.gguf", "joined-00001-of-00003.gguf"):
        (tmp_path / name).write_bytes(content)
        assert "is several parts of a split model, one after the other in one file; get" in error_of(tmp_path / name)
    parts[0].write_bytes(parts[0].read_bytes() + bytes(padding))
    with GGUFFile.open(parts[0]) as file:
        assert len(file.tensors) == 3


def test_swapped_parts_are_noticed(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    paths[2].write_bytes(paths[1].read_bytes())
    assert error_of(paths[0]).startswith(f"{paths[2]}: says itself that it is not part 3 of 3")


def test_parts_of_different_models_are_noticed(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    foreign = raw.RawGGUF(pairs=split_pairs(2, 3, 3), tensors=(raw.f32_tensor("t1", (1,), 0, [9]),))
    foreign.write(paths[2])
    assert "repeats tensor t1" in error_of(paths[0])
    replace(foreign, tensors=()).write(paths[2])
    assert "all parts have 2 tensors, not 3" in error_of(paths[0])


@pytest.mark.parametrize("kind", [raw.STRING, raw.F32])
def test_split_keys_must_be_integers(tmp_path: Path, kind: int) -> None:
    value = raw.text("2") if kind == raw.STRING else raw.number(raw.F32, 2)
    path = raw.RawGGUF(pairs=(ARCH, raw.pair("split.count", kind, value))).write(tmp_path / "m.gguf")
    assert "no integer split.count" in error_of(path)


def test_a_lone_file_with_a_split_name_opens(tmp_path: Path) -> None:
    path = raw.RawGGUF().write(tmp_path / "m-00001-of-00003.gguf")
    with GGUFFile.open(path) as file:
        assert file.paths == (path,)
