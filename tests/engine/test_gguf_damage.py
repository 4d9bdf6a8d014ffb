"""Every kind of damage gives one line that names the file, what is wrong, and where."""

import os
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from edgellm.errors import ModelFileError
from edgellm.gguf import GGUFFile
from support import gguf_bytes as raw

ARCH = raw.string_pair("general.architecture", "llama")
Q4_K, Q8_0, Q4_2 = 12, 8, 4


def error_of(path: Path) -> str:
    """The message that opening `path` fails with: one line that names the file first."""
    with pytest.raises(ModelFileError) as caught:
        GGUFFile.open(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.isprintable()
    assert len(message) < 500 + len(str(path))
    return message.removeprefix(f"{path}: ")


def error_of_bytes(folder: Path, content: bytes) -> str:
    (folder / "m.gguf").write_bytes(content)
    return error_of(folder / "m.gguf")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\n<!DOCTYPE html><html><body>Sign in</body>", "web page"),
        (b"<html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git lfs pull"),
        (b"PK\x03\x04\x00\x00archive/data.pkl", "PyTorch"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "pickle"),
        (struct.pack("<Q", 60) + b'{"__metadata__":{"format":"pt"}}', "safetensors"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"tjgg\x03\x00\x00\x00", "before GGUF"),
        (bytes(4096), "all zeros"),
        (b"Invalid username or password.\n", 'begins "Invalid username or password."'),
        (b"# Notes on a model\n", "check the path, or download it again"),
        (b" \n\t ", "not a model"),
        (b"\x7fELF\x02\x01\x01\x00\x90\x00", "7f 45 4c 46"),
        (b"\x1b[31m\x1b[2J" * 9, "not a GGUF file"),
        (b"GGUF", "cut off"),
        (b"GGUF" + struct.pack("<I", 3), "cut off"),
        (b"GGUF" + struct.pack(">IQQ", 3, 1, 1), "big-endian"),
        (b"GGUF" + struct.pack("<III", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 0, 0, 0), "version 0"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "version 4"),
    ],
)
def test_other_file_formats_are_recognized(tmp_path: Path, content: bytes, words: str) -> None:
    assert words in error_of_bytes(tmp_path, content)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    assert "directory" in error_of(tmp_path)
    assert "no such file" in error_of(tmp_path / "gone.gguf")
    assert "cannot be opened" in error_of(tmp_path / ("x" * 300))
    with pytest.raises(ModelFileError, match="cannot be opened"):
        GGUFFile.open("a\0b")
    os.symlink("loop", tmp_path / "loop")  # noqa: PTH211 - both are fine
    assert "cannot be opened" in error_of(tmp_path / "loop")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_fifo_or_device_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in error_of(tmp_path / "pipe")
    assert "not a regular file" in error_of(Path("/dev/zero"))


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs Unix permissions")
def test_an_unreadable_file(tmp_path: Path) -> None:
    path = raw.RawGGUF().write(tmp_path / "m.gguf")
    path.chmod(0)
    user = os.geteuid()
    if user == 0:  # root reads everything
        os.seteuid(65534)
    try:
        assert "may not be read" in error_of(path)
    finally:
        os.seteuid(user)


