"""Random damage to files: a file opens and all of it can be read, or one clear error says why not."""

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgellm.cli.info import command as info_command
from edgellm.cli.verify import command as verify_command
from edgellm.errors import EdgeLLMError
from edgellm.gguf import GGUFFile
from edgellm.gguf.check import find_problems
from edgellm.info import describe
from kquants.ggml import GGML_TYPES
from support import gguf_bytes as raw
from support.fuzz_gguf import damaged

pytestmark = pytest.mark.slow

Q8_0, Q4_K = GGML_TYPES[8], GGML_TYPES[12]
# A temporary folder may serve all examples: each writes its file anew.
FUZZ = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def sample() -> raw.RawGGUF:
    """A model with every kind of metadata and tensors of several types."""
    inner = raw.array(raw.ARRAY, [raw.array(raw.U16, [b"\1\0"]), raw.array(raw.STRING, [raw.text("z")])])
    pairs = (
        raw.string_pair("general.architecture", "llama"),
        raw.string_pair("general.name", "näme"),
        raw.u32_pair("general.alignment", 32),
        raw.u32_pair("llama.block_count", 1),
        raw.u32_pair("llama.embedding_length", 32),
        raw.u32_pair("llama.attention.head_count", 4),
        raw.pair("llama.attention.head_count_kv", raw.ARRAY, raw.array(raw.I32, [raw.number(raw.I32, 2)])),
        raw.pair("llama.rope.freq_base", raw.F32, raw.number(raw.F32, 1e4)),
        raw.pair("nested", raw.ARRAY, inner),
        raw.strings_pair("tokenizer.ggml.tokens", ["<s>", "a", b"\xff"]),
        raw.pair("tokenizer.ggml.scores", raw.ARRAY, raw.array(raw.F32, [bytes(4)] * 3)),
        raw.pair("tokenizer.ggml.add_bos_token", raw.BOOL, b"\1"),
        raw.u32_pair("tokenizer.ggml.bos_token_id", 0),
    )
    tensors = (
        raw.f32_tensor("token_embd.weight", (3, 32), 0, [0.5] * 96),
        raw.RawTensor("blk.0.ffn_up.weight", (64, 2), Q8_0.number, 384, bytes(4 * Q8_0.nbytes)),
        raw.RawTensor("output.weight", (256, 3), Q4_K.number, 544, bytes(3 * Q4_K.nbytes)),
    )
    return raw.RawGGUF(pairs=pairs, tensors=tensors)


CONTENT, HEADER = sample().build(), len(sample().header())
SPLIT = replace(sample(), pairs=(*sample().pairs, raw.u32_pair("split.count", 1), raw.u32_pair("split.no", 0)))


def survives(path: Path, content: bytes) -> bool:
    """Open the file and look at everything in it; False when a clear error ended that."""
    path.write_bytes(content)
    try:
        with GGUFFile.open(path) as file:
            for problem in find_problems(file):
                assert problem.isprintable()
            assert sum(int(t.data.sum(dtype=np.int64)) for t in file.tensors.values()) >= 0
            assert sum(t.nbytes for t in file.tensors.values()) <= len(content)
            describe(file)
    except EdgeLLMError as error:
        assert str(error).startswith(str(path))
        assert str(error).isprintable()
        return False
    return True


def test_the_untouched_file_survives(tmp_path: Path) -> None:
    assert survives(tmp_path / "m.gguf", CONTENT)
    assert survives(tmp_path / "s.gguf", SPLIT.build())
    with GGUFFile.open(tmp_path / "m.gguf") as file:
        assert list(find_problems(file)) == []


def test_every_byte_of_the_header_may_be_anything(tmp_path: Path) -> None:
    survived = 0
    for at in range(HEADER):
        for value in (0, CONTENT[at] ^ 1, 0xFF):
            survived += survives(tmp_path / "m.gguf", CONTENT[:at] + bytes([value]) + CONTENT[at + 1 :])
    # Names and values may change unnoticed; a length, count, type or offset must not.
    assert HEADER < survived < 2.5 * HEADER


@settings(FUZZ, max_examples=1000)
@given(damaged(CONTENT, HEADER))
def test_damaged_files(tmp_path: Path, content: bytes) -> None:
    survives(tmp_path / "m.gguf", content)


@settings(FUZZ, max_examples=300)
@given(damaged(SPLIT.build(), len(SPLIT.header())))
def test_damaged_parts(tmp_path: Path, content: bytes) -> None:
    survives(tmp_path / "m-00001-of-00001.gguf", content)


@settings(FUZZ, max_examples=300)
@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: CONTENT[:24] + rest))
def test_random_bytes(tmp_path: Path, content: bytes) -> None:
    assert not survives(tmp_path / "m.gguf", content)


@settings(FUZZ, max_examples=100)
@given(damaged(CONTENT, HEADER))
def test_the_commands_never_show_a_traceback(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    path = str(tmp_path / "m.gguf")
    for command, options in ((verify_command, []), (info_command, ["--tensors", "--tokens"])):
        for json in ([], ["--json"]):
            result = CliRunner().invoke(command, [path, *options, *json])
            assert result.exception is None or isinstance(result.exception, EdgeLLMError)
            assert result.stdout.replace("\n", "").isprintable()


SCALARS = {
    "uint8": st.integers(0, 255),
    "int8": st.integers(-128, 127),
    "uint16": st.integers(0, 2**16 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(min_size=1),
    "array": st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1) | st.lists(st.text(), min_size=1),
}
KINDS = st.sampled_from(sorted(SCALARS))
VALUES = st.lists(KINDS.flatmap(lambda kind: st.tuples(st.just(kind), SCALARS[kind])), max_size=8)
TENSORS = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), max_size=4)


@settings(FUZZ, max_examples=100)
@given(VALUES, TENSORS, st.sampled_from([8, 32, 128]))
def test_what_the_gguf_package_writes_is_read_back(
    tmp_path: Path, values: list[tuple[str, object]], shapes: list[list[int]], alignment: int
) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(alignment)
    for i, (kind, value) in enumerate(values):
        getattr(writer, f"add_{kind}")(f"key.{i}", value)
    arrays = [np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + i for i, shape in enumerate(shapes)]
    for i, array in enumerate(arrays):
        writer.add_tensor(f"t{i}", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with GGUFFile.open(path) as file:
        found = [file.metadata[f"key.{i}"] for i in range(len(values))]
        plain = [list(value) if kind == "array" else value for value, (kind, _) in zip(found, values, strict=True)]
        assert plain == [value for _, value in values]
        for tensor, array in zip(file.tensors.values(), arrays, strict=True):
            assert tensor.shape == array.shape
            assert tensor.data.tobytes() == array.tobytes()
            assert tensor.offset % alignment == 0


@pytest.mark.parametrize("name", ["stories260K/stories260K-f32"])
def test_damage_to_a_real_header(shared: Path, tmp_path: Path, name: str) -> None:
    content = (shared / "models" / f"{name}.gguf").read_bytes()
    with GGUFFile.open(shared / "models" / f"{name}.gguf") as file:
        header = min(tensor.offset for tensor in file.tensors.values())
    rng = np.random.default_rng(0)
    for at, value in zip(rng.integers(0, header, 200), rng.integers(0, 256, 200), strict=True):
        survives(tmp_path / "m.gguf", content[:at] + bytes([value]) + content[at + 1 :])
