"""Damaged files and unsupported tokenizers: an error of one line."""

from pathlib import Path
from typing import Any

import gguf
import pytest

from edgellm.errors import EdgeLLMError, ModelFileError, OptionError, UnsupportedModelError
from edgellm.text.tokenizer import Tokenizer
from support.make_vocab import byte_letters
from support.tiny_vocab import add, write, write_bpe, write_spm

BYTES = list(byte_letters())


def message(path: Path, kind: type[EdgeLLMError], text: str | None = None, pre: str | None = None) -> str:
    with pytest.raises(kind) as error:
        Tokenizer.open(path, pre).encode(text or "")
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"token_type": [1]}, "tokenizer.ggml.token_type has 1 entries for 259 tokens"),
        ({"scores": [0.0, 1.0]}, "tokenizer.ggml.scores has 2 entries for 259 tokens"),
        ({"scores": "x"}, "tokenizer.ggml.scores must be an array of float"),
        ({"token_type": [1.0] * 259}, "tokenizer.ggml.token_type must be an array of int"),
        ({"bos_token_id": 259}, "tokenizer.ggml.bos_token_id is 259, outside the 259 tokens"),
        ({"eom_token_id": 4_000_000_000}, "tokenizer.ggml.eom_token_id is 4000000000, outside"),
        ({"eos_token_id": "2"}, "tokenizer.ggml.eos_token_id must be an integer"),
        ({"add_bos_token": 1}, "tokenizer.ggml.add_bos_token must be true or false"),
        ({"token_type": [6] * 259}, "token 0 is a byte token, but"),
    ],
)
def test_sentencepiece_keys(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    path = write_spm(tmp_path / "v.gguf", {}, {}, **keys)
    assert f"v.gguf: key {said}" in (told := message(path, ModelFileError)) or f"v.gguf: {said}" in told


def test_a_file_may_say_that_there_is_no_such_token(tmp_path: Path) -> None:
    none = 0xFFFF_FFFF
    path = write_spm(tmp_path / "v.gguf", {}, {}, bos_token_id=none, eos_token_id=none, padding_token_id=none)
    tokenizer = Tokenizer.open(path)
    assert (tokenizer.bos_id, tokenizer.eos_id) == (None, None)


@pytest.mark.parametrize(
    ("merge", "said"),
    [
        ("ab", 'merges[1] "ab" is not two texts'),
        ("a b c", 'merges[1] "a b c" is not two texts'),
        ("", 'merges[1] "" is not two texts'),
        ("a b", 'merges[1] "a b" joins or makes what is not a token'),
        ("\u4e2d a", "merges[1]"),
        ("aaaaaaaaaaaaa aaaaaaaaa", "joins or makes what is not a token"),
        (" ", "joins or makes what is not a token"),
        (b"\xc4 a", 'merges[1] "\ufffd a" is not UTF-8'),
    ],
)
def test_merges(tmp_path: Path, merge: str | bytes, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "v.gguf", "gpt2", [*BYTES, "he"], merges=["h e", merge], pre="gpt-2")
    assert said in message(path, ModelFileError, "hello")
    assert capfd.readouterr().err == ""


def test_missing_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "v.gguf", "gpt2", BYTES, pre="gpt-2")
    assert "has no key tokenizer.ggml.merges" in message(path, ModelFileError)
    path = write(tmp_path / "w.gguf", "llama", ["a"])
    assert "has no tokenizer.ggml.scores" in message(path, ModelFileError)
    for key in ("tokenizer.ggml.model", "tokenizer.ggml.tokens"):
        writer = gguf.GGUFWriter(path := tmp_path / f"{key}.gguf", "none")
        if key != "tokenizer.ggml.model":
            add(writer, "tokenizer.ggml.model", "llama")
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        assert f"has no key {key}" in message(path, ModelFileError)


def test_unsupported_features_are_named(tmp_path: Path) -> None:
    told = message(write(tmp_path / "b.gguf", "bert", ["a"]), UnsupportedModelError)
    assert "b.gguf" in told and '"bert"' in told and "gpt2, llama" in told
    told = message(write_bpe(tmp_path / "v.gguf", ["h e"], {}, pre="no\nsuch"), UnsupportedModelError)
    assert '"no\\nsuch"' in told and "choose one with --tokenizer-pre: default, gpt-2, " in told
    path = write(tmp_path / "n.gguf", "gpt2", BYTES, merges=["a b"])
    assert "it names no pre-tokenizer; choose one with" in message(path, UnsupportedModelError)


def test_a_bad_option_is_the_callers_fault(tmp_path: Path) -> None:
    path = write_bpe(tmp_path / "v.gguf", ["h e"], {})
    assert '"qwen9"' in message(path, OptionError, pre="qwen9")
    assert "v.gguf uses none" in message(write_spm(path, {}, {}), OptionError, pre="gpt-2")


def test_ids_out_of_range(tmp_path: Path) -> None:
    tokenizer = Tokenizer.open(write_bpe(tmp_path / "v.gguf", ["h e"], {}))
    for i in (-1, 257, 1 << 40):
        with pytest.raises(EdgeLLMError, match=f"no token {i}; this model has the ids 0 to 256"):
            tokenizer.decode([i])


def test_empty_and_repeated_tokens_do_no_harm(tmp_path: Path) -> None:
    path = write(tmp_path / "v.gguf", "gpt2", [*BYTES, "", "", "he", "he"], merges=["h e"], pre="gpt-2")
    tokenizer = Tokenizer.open(path)
    assert tokenizer.decode([256, 258, 259]) == "hehe"
    assert tokenizer.decode(tokenizer.encode("hehe!")) == "hehe!"
