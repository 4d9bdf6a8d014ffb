"""Incomplete and unsupported checkpoints: the error is one line that says what to do."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from converters.checkpoint import Checkpoint
from converters.checkpoint.shard import read_shard
from converters.file_bytes import read_bytes
from edgellm.errors import ModelFileError
from support.make_checkpoint import Stored, write_checkpoint, write_safetensors

INDEX = "model.safetensors.index.json"
FIRST, SECOND = (f"model-{n:05}-of-00002.safetensors" for n in (1, 2))
FUZZ = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def error_of(path: Path, work: Callable[[], object] | None = None) -> str:
    """The message that opening `path`, or `work`, fails with: one line that begins with a path."""
    with pytest.raises(ModelFileError) as caught:
        (work or (lambda: Checkpoint.open(path)))()
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.isprintable()
    return message


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A checkpoint of two shards."""
    return write_checkpoint(tmp_path / "whole", shards=2)


def test_headers_that_would_take_much_memory(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    write_safetensors(tmp_path / "model.safetensors", {"a": Stored("U8", (1,), np.zeros(1, np.uint8))})
    header = (tmp_path / "model.safetensors").read_bytes()[8:-1].ljust(1 << 24)
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\0")
    assert "has a header of 16.8 MB" in error_of(tmp_path / "model.safetensors", lambda: Checkpoint.open(tmp_path))


def test_a_small_file_that_is_not_small_is_not_read(whole: Path) -> None:
    os.truncate(whole / "config.json", 1 << 40)
    assert "has 1.1 TB, too large for this file" in error_of(whole / "config.json", lambda: Checkpoint.open(whole))


def test_what_is_no_folder(tmp_path: Path) -> None:
    assert "no such folder" in error_of(tmp_path / "gone")
    for name, words in [
        ("m.gguf", "edgellm quantize"),
        ("m.safetensors", "name the folder"),
        ("m.bin", "save_pretrained"),
        ("m.txt", "not a folder"),
    ]:
        (tmp_path / name).write_bytes(b"x")
        assert words in error_of(tmp_path / name)
    assert "cannot be read" in error_of(tmp_path / ("x" * 300))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "no .safetensors"),
        (["pytorch_model.bin"], "unpickling it would run whatever code"),
        (["pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"], "save_pretrained"),
        (["consolidated.00.pth"], "pickled"),
        (["adapter_config.json", "adapter_model.safetensors"], "LoRA"),
        (["adapter_config.json", "adapter_model.bin"], "LoRA"),
        (["model-Q8_0.gguf"], "no conversion"),
        (["refs", "blobs", "snapshots"], "inside its folder snapshots"),
        (["a.safetensors", "b.safetensors"], INDEX),
    ],
)
def test_folders_without_weights_that_can_be_read(tmp_path: Path, names: list[str], words: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    assert words in error_of(tmp_path)


@pytest.mark.parametrize(
    ("quantization", "words"),
    [
        ({"quant_method": "hqq"}, "by HQQ, which is not read; get the checkpoint that it was made from"),
        ({"quant_method": "eetq"}, "by EETQ"),
        ({"quant_method": "Quanto"}, "by Quanto"),
        ({"quant_method": "aqlm"}, "by AQLM"),
        ({"quant_method": "vptq"}, "by VPTQ"),
        ({"quant_method": "spqr"}, "by SpQR"),
        ({"quant_method": "torchao"}, "by torchao"),
        ({"quant_method": "exl3", "bits": 4}, "by EXL3"),
        ({"quant_method": "auto-round", "packing_format": "auto_round:exllamav2"}, "by AutoRound"),
        ({"quant_method": "compressed-tensors", "format": "marlin-24"}, "in the format marlin-24 are not read"),
        ({"quant_method": "\x1b[31m"}, r"\x1b[31m"),
        ({"bits": 4}, "without a name"),
        ([4], "JSON object"),
        ({"quant_method": "fp8", "weight_block_size": [128, 0]}, "weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": 128}, "weight_block_size"),
    ],
)
def test_weights_that_are_quantized_already(whole: Path, quantization: Any, words: str) -> None:
    (whole / "config.json").write_text(json.dumps({"quantization_config": quantization}))
    assert words in error_of(whole)