HUGE = 2**64 - 1
IN_METADATA = {
    "duplicate key": (ARCH, "appears twice"),
    "empty key": (raw.pair("", raw.U8, b"\0"), "name is empty"),
    "key not UTF-8": (raw.pair(b"\xff", raw.U8, b"\0"), "not UTF-8"),
    "over-long key": (raw.pair("k" * 65536, raw.U8, b"\0"), "over-long"),
    "unknown type": (raw.pair("k", 13, bytes(8)), "no metadata type 13"),
    "unknown item type": (raw.pair("k", raw.ARRAY, raw.array(77, [])), "no metadata type 77"),
    "bool of 2": (raw.pair("k", raw.BOOL, b"\2"), "neither 0 nor 1"),
    "array with a bool of 2": (raw.pair("k", raw.ARRAY, raw.array(raw.BOOL, [b"\1\2"], 2)), "neither 0 nor 1"),
    "huge string": (raw.pair("k", raw.STRING, struct.pack("<Q", HUGE)), f"{HUGE} bytes of text"),
    "huge array": (raw.pair("k", raw.ARRAY, raw.array(raw.F64, [], HUGE)), f"{HUGE} numbers"),
    "2**61 numbers": (raw.pair("k", raw.ARRAY, raw.array(raw.F64, [], 2**61)), f"{2**61} numbers"),
    "huge string array": (raw.pair("k", raw.ARRAY, raw.array(raw.STRING, [], HUGE)), f"{HUGE} strings"),
    "huge nested array": (raw.pair("k", raw.ARRAY, raw.array(raw.ARRAY, [], HUGE)), f"{HUGE} nested arrays"),
    "string in array too long": (
        raw.pair("k", raw.ARRAY, raw.array(raw.STRING, [raw.text("a"), struct.pack("<QQ", HUGE, 0)])),
        "string 1 of 2",
    ),
    "last string too long": (
        raw.pair("k", raw.ARRAY, raw.array(raw.STRING, [raw.text("a"), struct.pack("<Q", 100)])),
        "string 1 of 2",
    ),
    "alignment of 0": (raw.u32_pair("general.alignment", 0), "alignment"),
    "alignment of 24": (raw.u32_pair("general.alignment", 24), "alignment"),
    "alignment of 4": (raw.u32_pair("general.alignment", 4), "alignment"),
    "alignment as text": (raw.string_pair("general.alignment", "32"), "alignment"),
}


@pytest.mark.parametrize("name", IN_METADATA)
def test_damaged_metadata(tmp_path: Path, name: str) -> None:
    pair, words = IN_METADATA[name]
    message = error_of_bytes(tmp_path, raw.RawGGUF().having(pair).build())
    assert words in message
    assert "key" in message
    assert ", byte " in message


def test_messages_give_the_byte_of_the_damage(tmp_path: Path) -> None:
    pair = raw.pair("k", raw.STRING, struct.pack("<Q", 10**6))
    content = raw.RawGGUF().having(pair).build()
    assert f"(key k, byte {len(content) - 8})" in error_of_bytes(tmp_path, content)


def test_escapes_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    pair = raw.pair("evil\n\x1b[2J", 13, b"")
    assert r"key evil\n\x1b[2J" in error_of_bytes(tmp_path, raw.RawGGUF().having(pair).build())


def nested(depth: int) -> bytes:
    value = raw.array(raw.U8, [b"\1"])
    for _ in range(depth):
        value = raw.array(raw.ARRAY, [value])
    return raw.pair("k", raw.ARRAY, value)


def test_nesting_is_bounded(tmp_path: Path) -> None:
    GGUFFile.open(raw.RawGGUF().having(nested(8)).write(tmp_path / "ok.gguf")).close()
    assert "nested more than 8 deep" in error_of_bytes(tmp_path, raw.RawGGUF().having(nested(9)).build())
    assert "nested" in error_of_bytes(tmp_path, raw.RawGGUF().having(nested(100_000)).build())


def test_nested_arrays_share_one_budget(tmp_path: Path) -> None:
    thousands = raw.pair("a", raw.ARRAY, raw.array(raw.ARRAY, [raw.array(raw.U8, [])] * 40_000))
    again = raw.pair("b", raw.ARRAY, raw.array(raw.ARRAY, [raw.array(raw.U8, [])] * 40_000))
    assert "40000 nested arrays" in error_of_bytes(tmp_path, raw.RawGGUF().having(thousands, again).build())


@pytest.mark.parametrize("field", ["n_pairs", "n_tensors"])
@pytest.mark.parametrize("lie", [100, 70_000, 2**32, HUGE])
def test_wrong_counts(tmp_path: Path, field: str, lie: int) -> None:
    model = replace(raw.RawGGUF(), **{field: lie})
    assert "it can hold" in error_of_bytes(tmp_path, model.build())


def q8(name: str | bytes = "w", dims: tuple[int, ...] = (32, 2), offset: int = 0, kind: int = Q8_0) -> raw.RawTensor:
    return raw.RawTensor(name, dims, kind, offset, bytes(68 if offset < 1 << 30 else 0))


