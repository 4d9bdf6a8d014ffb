"""`edgellm tokenize` as a program: stdin to stdout, errors in one line, exit codes."""

import json
import subprocess
import sys
from codecs import BOM_UTF8
from pathlib import Path

import pytest

from support.tiny_vocab import write_bpe, write_spm


def run(text: str | bytes, *args: object) -> tuple[int, bytes, str]:
    data = text.encode() if isinstance(text, str) else text
    command = [sys.executable, "-m", "edgellm", "tokenize", *map(str, args)]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.fixture(scope="module")
def spm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = {"▁": -2.0, "a": -1.0, "▁a": -0.5}
    return write_spm(tmp_path_factory.mktemp("v") / "v.gguf", words, {"<|im_end|>": 3})


def test_ids_on_one_line_or_as_json(spm: Path) -> None:
    assert run("a a", spm) == (0, b"261 261\n", "")
    assert run("a a", spm, "--json", "--add-special") == (0, b"[1, 261, 261]\n", "")
    assert run(BOM_UTF8 + b"a a", spm) == (0, b"261 261\n", "")
    assert run("a<|im_end|>", spm, "--special") == (0, b"261 262\n", "")


def test_text_round_trips_byte_for_byte(spm: Path) -> None:
    text = "  a\r\nö<|im_end|>\t\n"
    for special in ([], ["--special"]):
        _, ids, _ = run(text, spm, *special)
        assert run(ids, spm, "--decode", *special) == (0, text.encode(), "")
    assert run("[1, 261, 262]\n", spm, "--decode", "--json") == (0, b'"a"\n', "")
    assert json.loads(run("1,261 262", spm, "--decode", "--json", "--special")[1]) == "<s>a<|im_end|>"


def test_tokenizer_pre_replaces_the_files(tmp_path: Path) -> None:
    path = write_bpe(tmp_path / "v.gguf", ["! Ċ"], {}, pre="unheard-of")
    code, out, err = run("!\n", path)
    assert (code, out) == (1, b"") and '"unheard-of"' in err and err.count("\n") == 1
    assert run("!\n", path, "--tokenizer-pre", "llama-bpe") == (0, b"256\n", "")
    code, _, err = run("!\n", path, "--tokenizer-pre", "nope")
    assert code == 2 and '"nope"' in err


@pytest.mark.parametrize(
    ("text", "args", "code", "said"),
    [
        (b"a\xff", [], 1, "stdin: byte 1 is not UTF-8"),
        ("1 x", ["--decode"], 1, "stdin: 'x' is no token id"),
        ("-1", ["--decode"], 1, "stdin: '-1' is no token id"),
        ("9999", ["--decode"], 1, "no token 9999"),
        ("1", ["--decode", "--add-special"], 2, "--add-special"),
        ("1", ["--no-such"], 2, "--no-such"),
    ],
)
def test_bad_input(spm: Path, text: str | bytes, args: list[str], code: int, said: str) -> None:
    found, out, err = run(text, spm, *args)
    assert (found, out) == (code, b"") and said in err and "Traceback" not in err


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    code, out, err = run("a", tmp_path / "none.gguf")
    assert (code, out) == (1, b"") and "none.gguf" in err and err.count("\n") == 1
