"""`edgellm verify` finds contradictions and weights that are NaN or Inf, and no problem in valid files."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from click.testing import CliRunner, Result

from edgellm.cli.verify import command
from edgellm.errors import ModelFileError
from edgellm.gguf import GGUFFile
from edgellm.gguf.check import find_problems
from edgellm.gguf.nonfinite import find_nonfinite
from kquants.ggml import GGML_TYPES, NAMED_TYPES, GGMLType
from support import gguf_bytes as raw
from support.changed_keys import with_key
from support.kernels import put_scales
from support.model_file import FamilyFile

TOKENS = [f"t{i}" for i in range(6)]


def i32_array(key: str, values: list[int]) -> bytes:
    return raw.pair(key, raw.ARRAY, raw.array(raw.I32, [raw.number(raw.I32, value) for value in values]))


def model(
    *pairs: bytes, rows: int = 6, columns: int = 4, blocks: tuple[str, ...] = ("0", "1"), count: int = 2
) -> raw.RawGGUF:
    """A small valid model, or one that contradicts itself in one place."""
    tensors = [raw.f32_tensor("token_embd.weight", (rows, columns), 0, [0.5] * rows * columns)]
    tensors += [raw.f32_tensor(f"blk.{b}.w", (1,), 4096 + 32 * i, [1]) for i, b in enumerate(blocks)]
    head = (
        raw.string_pair("general.architecture", "new-kind"),
        raw.u32_pair("new-kind.block_count", count),
        raw.u32_pair("new-kind.embedding_length", 4),
        raw.strings_pair("tokenizer.ggml.tokens", TOKENS),
    )
    return raw.RawGGUF(pairs=head + pairs, tensors=tuple(tensors))


def problems(path: Path) -> list[str]:
    with GGUFFile.open(path) as file:
        return list(find_problems(file))


WHOLE = [
    model(),
    model(i32_array("tokenizer.ggml.token_type", [1] * 6), raw.u32_pair("tokenizer.ggml.eos_token_id", 5)),
    model(raw.u32_pair("tokenizer.ggml.padding_token_id", 2**32 - 1)),
    replace(model(), tensors=()),
    raw.RawGGUF(),
]
CONTRADICTIONS = [
    (model(rows=5), "token_embd.weight has 5 rows for 6 tokens"),
    (model(columns=8), "token_embd.weight has 8 columns for an embedding_length of 4"),
    (model(count=1), "tensors of block 1, and key block_count is 1"),
    (model(count=3), "no tensors of block 2, and key block_count is 3"),
    (model(blocks=("0", "2"), count=3), "no tensors of block 1"),
    (model(blocks=("999999999",)), "tensors of block 999999999"),
    (model(i32_array("tokenizer.ggml.token_type", [1] * 5)), "token_type is not an array of 6 numbers"),
    (model(raw.u32_pair("tokenizer.ggml.scores", 1)), "scores is not an array of 6 numbers"),
    (model(raw.u32_pair("tokenizer.ggml.bos_token_id", 6)), "bos_token_id is 6, not one of the 6 tokens"),
    (model(raw.string_pair("tokenizer.ggml.eot_token_id", "x")), "eot_token_id is x"),
    (model(raw.pair("f", raw.F32, raw.number(raw.F32, float("nan")))), "key f holds NaN"),
    (raw.RawGGUF(pairs=()), "general.architecture"),
    (raw.RawGGUF().having(raw.u32_pair("tokenizer.ggml.tokens", 1)), "tokens is not an array of text"),
]


@pytest.mark.parametrize("whole", WHOLE)
def test_valid_files_have_no_problems(tmp_path: Path, whole: raw.RawGGUF) -> None:
    assert problems(whole.write(tmp_path / "m.gguf")) == []


@pytest.mark.parametrize(("wrong", "words"), CONTRADICTIONS)
def test_a_contradiction_is_one_problem(tmp_path: Path, wrong: raw.RawGGUF, words: str) -> None:
    found = problems(wrong.write(tmp_path / "m.gguf"))
    assert len(found) == 1
    assert words in found[0]


def test_a_block_number_of_thousands_of_digits_is_no_block(tmp_path: Path) -> None:
    assert problems(model(blocks=("0", "1", "9" * 5000)).write(tmp_path / "m.gguf")) == []


def test_shared_files_are_valid(shared: Path) -> None:
    paths = sorted(shared.rglob("*.gguf"))
    assert len(paths) >= 6
    assert {path.name: problems(path) for path in paths} == {path.name: [] for path in paths}


def one_tensor(path: Path, kind: GGMLType, data: bytes, columns: int) -> GGUFFile:
    rows = len(data) // kind.row_bytes(columns)
    tensor = raw.RawTensor("w", (columns, rows), kind.number, 0, data)
    return GGUFFile.open(raw.RawGGUF(tensors=(tensor,)).write(path))


FLOATS = {
    "F32": lambda v: struct.pack("<f", v),
    "F16": lambda v: struct.pack("<e", v),
    "BF16": lambda v: struct.pack("<f", v)[2:],
    "F64": lambda v: struct.pack("<d", v),
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nonfinite_floats_are_located(tmp_path: Path, name: str, bad: float) -> None:
    kind = NAMED_TYPES[name]
    pack: Callable[[float], bytes] = FLOATS[name]
    values = [0.0, -1.0, 3e4, 1e-7] * 200
    with one_tensor(tmp_path / "a.gguf", kind, b"".join(map(pack, values)), 8) as file:
        assert find_nonfinite(file.tensors["w"]) is None
    values[333] = values[700] = bad
    with one_tensor(tmp_path / "b.gguf", kind, b"".join(map(pack, values)), 8) as file:
        tensor = file.tensors["w"]
        assert find_nonfinite(tensor) == (2, 333 // 8, tensor.offset + 333 * kind.nbytes)


SCALED = [kind for kind in GGML_TYPES.values() if kind.scales and kind.name != "Q8_1"]


@pytest.mark.parametrize("kind", SCALED, ids=lambda kind: kind.name)
def test_nonfinite_scales_are_located(tmp_path: Path, kind: GGMLType) -> None:
    columns = 2 * kind.block
    # All other bytes at 0xFF: whatever is no scale must not be taken for one.
    blocks = np.full((40, kind.nbytes), 0xFF, np.uint8)
    for offset in kind.scales:
        blocks[:, offset : offset + 2] = np.frombuffer(struct.pack("<e", 0.5), np.uint8)
    with one_tensor(tmp_path / "a.gguf", kind, blocks.tobytes(), columns) as file:
        assert find_nonfinite(file.tensors["w"]) is None
    for offset in kind.scales:
        damaged = blocks.copy()
        damaged[17, offset : offset + 2] = np.frombuffer(struct.pack("<e", float("inf")), np.uint8)
        with one_tensor(tmp_path / "b.gguf", kind, damaged.tobytes(), columns) as file:
            tensor = file.tensors["w"]
            assert find_nonfinite(tensor) == (1, 8, tensor.offset + 17 * kind.nbytes)


@pytest.mark.parametrize(
    ("name", "largest", "nan"), [("MXFP4", 0xFE, 0xFF), ("NVFP4", 0x7E, 0x7F), ("NVFP4", 0x7E, 0xFF)]
)
def test_nan_scales_of_8_bits_are_located(tmp_path: Path, name: str, largest: int, nan: int) -> None:
    kind, scales = NAMED_TYPES[name], range(4 if name == "NVFP4" else 1)
    blocks = np.full((40, kind.nbytes), 0xFF, np.uint8)
    blocks[:, scales] = largest
    with one_tensor(tmp_path / "a.gguf", kind, blocks.tobytes(), 2 * kind.block) as file:
        assert find_nonfinite(file.tensors["w"]) is None
    for offset in scales:
        damaged = blocks.copy()
        damaged[17, offset] = nan
        with one_tensor(tmp_path / "b.gguf", kind, damaged.tobytes(), 2 * kind.block) as file:
            tensor = file.tensors["w"]
            assert find_nonfinite(tensor) == (1, 8, tensor.offset + 17 * kind.nbytes)


def test_scales_in_four_pieces_are_located(tmp_path: Path) -> None:
    kind = NAMED_TYPES["IQ1_M"]
    blocks = np.full((512, kind.nbytes), 0xFF, np.uint8)
    # Every sign and exponent, with fractions of both kinds.
    bits = (np.arange(512) << 7 | 0x7F).astype("<u2")
    put_scales(kind, blocks, bits)
    finite = np.isfinite(bits.view(np.float16))
    with one_tensor(tmp_path / "a.gguf", kind, blocks[finite].tobytes(), 256) as file:
        assert find_nonfinite(file.tensors["w"]) is None
    with one_tensor(tmp_path / "b.gguf", kind, blocks.tobytes(), 256) as file:
        tensor, first = file.tensors["w"], int(np.flatnonzero(~finite)[0])
        assert find_nonfinite(tensor) == ((~finite).sum(), first, tensor.offset + first * kind.nbytes)


@pytest.mark.parametrize("kind", SCALED, ids=lambda kind: kind.name)
def test_scale_offsets_agree_with_the_gguf_package(kind: GGMLType) -> None:
    """Blocks of zeros become NaN weights exactly if a scale is NaN."""
    number = gguf.GGMLQuantizationType(kind.number)
    try:
        assert np.isfinite(gguf.quants.dequantize(np.zeros((1, kind.nbytes), np.uint8), number)).all()
    except NotImplementedError:
        pytest.skip(f"the gguf package cannot dequantize {kind.name}")
    for offset in range(0, kind.nbytes - 1, 2):
        block = np.zeros((1, kind.nbytes), np.uint8)
        block[0, offset : offset + 2] = 0xFF
        with np.errstate(all="ignore"):
            weights = gguf.quants.dequantize(block, number)
        assert np.isnan(weights).any() == (offset in kind.scales)


def test_damage_beyond_the_first_slab_is_found(tmp_path: Path) -> None:
    values = np.zeros((3, 400_000), np.float32)
    values[2, 399_999] = np.inf
    with one_tensor(tmp_path / "m.gguf", GGML_TYPES[0], values.tobytes(), 400_000) as file:
        tensor = file.tensors["w"]
        assert find_nonfinite(tensor) == (1, 2, tensor.offset + tensor.nbytes - 4)


def test_integers_are_not_checked(tmp_path: Path) -> None:
    with one_tensor(tmp_path / "m.gguf", NAMED_TYPES["I32"], b"\xff" * 16, 1) as file:
        assert find_nonfinite(file.tensors["w"]) is None


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def bad_model(folder: Path) -> Path:
    tensor = raw.f32_tensor("blk.0.w", (2, 2), 0, [0, 1, float("nan"), 2])
    return raw.RawGGUF(tensors=(tensor,)).write(folder / "m.gguf")


def test_the_command_prints_problems_and_fails(tmp_path: Path) -> None:
    path = bad_model(tmp_path)
    result = run(str(path))
    assert isinstance(result.exception, ModelFileError)
    assert "has 1 problem;" in str(result.exception)
    byte = len(path.read_bytes()) - 8
    expected = f"tensor blk.0.w (F32) has NaN or Inf in 1 of 4 weights, first in row 1 (m.gguf, byte {byte})\n"
    assert result.stdout == expected


def test_the_command_says_ok(tmp_path: Path) -> None:
    path = model().write(tmp_path / "m.gguf")
    result = run(str(path))
    assert result.exit_code == 0
    assert result.stdout == f"ok: {path}, 3 tensors, {path.stat().st_size / 1000:.3g} kB\n"


def test_json_is_one_object_in_every_case(tmp_path: Path) -> None:
    good = json.loads(run(str(model().write(tmp_path / "good.gguf")), "--json").stdout)
    assert (good["ok"], good["problems"], good["tensors"]) == (True, [], 3)
    bad = run(str(bad_model(tmp_path)), "--json")
    assert bad.exit_code == 1
    assert (json.loads(bad.stdout)["ok"], len(json.loads(bad.stdout)["problems"])) == (False, 1)
    gone = run(str(tmp_path / "gone.gguf"), "--json")
    assert gone.exit_code == 1
    assert "no such file" in json.loads(gone.stdout)["problems"][0]


def test_sizes_that_contradict_the_architecture_are_a_problem(family_file: FamilyFile, tmp_path: Path) -> None:
    """Of an architecture that edgellm does not know, no sizes are known."""
    whole = family_file("qwen3_5")
    assert run(str(whole)).exit_code == 0
    wrong = with_key(whole, tmp_path / "m.gguf", "qwen35.ssm.state_size", 24)
    done = run(str(wrong))
    assert done.exit_code == 1
    assert done.stdout.startswith("tensor blk.0.attn_qkv.weight has shape [256, 64], but the metadata asks for [288")
    assert done.stdout.count("\n") == 1
    unknown = tmp_path / "unknown.gguf"
    unknown.write_bytes(wrong.read_bytes().replace(b"qwen35", b"qwen95"))
    assert run(str(unknown)).exit_code == 0