IN_TENSORS = {
    "no dimensions": ([q8(dims=())], "1 to 4 dimensions, not 0"),
    "five dimensions": ([q8(dims=(32, 1, 1, 1, 1))], "1 to 4 dimensions, not 5"),
    "many dimensions": ([replace(q8(), n_dims=2**32 - 1)], "1 to 4 dimensions"),
    "a zero dimension": ([q8(dims=(32, 0))], "dimensions 32 x 0"),
    "overflowing dimensions": ([q8(dims=(2**32, 2**32))], "impossible"),
    "wrapping dimensions": ([q8(dims=(2**63, 2, 2**63, 2))], "impossible"),
    "part of a block": ([q8(dims=(33, 2))], "no whole Q8_0 blocks"),
    "part of a superblock": ([q8(dims=(128, 2), kind=Q4_K)], "rows of 128 weights"),
    "retired type": ([q8(kind=Q4_2)], "retired type Q4_2"),
    "unknown type": ([q8(kind=999)], "unknown type 999"),
    "misaligned": ([q8(offset=8)], "no multiple of 32"),
    "behind the end": ([q8(offset=2**63)], "before the end of tensor w"),
    "at the last byte": ([q8(offset=2**64 - 32)], "before the end of tensor w"),
    "larger than the file": ([q8(dims=(32, 1000))], "before the end of tensor w"),
    "overlap": ([q8(), q8("v", offset=64)], "shares bytes with tensor w"),
    "same place": ([q8(), q8("v")], "shares bytes with tensor w"),
    "duplicate name": ([q8(), q8(offset=96)], "appears twice"),
    "empty name": ([q8("")], "name is empty"),
    "name not UTF-8": ([q8(b"\xc3\x28")], "not UTF-8"),
}


@pytest.mark.parametrize("name", IN_TENSORS)
def test_damaged_tensor_table(tmp_path: Path, name: str) -> None:
    tensors, words = IN_TENSORS[name]
    assert words in error_of_bytes(tmp_path, raw.RawGGUF(tensors=tuple(tensors)).build())


def test_a_cut_off_file_says_how_much_is_missing(tmp_path: Path) -> None:
    tensors = (q8("blk.0.a"), q8("blk.7.ffn_up.weight", (32, 40_000), 96))
    whole = replace(tensors[1], data=bytes(34 * 40_000))
    content = raw.RawGGUF(tensors=(tensors[0], whole)).build()
    message = error_of_bytes(tmp_path, content[:-1_200_000])
    assert "is cut off: it ends 1.2 MB before the end of tensor blk.7.ffn_up.weight" in message
    assert "download the file again" in message


def test_every_shorter_prefix_of_a_file_is_refused(tmp_path: Path) -> None:
    pairs = (ARCH, raw.strings_pair("texts", ["a", "bc"]), nested(2), raw.u32_pair("n", 1))
    content = raw.RawGGUF(pairs=pairs, tensors=(raw.f32_tensor("w", (3,), 0, [1, 2, 3]),)).build()
    for length in range(len(content)):
        error_of_bytes(tmp_path, content[:length])
    (tmp_path / "m.gguf").write_bytes(content)
    GGUFFile.open(tmp_path / "m.gguf").close()


@pytest.mark.parametrize("kind", ["strings", "numbers", "tensors", "keys", "nested"])
def test_memory_stays_a_small_multiple_of_the_file(tmp_path: Path, kind: str) -> None:
    arrays = {
        "strings": raw.array(raw.STRING, [bytes(8)] * 250_000),
        "numbers": raw.array(raw.U8, [bytes(2_000_000)], 2_000_000),
        "nested": raw.array(raw.ARRAY, [raw.array(raw.U8, [])] * 30_000),
    }
    pairs = {"keys": tuple(raw.pair(str(i), raw.U8, b"\0") for i in range(30_000))}
    tensors = {"tensors": tuple(q8(str(i), (32,), 96 * i) for i in range(30_000))}
    pairs |= {name: (raw.pair("k", raw.ARRAY, value),) for name, value in arrays.items()}
    content = raw.RawGGUF(pairs=pairs.get(kind, ()), tensors=tensors.get(kind, ())).build()
    (tmp_path / "m.gguf").write_bytes(content)
    tracemalloc.start()
    tracemalloc.reset_peak()
    GGUFFile.open(tmp_path / "m.gguf").close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * len(content) + 10_000_000


def test_the_command_line_prints_one_line_and_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"<html>")
    for name in ("info", "verify"):
        command = [sys.executable, "-m", "edgellm", name, str(tmp_path / "m.gguf")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"edgellm: {tmp_path / 'm.gguf'}: is a web page")
        assert done.stderr.count("\n") == 1