def test_quantized_weights_that_config_json_does_not_mention(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    codes = Stored("I32", (1,), np.zeros(4, np.uint8))
    write_safetensors(tmp_path / "model.safetensors", {"model.layers.0.mlp.up_proj.qweight": codes})
    assert "GPTQ or AWQ" in error_of(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "has no config.json"),
        (b"[]", "JSON object"),
        (b"{", "no valid JSON"),
        (b'{"a": "\\ud800"}', "no valid JSON"),
        (b"\xff", "no valid JSON"),
        (b"[" * 100000, "nested too deeply"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "nested too deeply"),
        (b'{"a": ' * 700 + b"1" + b"}" * 700, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "no valid JSON"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_damaged_configurations(whole: Path, content: bytes | None, words: str) -> None:
    (whole / "config.json").unlink()
    if content is not None:
        (whole / "config.json").write_bytes(content)
    assert words in error_of(whole)


def change_index(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    index = json.loads((folder / INDEX).read_text())
    change(index["weight_map"])
    (folder / INDEX).write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize("where", ["../x.safetensors", "/x", "a/b", "..\\x", "C:x", "", "..", ".", "a\0b", 7, None])
def test_an_index_that_points_outside_of_the_folder(whole: Path, where: object) -> None:
    shutil.copy(whole / FIRST, whole.parent / "x.safetensors")
    assert "outside of the folder" in error_of(change_index(whole, lambda names: names.update(a=where)))


def test_an_index_that_contradicts_its_shards(whole: Path) -> None:
    assert "does not hold tensor extra" in error_of(change_index(whole, lambda names: names.update(extra=SECOND)))
    change_index(whole, lambda names: (names.pop("extra"), names.pop("model.norm.weight")))
    assert "unlike the index, tensor model.norm.weight" in error_of(whole)
    (whole / INDEX).write_text('{"weight_map": {}}')
    assert "no weight_map" in error_of(whole)
    (whole / INDEX).write_text("[]")
    assert "JSON object" in error_of(whole)


def test_shards_that_cannot_be_read(whole: Path) -> None:
    content = (whole / SECOND).read_bytes()

    def of(new: bytes) -> str:
        (whole / SECOND).write_bytes(new)
        message = error_of(whole)
        assert SECOND in message
        return message

    assert "cut off or damaged" in of(content[:-1])
    assert "cut off or damaged" in of(content + b"x")
    assert "cut off or damaged" in of(b"")
    assert "cut off or damaged" in of(content[:100])
    assert "git lfs pull" in of(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    (whole / SECOND).unlink()
    assert "is missing" in error_of(whole)
    (whole / SECOND).mkdir()
    assert "not a regular file" in error_of(whole)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_shard_without_permission(whole: Path) -> None:
    (whole / SECOND).chmod(0)
    assert "permissions" in error_of(whole)


def test_a_shard_cut_short_while_it_is_read(whole: Path) -> None:
    checkpoint = Checkpoint.open(whole)
    source = checkpoint.source("lm_head.weight", "output.weight")
    os.truncate(whole / SECOND, 5000)
    assert "become shorter" in error_of(whole, lambda: source.rows(300, 320))
    (whole / SECOND).unlink()
    assert "cannot be read" in error_of(whole, lambda: source.rows(0, 1))


def test_a_shard_cut_short_while_its_header_is_read(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library maps files, and what is lost of a map ends the process: it gets a copy."""
    opened = safetensors.safe_open

    def cut_then_open(path: Path, **options: str) -> Any:
        os.truncate(whole / SECOND, 0)
        return opened(path, **options)

    monkeypatch.setattr(safetensors, "safe_open", cut_then_open)
    tensors = read_shard(whole / SECOND)
    assert "lm_head.weight" in tensors
    last = tensors["lm_head.weight"]
    assert "become shorter" in error_of(whole, lambda: read_bytes(last.file, last.offset, last.nbytes))


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_an_error_of_the_system_is_no_damage(whole: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, **options: str) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(safetensors, "safe_open", fail)
    assert f"cannot be read ({os.strerror(number)})" in error_of(whole)


@pytest.mark.parametrize("part", ["truncate", "write", "TemporaryFile"])
def test_a_header_is_read_where_no_temporary_file_can_be_written(
    whole: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, made = read_shard(whole / SECOND), tempfile.TemporaryFile

    def fail(*given: object, **options: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    class Full:
        """A temporary file on a full disk."""

        def __init__(self, **options: Any) -> None:
            self._file = made(**options)

        def __enter__(self) -> Any:
            return Mock(wraps=self._file.__enter__(), **{part: fail})

        def __exit__(self, *error: Any) -> None:
            self._file.close()

    monkeypatch.setattr("converters.checkpoint.shard.tempfile.TemporaryFile", fail if part == "TemporaryFile" else Full)
    assert read_shard(whole / SECOND) == expected


def test_tensors_that_cannot_be_sources(tmp_path: Path) -> None:
    one = np.zeros(4, np.uint8)
    tensors = {
        "integers": Stored("I32", (1, 1), one),
        "scalar": Stored("F32", (), one),
        "empty": Stored("F32", (0, 4), one),
        "vector": Stored("F32", (2,), one),
        "bare": Stored("F8_E4M3", (2, 2), one),
        "cube": Stored("F8_E4M3", (1, 1, 1), one),
        "cube_scale": Stored("F32", (1,), one),
        "odd": Stored("F8_E4M3", (2, 2), one),
        "odd_scale": Stored("F32", (3,), one),
        "coded": Stored("F8_E4M3", (2, 2), one),
        "coded_scale": Stored("I32", (1,), one),
    }
    write_safetensors(tmp_path / "model.safetensors", tensors)
    (tmp_path / "config.json").write_text("{}")
    checkpoint = Checkpoint.open(tmp_path)
    words = {"integers": "I32", "scalar": "no rows", "empty": "no rows", "bare": "no scale", "cube": "1x1x1"}
    for name, expected in {**words, "odd": "holds 3 scales", "coded": "I32 scales", "gone": "no tensor gone"}.items():
        assert expected in error_of(tmp_path, partial(checkpoint.source, name, name))
    assert "2 rows" in error_of(tmp_path, lambda: checkpoint.source("vector", "v", np.arange(3)))


def test_small_files_that_cannot_be_read(whole: Path) -> None:
    checkpoint = Checkpoint.open(whole)
    (whole / "latin.txt").write_bytes(b"caf\xe9")
    (whole / "gone.json").symlink_to("nowhere")
    (whole / "huge.json").touch()
    os.truncate(whole / "huge.json", 1 << 30)
    assert "byte 3 is not UTF-8" in error_of(whole, lambda: checkpoint.text("latin.txt"))
    assert "link to a file that is gone" in error_of(whole, lambda: checkpoint.json("gone.json"))
    assert "too large" in error_of(whole, lambda: checkpoint.json("huge.json"))
    assert "outside" in error_of(whole, lambda: checkpoint.bytes("../x"))


def survives(folder: Path) -> bool:
    """Open a checkpoint and read all of it; False when a clear error ended that."""
    try:
        checkpoint = Checkpoint.open(folder)
        for name in checkpoint.tensors:
            source = checkpoint.source(name, name)
            assert len(source.rows(0, source.row_count)) == source.row_count
    except ModelFileError as error:
        assert str(error).isprintable()
        return False
    return True


WIDTHS = {"F32": 4, "BF16": 2, "F8_E4M3": 1, "I8": 1, "F4": 1, "X": 1}
SIZES = st.integers(-1, 4) | st.sampled_from([1 << 32, 1 << 63, (1 << 64) - 1, 1 << 70]) | st.none()
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(list(WIDTHS)),
        "shape": st.lists(SIZES, max_size=4),
        "data_offsets": st.lists(SIZES, max_size=3),
    },
)


@FUZZ
@given(st.dictionaries(st.text(max_size=3), ENTRY, max_size=3), st.binary(max_size=16))
def test_whatever_a_header_says(tmp_path: Path, header: dict[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    (tmp_path / "config.json").write_text("{}")
    survives(tmp_path)


@FUZZ
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=3), st.booleans())
def test_whatever_bytes_a_header_has(tmp_path: Path, at: int, new: bytes, cut: bool) -> None:
    if not (tmp_path / "model.safetensors").exists():
        write_checkpoint(tmp_path, layers=1, width=128, ffn=128)
        shutil.copy(tmp_path / "model.safetensors", tmp_path / "good")
        assert survives(tmp_path)
    content = (tmp_path / "good").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:at] + new + (b"" if cut else content[at + len(new) :]))
    survives(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@FUZZ
@given(JSON, JSON)
def test_whatever_the_index_and_the_configuration_say(tmp_path: Path, index: Any, quantization: Any) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": index}))
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": quantization}))
    assert not survives(tmp_path)
