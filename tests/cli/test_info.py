"""`edgellm info` describes a file, as counted by hand here, and its text is safe for a terminal."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgellm.cli.info import command
from edgellm.errors import ModelFileError
from edgellm.gguf import GGUFFile
from edgellm.info import ExpertInfo, SpecialToken, TypeShare, describe, kv_bytes_per_token
from support import gguf_bytes as raw
from support.archs import ArchFixture
from support.family_file import EXPERTS, write_family
from support.gemma_assistants import write_assistant
from support.model_file import ModelFile

Q8_0 = 8


def i32s(key: str, values: list[int]) -> bytes:
    return raw.pair(key, raw.ARRAY, raw.array(raw.I32, [raw.number(raw.I32, value) for value in values]))


def pairs(architecture: str = "llama") -> tuple[bytes, ...]:
    return (
        raw.string_pair("general.architecture", architecture),
        raw.string_pair("general.name", "Tiny"),
        raw.string_pair("general.organization", "Someone"),
        raw.string_pair("general.license", "mit"),
        raw.u32_pair(f"{architecture}.context_length", 2048),
        raw.u32_pair(f"{architecture}.block_count", 3),
        raw.u32_pair(f"{architecture}.embedding_length", 64),
        raw.u32_pair(f"{architecture}.attention.head_count", 8),
        raw.u32_pair(f"{architecture}.attention.head_count_kv", 2),
        raw.string_pair("tokenizer.ggml.model", "gpt2"),
        raw.string_pair("tokenizer.ggml.pre", "llama-bpe"),
        raw.strings_pair("tokenizer.ggml.tokens", ["<s>", "\x1b[2J", b"\xff"]),
        i32s("tokenizer.ggml.token_type", [3, 1, 9]),
        raw.u32_pair("tokenizer.ggml.bos_token_id", 0),
        raw.u32_pair("tokenizer.ggml.eos_token_id", 7),
        raw.string_pair("tokenizer.chat_template", "{{ messages }}"),
    )


def key_of(pair: bytes) -> bytes:
    return pair[8 : 8 + pair[0]]


TENSORS = (
    raw.f32_tensor("norm", (64,), 0, [1.0] * 64),
    raw.RawTensor("a", (32, 4), Q8_0, 256, bytes(4 * 34)),
    raw.RawTensor("b", (32, 10), Q8_0, 416, bytes(10 * 34)),
)


def write(path: Path, *more: bytes, architecture: str = "llama", tensors: tuple[raw.RawTensor, ...] = TENSORS) -> Path:
    return raw.RawGGUF(pairs=pairs(architecture) + more, tensors=tensors).write(path)


def test_a_file_is_described(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf")
    with GGUFFile.open(path) as file:
        info = describe(file)
    assert (info.files, info.bytes, info.version) == ([str(path)], path.stat().st_size, 3)
    assert (info.architecture, info.name, info.author, info.license) == ("llama", "Tiny", "Someone", "mit")
    assert (info.parameters, info.context_length, info.layers) == (64 + 128 + 320, 2048, 3)
    assert info.types == [TypeShare("Q8_0", 2, 448, 476, 8.5), TypeShare("F32", 1, 64, 256, 32.0)]
    assert info.chat_template
    assert info.tokenizer is not None
    assert (info.tokenizer.model, info.tokenizer.pre, info.tokenizer.tokens) == ("gpt2", "llama-bpe", 3)
    assert info.tokenizer.special == {"bos": SpecialToken(0, "<s>"), "eos": SpecialToken(7, "")}


def test_what_a_file_was_quantized_with_is_shown(tmp_path: Path) -> None:
    """Keys that llama.cpp writes, too; others of that beginning are in the object alone, if they are text or whole."""
    texts = {"imatrix.file": "a\x1b.gguf", "imatrix.dataset": "wiki.txt", "gptq.dataset": "code.txt", "by": "me"}
    more = [raw.string_pair(f"quantize.{key}", text) for key, text in texts.items()]
    more += [
        raw.u32_pair("quantize.imatrix.chunks_count", 107),
        raw.pair("quantize.x", raw.F32, raw.number(raw.F32, 1)),
    ]
    path = str(write(tmp_path / "m.gguf", *more))
    shown = CliRunner().invoke(command, [path], catch_exceptions=False).stdout
    lines = [line.split(maxsplit=1) for line in shown.splitlines() if line.startswith(("imatrix", "GPTQ"))]
    assert lines == [["imatrix", "a\\x1b.gguf, of wiki.txt, 107 chunks"], ["GPTQ", "code.txt"]]
    found = json.loads(CliRunner().invoke(command, [path, "--json"], catch_exceptions=False).stdout)
    assert found["quantize"] == {**texts, "imatrix.chunks_count": 107}
    plain = str(write(tmp_path / "plain.gguf"))
    assert "imatrix" not in CliRunner().invoke(command, [plain], catch_exceptions=False).stdout
    assert json.loads(CliRunner().invoke(command, [plain, "--json"], catch_exceptions=False).stdout)["quantize"] == {}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # layers x KV heads x (key + value length) x 2 bytes; a head is 64 / 8 long unless the file says otherwise
        ((), 3 * 2 * (8 + 8) * 2),
        ((raw.u32_pair("x.attention.key_length", 16),), 3 * 2 * (16 + 8) * 2),
        ((raw.u32_pair("x.attention.key_length", 16), raw.u32_pair("x.attention.value_length", 4)), 3 * 2 * 20 * 2),
        ((i32s("x.attention.head_count_kv", [4, 0, 1]),), 5 * (8 + 8) * 2),
        ((raw.u32_pair("x.attention.kv_lora_rank", 512),), None),
        ((raw.u32_pair("x.attention.head_count_kv", 0),), None),
        ((raw.u32_pair("x.attention.head_count", 0),), None),
        ((i32s("x.attention.head_count", [8, 8, 8]),), None),
        ((raw.u32_pair("x.block_count", 2**32 - 1),), (2**32 - 1) * 2 * 16 * 2),
    ],
)
def test_kv_bytes_per_token(tmp_path: Path, more: tuple[bytes, ...], expected: int | None) -> None:
    given = {key_of(pair): pair for pair in (*pairs("x"), *more)}
    path = raw.RawGGUF(pairs=tuple(given.values())).write(tmp_path / "m.gguf")
    with GGUFFile.open(path) as file:
        assert kv_bytes_per_token(file) == expected


def test_heads_are_key_value_heads_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    path = raw.RawGGUF(pairs=tuple(p for p in pairs() if b"head_count_kv" not in p)).write(tmp_path / "m.gguf")
    with GGUFFile.open(path) as file:
        assert kv_bytes_per_token(file) == 3 * 8 * 16 * 2


def output(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.exception
    return result.stdout


def rows(text: str) -> dict[str, str]:
    return {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines() if line}


def test_the_text_names_everything(tmp_path: Path) -> None:
    found = rows(output(str(write(tmp_path / "m.gguf"))))
    assert found["name"] == "Tiny"
    assert found["author"] == "Someone"
    assert found["license"] == "mit"
    assert found["architecture"] == "llama"
    assert found["parameters"] == "512"
    assert found["layers"] == "3"
    assert found["context"] == "2,048 tokens"
    assert found["KV"] == "cache 192 bytes per token (f16)"
    assert found["tokenizer"] == "gpt2 (llama-bpe), 3 tokens"
    assert found["special"] == "bos 0 <s>, eos 7"
    assert found["template"] == "yes"
    assert found["Q8_0"] == "2 448 476 bytes 8.50"
    assert found["F32"] == "1 64 256 bytes 32.00"


def test_lists_of_tensors_and_tokens(tmp_path: Path) -> None:
    found = rows(output(str(write(tmp_path / "m.gguf")), "--tensors", "--tokens"))
    assert found["b"] == "Q8_0 10 x 32 340 bytes"
    assert found["0"] == "control <s>"
    assert found["1"] == r"\x1b[2J"
    assert found["2"] == "9 \ufffd"


def test_columns_are_aligned(tmp_path: Path) -> None:
    lines = output(str(write(tmp_path / "m.gguf")), "--tensors").split("\n\n")[2].splitlines()
    assert len({line.index(word) for line, word in zip(lines, ("type", "F32", "Q8_0", "Q8_0"), strict=True)}) == 1


def test_json_has_the_same_and_the_lists(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf")
    found = json.loads(output(str(path), "--json", "--tensors", "--tokens"))
    assert (found["architecture"], found["parameters"], found["kv_bytes_per_token"]) == ("llama", 512, 192)
    assert found["types"][0] == {
        "type": "Q8_0",
        "tensors": 2,
        "parameters": 448,
        "bytes": 476,
        "bits_per_weight": 8.5,
    }
    assert found["tokenizer"]["special"]["bos"] == {"id": 0, "text": "<s>"}
    assert [t["name"] for t in found["tensors"]] == ["norm", "a", "b"]
    assert found["tensors"][1]["shape"] == [4, 32]
    assert found["tokens"] == ["<s>", "\x1b[2J", "\ufffd"]
    assert {"tensors", "tokens"}.isdisjoint(json.loads(output(str(path), "--json")))


def test_escapes_in_metadata_do_not_reach_the_terminal(tmp_path: Path) -> None:
    evil = (raw.string_pair("general.architecture", "llama"), raw.string_pair("general.name", "\x1b]0;x\x07\r\n\u202e"))
    tensor = replace(TENSORS[0], name="\x1b[31m")
    path = raw.RawGGUF(pairs=evil, tensors=(tensor,)).write(tmp_path / "m.gguf")
    text = output(str(path), "--tensors")
    assert text.replace("\n", "").isprintable()
    assert r"\x1b]0;x\x07\r\n\u202e" in text


def test_files_without_weights_or_tokenizer(tmp_path: Path) -> None:
    path = write(tmp_path / "v.gguf", architecture="brand-new", tensors=())
    assert rows(output(str(path)))["parameters"] == "none in this file"
    bare = raw.RawGGUF().write(tmp_path / "b.gguf")
    found = rows(output(str(bare), "--tensors", "--tokens"))
    assert (found["tokenizer"], found["template"]) == ("none", "none")


def test_the_wrong_kind_of_value_is_an_error(tmp_path: Path) -> None:
    arch = raw.string_pair("general.architecture", "llama")
    path = raw.RawGGUF(pairs=(arch, raw.string_pair("llama.context_length", "x"))).write(tmp_path / "m.gguf")
    result = CliRunner().invoke(command, [str(path)])
    assert isinstance(result.exception, ModelFileError)
    assert str(result.exception).startswith(f"{path}: key llama.context_length must be an integer")


@pytest.mark.parametrize(("window", "more"), [(1024, ", attention window 1,024"), (0, "")])
def test_the_attention_window_is_shown_with_the_context(tmp_path: Path, window: int, more: str) -> None:
    path = str(write(tmp_path / "m.gguf", raw.u32_pair("llama.attention.sliding_window", window)))
    assert rows(output(path))["context"] == f"2,048 tokens{more}"
    assert json.loads(output(path, "--json"))["window"] == (window or None)


def test_an_optional_value_of_another_type_is_ignored(tmp_path: Path) -> None:
    """A name or licence that is a number does not stop `list`, `info` or the use of the model."""
    arch = raw.string_pair("general.architecture", "llama")
    hints = ("name", "author", "license", "file_type")
    odd = (raw.pair(f"general.{key}", 7, bytes([1])) for key in hints)  # true
    path = raw.RawGGUF(pairs=(arch, *odd)).write(tmp_path / "m.gguf")
    with GGUFFile.open(path) as file:
        found = describe(file)
        assert all(file.metadata[f"general.{key}"] is True for key in hints)
    assert (found.name, found.author, found.license) == (None, None, None)


def test_shared_files_are_described(shared: Path) -> None:
    with GGUFFile.open(shared / "models/stories260K/stories260K-f32.gguf") as file:
        info = describe(file)
    # 5 layers, 4 KV heads of 8
    assert (info.layers, info.context_length, info.kv_bytes_per_token) == (5, 512, 5 * 4 * 16 * 2)
    for path in sorted((shared / "vocab").glob("*.gguf")):
        found = json.loads(output(str(path), "--json"))
        assert found["tokenizer"]["tokens"] > 30_000


@pytest.mark.parametrize(("name", "brought"), [("info", []), ("verify", ["llvmlite"])])
def test_numba_is_not_imported(model_file: ModelFile, name: str, brought: list[str]) -> None:
    """LLVM makes the handler that lets `verify` read a file which another program cuts short."""
    path = model_file(types="F32")
    code = f"import sys; from edgellm.cli import cli; cli.main(['{name}', sys.argv[1]], standalone_mode=False); "
    code += "print(sorted({'numba', 'llvmlite', 'gguf', 'jinja2', 'tokenizers'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(brought)


def test_a_window_bounds_the_kv_cache_of_its_layers(model_file: ModelFile) -> None:
    sizes = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
    with GGUFFile.open(model_file(**sizes, metadata=(("attention.sliding_window", 100),))) as file:
        windowed = describe(file)
    assert (windowed.kv_bytes_per_token, windowed.kv_bytes_beyond_window) == (2 * 2 * 64, 0)
    with GGUFFile.open(model_file(**sizes)) as file:
        assert describe(file).kv_bytes_beyond_window is None


def test_a_model_that_is_not_run_says_why(tmp_path: Path) -> None:
    experts = (*pairs("x"), raw.u32_pair("x.expert_count", 8))
    path = raw.RawGGUF(pairs=experts).write(tmp_path / "m.gguf")
    with GGUFFile.open(path) as file:
        assert (describe(file).unsupported or "").startswith("architecture x is not supported")


EXPERT_KEYS = (
    raw.u32_pair("x.block_count", 2),
    raw.u32_pair("x.expert_count", 8),
    raw.u32_pair("x.expert_used_count", 3),
)


def expert_tensors() -> tuple[raw.RawTensor, ...]:
    """32 weights of others, of a shared expert and of a prediction layer, and 8 experts of 32 in two ways."""
    names = ("blk.0.ffn_gate_inp.weight", "blk.1.ffn_up_shexp.weight", "blk.2.ffn_up_exps.weight")
    stacks = [("blk.0.ffn_gate_up_exps.weight", (32, 1, 8)), *((f"blk.1.ffn_up.{i}.weight", (32,)) for i in range(8))]
    shapes: list[tuple[str, tuple[int, ...]]] = [*((name, (32,)) for name in names), *stacks]
    found, offset = [], 0
    for name, shape in shapes:
        n = math.prod(shape)
        found.append(raw.f32_tensor(name, shape, offset, [1.0] * n))
        offset += 4 * n
    return tuple(found)


def test_the_experts_of_a_model_and_its_active_parameters(tmp_path: Path) -> None:
    given = {key_of(pair): pair for pair in (*pairs("x"), *EXPERT_KEYS)}
    more = raw.u32_pair("x.nextn_predict_layers", 1), raw.u32_pair("x.block_count", 3)
    given |= {key_of(pair): pair for pair in more}
    path = raw.RawGGUF(pairs=tuple(given.values()), tensors=expert_tensors()).write(tmp_path / "m.gguf")
    with GGUFFile.open(path) as file:
        found = describe(file)
    assert found.experts == ExpertInfo(count=8, used=3, shared=1)
    assert found.parameters == 3 * 32 + 2 * 8 * 32
    assert found.active_parameters == 2 * 32 + 2 * 3 * 32
    assert (found.layers, found.prediction_layers) == (2, 1)
    text = rows(output(str(path)))
    assert text["layers"] == "2, and 1 for multi-token prediction, not computed"
    assert text["parameters"] == "608, 256 active, 32 for multi-token prediction"
    assert text["experts"] == "8 in a layer, 3 used for each token, 1 shared by all tokens"
    data = json.loads(output(str(path), "--json"))
    assert (data["active_parameters"], data["experts"]) == (256, {"count": 8, "used": 3, "shared": 1})
    assert (data["prediction_parameters"], data["layer_kinds"], data["state_bytes"]) == (32, None, None)


def test_the_layers_of_a_head_in_a_file_of_its_own(tmp_path: Path) -> None:
    """All of them count as layers for multi-token prediction in the file of an assistant, which has no others."""
    text = rows(output(str(write_assistant(tmp_path / "assistant.gguf"))))
    assert (text["layers"], text["parameters"]) == ("4", "55.9 k")
    assert "--draft names it beside the model that it drafts for" in text["engine"]
    assert "holds an assistant of Gemma 4, not a model" in text["engine"]


STATE = 4 * (3 * (2 * 16 + 2 * 16) + 2 * 16 * 32)
"""Bytes of a state of small qwen35 files: rows of the convolution, and 16 rows of two heads, padded to 32 values."""


def test_recurrent_layers_and_their_state(model_file: ModelFile) -> None:
    """Two layers with gated DeltaNet and two with attention, none of which has a window."""
    sizes = {"arch": "qwen35", "width": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 96, "layers": 4}
    path = model_file(**sizes, types="F32")
    text, data = rows(output(str(path))), json.loads(output(str(path), "--json"))
    assert text["layers"] == "4: 2 gated DeltaNet, 2 attention"
    assert text["KV"] == "cache 256 bytes per token (f16)"
    assert text["state"] == f"{2 * STATE / 1000:.3g} kB per sequence (2 recurrent layers)"
    assert (data["layer_kinds"], data["state_bytes"]) == ({"gated DeltaNet": 2, "attention": 2}, 2 * STATE)
    assert (data["kv_bytes_per_token"], data["kv_bytes_beyond_window"]) == (2 * 2 * 2 * (16 + 16), None)
    dense = model_file(width=64, heads=2, kv_heads=1, head_dim=32, ffn=96, types="F32", layers=3)
    assert rows(output(str(dense)))["layers"] == "3" and "state" not in rows(output(str(dense)))
    data = json.loads(output(str(dense), "--json"))
    assert (data["layer_kinds"], data["state_bytes"], data["prediction_parameters"]) == ({"attention": 3}, 0, 0)


FIXTURES = {
    "qwen3_5": "4: 3 gated DeltaNet, 1 attention, and 1 for multi-token prediction, which --draft auto uses",
    "nemotron_h": "5: 2 Mamba-2, 2 feed-forward, 1 attention",
    "falcon_h1": "3: 3 Mamba-2 and attention",
    "mamba2": "3: 3 Mamba-2",
    "lfm2": "5: 3 short convolution, 2 attention",
    "deepseek_v3": "3",
}


@pytest.mark.parametrize("name", FIXTURES)
def test_layers_by_kind(shared: Path, name: str) -> None:
    text = rows(output(str(ArchFixture.of(shared, name).gguf)))
    assert text["layers"] == FIXTURES[name]
    assert ("KV" in text) == (name != "mamba2")
    assert ("state" in text) == (name != "deepseek_v3")


@pytest.mark.parametrize("used", [0, 9])
def test_an_impossible_number_of_experts_is_none(tmp_path: Path, used: int) -> None:
    more = raw.u32_pair("x.expert_count", 8), raw.u32_pair("x.expert_used_count", used)
    path = raw.RawGGUF(pairs=(*pairs("x"), *more), tensors=TENSORS).write(tmp_path / "m.gguf")
    with GGUFFile.open(path) as file:
        found = describe(file)
    assert found.experts is None
    assert found.active_parameters == found.parameters == 512
    text = rows(output(str(path)))
    assert text["parameters"] == "512" and "experts" not in text


def test_a_block_with_a_number_of_thousands_of_digits(tmp_path: Path) -> None:
    path = write_family(tmp_path / "m.gguf", "qwen3moe", EXPERTS, {f"blk.{'1' * 5000}.attn_q.weight": (7, 32)})
    with GGUFFile.open(path) as file:
        info = describe(file)
    experts = 4 * 4 * 3 * 24 * 32  # layers, experts, matrices; two of four experts are used
    assert info.active_parameters == info.parameters - experts // 2
