"""Errors of `edgellm generate`: one line on stderr, and the right exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgellm.cli import run
from support.generate_command import EDGELLM, TINY, Done, generate, only_line, path
from support.model_file import ModelFile

__all__ = ["path"]


def test_bad_models(path: Path, tmp_path: Path) -> None:
    made = {"empty": b"", "page": b"<!DOCTYPE html>", "lfs": b"version https://git-lfs", "cut": path.read_bytes()[:-99]}
    for name, content in made.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "two\nlines").write_bytes(b"GGUF")
    words = {"none": "no such file", "": "directory", "empty": "is empty", "page": "web page", "lfs": "Git LFS"}
    for name, expected in (words | {"cut": "is cut off", "two\nlines": "two\\nlines"}).items():
        assert expected in only_line(generate(tmp_path / name, "-p", "x"), 1)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_model(path: Path, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(path.read_bytes())
    (tmp_path / "m").chmod(0)
    assert "may not be read" in only_line(generate(tmp_path / "m", "-p", "x"), 1)


USAGE: list[tuple[list[str], str]] = [
    (["--threads", "0"], "--threads cannot be 0"),
    (["--threads", "x"], "'--threads': 'x' is not a valid integer"),
    (["--thread", "2"], "No such option '--thread'. Did you mean '--threads'?"),
    (["--logit-bias", "5"], "--logit-bias"),
    (["--logit-bias", "a=1"], "--logit-bias"),
    (["--logit-bias", "5=nan"], "--logit-bias cannot be"),
    (["--logit-bias", "99999=1"], "--logit-bias has token 99999: give ids below 320"),
    (["--draft", "16"], "--draft cannot be '16': give a model, auto or off; --draft-max is the number of drafts"),
    (["--draft", ""], "--draft cannot be '': give text that is not empty"),
    (["--draft-max", "8"], "--draft-max cannot be 8: give a whole number, from 1 to 7"),
    (["--draft", "off", "--draft-max", "2"], "--draft-max is about drafts, and with --draft off there are none"),
    (["--spec-type", "draft-mtp"], "drafts from the text itself need no option"),
    (["--kv-type", "q3"], "--kv-type cannot be 'q3': give f16, f32 or q8_0"),
    (["--engine", "fast"], "--engine cannot be 'fast'"),
    (["--gpu-layers", "some"], "--gpu-layers cannot be 'some'"),
    (["--temp", "-1"], "--temp cannot be -1.0"),
    (["--temp", "hot"], "--temp cannot be 'hot': give a finite number, at least 0"),
    (["-n", "-2"], "-n cannot be -2"),
    (["--seed", "-2"], "--seed cannot be -2"),
    (["--ctx", "-1"], "--ctx cannot be -1"),
    (["--stop", "a", "--stop", ""], "--stop cannot be '': give text that is not empty"),
    (["--ctx", "100000"], "--ctx cannot be 100000"),
    (["--raw", "--chat"], "--raw and --chat exclude each other"),
    (["--raw", "--system", "x"], "--raw and --system exclude each other"),
    (["--raw", "--template", "chatml"], "--raw and --template exclude each other"),
    (["--raw", "--overflow", "drop"], "--raw and --overflow exclude each other: --overflow needs a chat template"),
    (["--system", "x", "--system-file", "y"], "--system and --system-file exclude each other"),
    (["--chat", "--overflow", "forget"], "overflow cannot be 'forget': give stop, drop or window"),
    (["--json", "--jsonl"], "exclude each other"),
    (["--logprobs", "2"], "--logprobs belongs to --json or --jsonl"),
    (["--json", "--logprobs", "0"], "--logprobs cannot be 0: give a whole number, at least 1"),
    (["--chat", "--template-arg", "x"], "not K=V"),
    (["Hello", "it's me"], """give the prompt with -p: -p 'Hello it'"'"'s me' (see"""),
]


@pytest.mark.parametrize(("args", "words"), USAGE, ids=[" ".join(args) for args, _ in USAGE])
def test_wrong_usage_exits_with_2(
    path: Path, args: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["edgellm", "generate", str(path), "-p", "x", *args])
    monkeypatch.setattr(sys, "stdin", None)
    code, (out, err) = run(), capsys.readouterr()
    assert words in only_line(Done([], code, out.encode(), err.encode()), 2)


def test_no_prompt_at_all(path: Path) -> None:
    assert "Missing argument 'MODEL'" in only_line(subprocess.run([*EDGELLM, "generate"], capture_output=True), 2)


def test_bad_prompts(path: Path, tmp_path: Path, model_file: ModelFile) -> None:
    (tmp_path / "latin").write_bytes("fü".encode("latin-1"))
    assert f"{tmp_path / 'latin'}: byte 1 is not UTF-8" in only_line(generate(path, "-f", tmp_path / "latin"), 1)
    assert "stdin: byte 0 is not UTF-8" in only_line(generate(path, stdin=b"\xff"), 1)
    assert "-p: byte 2 is not UTF-8" in only_line(generate(path, "-p", "fo\udcff"), 1)
    assert "--system: byte 0 is not UTF-8" in only_line(generate(path, "-p", "x", "--chat", "--system", "\udcff"), 1)
    (tmp_path / "image").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\r")
    for binary in (path, tmp_path / "image"):
        assert "is a GGUF model or another binary file; give" in only_line(generate(path, "-f", binary), 1)
    assert "there is no such file; check the path" in only_line(generate(path, "-f", tmp_path / "none"), 1)
    assert "directory" in only_line(generate(path, "-f", tmp_path), 1)
    assert "name of the file is empty" in only_line(generate(path, "-p", "x", "--system-file", ""), 2)
    assert "too long for the context of 512" in only_line(generate(path, "-p", "z" * 600), 1)
    empty = only_line(generate(model_file(**TINY, tokenizer="gpt2"), "-p", ""), 1)
    assert "without even a BOS token" in empty and "give some text with -p" in empty
    for nothing in (generate(path), generate(path, stdin=b"")):
        assert "no prompt: give -p TEXT" in only_line(nothing, 2)


def test_unsupported_combinations(path: Path, model_file: ModelFile) -> None:
    assert "CPU alone" in only_line(generate(path, "-p", "x", "--gpu-layers", "all", "--engine", "llama.cpp"), 1)
    for message, words in (
        (["--chat"], "has no chat template: it may not be a chat model"),
        (["--system", ""], "has no chat template, which a system prompt needs: give one with --template"),
        (["--overflow", "window"], "has no chat template, which --overflow needs: give one with --template"),
        (["--template-arg", "a=b"], "has no chat template, which --template-arg needs"),
    ):
        assert words in only_line(generate(model_file(**TINY), "-p", "x", *message), 1)
