"""`edgellm generate` as a program: tokens alone on stdout, all else in one line on stderr, the right exit code."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import warnings
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from edgellm import Model
from edgellm.cli import run
from edgellm.cli.progress import show_warnings
from edgellm.errors import EdgeLLMWarning
from support.model_file import ModelFile

EDGELLM = [sys.executable, "-m", "edgellm"]
TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
LONG: dict[str, Any] = {"types": "Q8_0", "context_length": 32768}
GREEDY = ["--temp", "0", "-n", "8", "--logit-bias", "2=-inf", "--threads", "1"]
STATS = ["prompt_tokens", "cached_tokens", "generated_tokens", "ttft_s", "prefill_tps", "decode_tps"]
STATS += ["itl_ms", "mbu", "devices"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes are POSIX here")
Done = subprocess.CompletedProcess[bytes]


def generate(path: Path | str, *args: object, stdin: bytes = b"") -> Done:
    command = [*EDGELLM, "generate", str(path), *map(str, args)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def path(model_file: ModelFile) -> Path:
    return model_file(**TINY, chat_template="{{ bos_token }}{% for m in messages %}{{ m.content }}{{ x }}{% endfor %}")


@pytest.fixture(scope="module")
def text_of(path: Path) -> Callable[[str], str]:
    """What the model says to a prompt, from Python."""

    def generated(prompt: str) -> str:
        with Model.open(path, threads=1) as model:
            return model.generate(prompt, temp=0, max_tokens=8, logit_bias={2: -float("inf")}).text

    return generated


def text_in(done: Done) -> str:
    """What stdout has, less the end of its last line."""
    assert done.stdout.endswith(b"\n")
    return done.stdout[:-1].decode()


def only_line(done: Done, code: int) -> str:
    """The one line on stderr of a command that failed with `code` and printed nothing else."""
    assert (done.returncode, done.stdout) == (code, b""), done.stderr.decode()
    line = done.stderr.decode()
    assert line.startswith("edgellm: ")
    assert line.endswith("\n")
    assert line.count("\n") == 1
    return line


def test_stdout_has_the_tokens_alone(path: Path, text_of: Callable[[str], str]) -> None:
    expected = text_of("the time")  # first: it compiles what is not there yet, which the command would tell
    done = generate(path, "-p", "the time", *GREEDY)
    assert (done.returncode, done.stdout.decode()) == (0, f"{expected}\n")
    assert done.stderr.decode().startswith("prompt ")
    assert "generated 8 · TTFT " in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_parts_of_a_prompt_are_joined_in_order(path: Path, tmp_path: Path, text_of: Callable[[str], str]) -> None:
    (tmp_path / "a").write_text("was é")
    (tmp_path / "b").write_text(" in\n")
    done = generate(path, "-f", tmp_path / "a", "-p", "he ", "-f", tmp_path / "b", *GREEDY, stdin=b" on\r\n")
    assert text_in(done) == text_of("he was é in\n on")
    assert text_in(generate(path, *GREEDY, stdin=b"on")) == text_of("on")
    # The line end behind the last part is none of the prompt; those before it are, and so is one given with -p.
    assert text_in(generate(path, *GREEDY, stdin=b"on\n\n")) == text_of("on\n")
    assert text_in(generate(path, "-f", tmp_path / "b", *GREEDY)) == text_of(" in")
    assert text_in(generate(path, "-p", "on\n", *GREEDY)) == text_of("on\n")
    # stdin has a place of its own where a - stands for it, and comes once.
    there = generate(path, "-f", "-", "-f", tmp_path / "b", *GREEDY, stdin=b"on\n")
    assert text_in(there) == text_of("on\n in")


def test_a_byte_order_mark_is_none_of_the_prompt(path: Path, tmp_path: Path, text_of: Callable[[str], str]) -> None:
    (tmp_path / "a").write_bytes(BOM_UTF8 + b"was")
    (tmp_path / "t").write_bytes(BOM_UTF8 + b"{{ messages[0].content }}")
    done = generate(path, "--raw", "-f", tmp_path / "a", *GREEDY, stdin=BOM_UTF8 + " on\ufeff".encode())
    assert done.stdout.decode() == text_of("was on\ufeff") + "\n"  # behind the beginning it is a character as any other
    alone, marked = (tmp_path / "alone", tmp_path / "t")
    alone.write_bytes(marked.read_bytes().removeprefix(BOM_UTF8))
    one, other = (generate(path, "--chat", "--template", each, "-p", "on", *GREEDY) for each in (alone, marked))
    assert (one.returncode, one.stdout) == (0, other.stdout)


def test_a_full_context_is_told(path: Path) -> None:
    done = generate(path, "-p", "the time", "--ctx", 20, *GREEDY[:2], *GREEDY[4:])
    assert b"note: the context of 20 tokens is full; --overflow window lets a reply go on" in done.stderr
    done = generate(path, "-p", "the time", "--raw", "--ctx", 20, *GREEDY[:2], *GREEDY[4:])
    assert b"note: the context of 20 tokens is full\n" in done.stderr
    assert b"note" not in generate(path, "-p", "the time", *GREEDY).stderr


def test_figures_do_not_stick_to_the_text(path: Path) -> None:
    command = [*EDGELLM, "generate", str(path), "-p", "the time", *GREEDY]
    one_pipe: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=True, **one_pipe)
    assert done.stdout.rsplit(b"\n", 2)[1].startswith(b"prompt ")


def test_a_stderr_that_is_closed_is_no_reason_to_fail(path: Path, text_of: Callable[[str], str]) -> None:
    shell = shlex.join([*EDGELLM, "generate", str(path), "-p", "the time", *GREEDY]) + " 2>&-"
    done = subprocess.run(["sh", "-c", shell], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    assert (done.returncode, text_in(done)) == (0, text_of("the time"))


def test_json_is_one_object(
    path: Path, text_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))  # where no bandwidth was kept, so that no MBU is known
    done = generate(path, "-p", "the time", "--json", *GREEDY)
    reply = json.loads(done.stdout)
    assert done.stdout.count(b"\n") == 1
    assert list(reply) == ["text", "tokens", "finish_reason", "stats", "dropped_tokens", "chat"]
    assert (reply["text"], len(reply["tokens"]), reply["finish_reason"]) == (text_of("the time"), 8, "length")
    assert list(reply["stats"]) == STATS
    assert (reply["stats"]["generated_tokens"], reply["stats"]["mbu"]) == (8, None)
    assert set(reply["stats"]["itl_ms"]) == {"p50", "p95"}
    assert [set(device) for device in reply["stats"]["devices"]] == [{"name", "blocks", "bytes"}]


def test_jsonl_is_one_object_a_token(path: Path, text_of: Callable[[str], str]) -> None:
    done = generate(path, "-p", "the time", "--jsonl", *GREEDY)
    tokens = [json.loads(line) for line in done.stdout.splitlines()]
    assert [list(token) for token in tokens] == [["id", "text", "logprob", "finish_reason", "stats"]] * 8
    assert "".join(token["text"] for token in tokens) == text_of("the time")
    assert [token["finish_reason"] for token in tokens] == [None] * 7 + ["length"]
    assert [token["stats"]["generated_tokens"] for token in tokens] == list(range(1, 9))
    assert all(token["logprob"] < 0 for token in tokens)


def test_the_likeliest_tokens_are_printed_with_their_logprobs(path: Path) -> None:
    whole = json.loads(generate(path, "-p", "the time", "--json", "--logprobs", 2, *GREEDY).stdout)
    lines = generate(path, "-p", "the time", "--jsonl", "--logprobs", 2, *GREEDY).stdout.splitlines()
    tokens = [json.loads(line) for line in lines]
    assert [list(place) for place in whole["logprobs"]] == [["id", "text", "logprob", "top_logprobs"]] * 8
    assert [place["id"] for place in whole["logprobs"]] == whole["tokens"]
    for place, token in zip(whole["logprobs"], tokens, strict=True):
        assert all(place[name] == token[name] for name in ("id", "logprob", "top_logprobs"))
        assert [list(each) for each in place["top_logprobs"]] == [["id", "text", "logprob"]] * 2
        assert place["top_logprobs"][0]["logprob"] >= place["top_logprobs"][1]["logprob"]


def test_chat_uses_the_template(path: Path, tmp_path: Path, text_of: Callable[[str], str]) -> None:
    done = generate(path, "-p", "time", "--chat", "--system", "the", "--template-arg", "x= ", *GREEDY)
    assert text_in(done) == text_of("the time ")
    (tmp_path / "t").write_text("{{ messages[0].content }} was{{ add_generation_prompt or '' }}")
    own = ["--template", tmp_path / "t", "--template-arg", "add_generation_prompt=false"]
    assert text_in(generate(path, "-p", "time", "--chat", *own, *GREEDY)) == text_of("time was")
    assert text_in(generate(path, "-p", "time", *own, *GREEDY)) == text_of("time was"), "--chat goes without saying"
    told = generate(path, "-p", "time", "--system", "", "--template-arg", "x= ", *GREEDY)
    assert text_in(told) == text_of(" time "), "an empty system prompt is one"
    (tmp_path / "s").write_text("the \r\n")
    told = generate(path, "-p", "time", "--system-file", tmp_path / "s", *GREEDY)
    assert text_in(told) == text_of("the time")
    told = generate(path, "-p", "time", "--system-file", "-", *GREEDY, stdin=b"the ")
    assert text_in(told) == text_of("the time"), "stdin is the system prompt, and no part of the message"


def test_a_template_is_used_unless_text_is_to_be_completed(
    model_file: ModelFile, text_of: Callable[[str], str]
) -> None:
    """The weights are those of the other model, so that its Python says what a prompt becomes."""
    assert text_of("<<the time>>") != text_of("the time")
    templated = model_file(**TINY, chat_template="{{ bos_token }}<<{{ messages[-1].content }}>>")
    for args, prompt, chat in (
        ([], "<<the time>>", True),
        (["--chat"], "<<the time>>", True),
        (["--raw"], "the time", False),
    ):
        done = generate(templated, *args, "--json", "-p", "the ", *GREEDY, stdin=b"time\n")
        assert (json.loads(done.stdout)["text"], json.loads(done.stdout)["chat"]) == (text_of(prompt), chat)
    plain = json.loads(generate(model_file(**TINY), "--json", "-p", "the time", *GREEDY).stdout)
    assert (plain["text"], plain["chat"]) == (text_of("the time"), False)


def test_a_prompt_that_is_in_a_template_already_is_told(path: Path) -> None:
    note = b"note: the prompt has </s>, which is plain text in a message; --raw --special reads it as a token"
    assert note in generate(path, "-p", "the</s>", *GREEDY).stderr
    for clear in (["--chat"], ["--raw"], ["--raw", "--special"], ["--quiet"]):
        assert b"note" not in generate(path, "-p", "the</s>", *clear, *GREEDY).stderr


def test_a_template_that_does_not_work_is_no_reason_to_give_up(model_file: ModelFile) -> None:
    for template in ("{% if %}", "{{ raise_exception('no') }}"):
        path = model_file(**TINY, chat_template=template)
        said = only_line(generate(path, "-p", "the"), 1)
        assert said.endswith("choose another as --template NAME|FILE, or complete text with --raw\n")
        assert generate(path, "-p", "the", "--raw", *GREEDY).returncode == 0
        assert "--raw" not in only_line(generate(path, "-p", "the", "--chat"), 1)


def test_quiet_leaves_the_text_alone(path: Path, text_of: Callable[[str], str]) -> None:
    done = generate(path, "-p", "the time", "-q", "--ctx", 20, *GREEDY[:2], *GREEDY[4:])
    assert done.stdout and done.stderr == b""
    assert "no such file" in only_line(generate(path.with_name("none"), "-p", "x", "--quiet"), 1)


def test_quiet_leaves_warnings_out(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, told in ((True, ""), (False, "edgellm: note: odd\n")):
        with show_warnings(quiet):
            warnings.warn("odd", EdgeLLMWarning, stacklevel=1)
        assert capsys.readouterr().err == told


def test_a_chat_that_outgrows_the_context(path: Path) -> None:
    chat = ["--chat", "-p", "z" * 40, "--ctx", 60, *GREEDY[:2], *GREEDY[4:]]
    done = generate(path, *chat, "-n", 90, "--overflow", "window", "--json")
    reply = json.loads(done.stdout)
    assert (len(reply["tokens"]), reply["finish_reason"]) == (90, "length")
    assert 40 < reply["dropped_tokens"] < 40 + 90
    assert f"edgellm: note: {reply['dropped_tokens']} tokens did not fit the context of 60" in done.stderr.decode()
    done = generate(path, *chat, "--json")
    assert json.loads(done.stdout)["dropped_tokens"] == 0
    assert b"note: the context of 60 tokens is full" in done.stderr
    assert (
        "a larger context (--ctx) if the model allows one, or have older turns left out (--overflow drop or window)"
        in only_line(generate(path, *chat, "-p", "z" * 80), 1)
    )


def test_a_stop_string_and_a_seed(path: Path, text_of: Callable[[str], str]) -> None:
    text = text_of("the time")
    done = generate(path, "-p", "the time", "--json", "--stop", text[3:5], "--stop", "zzz", *GREEDY)
    assert json.loads(done.stdout)["text"] == text[: text.index(text[3:5])]
    hot = ["-p", "the", "--temp", "2", "-n", "16", "--top-k", "0"]
    one, two, other = (generate(path, *hot, "--seed", seed).stdout for seed in (7, 7, 8))
    assert one == two != other


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
    (["--kv-type", "q3"], "--kv-type cannot be 'q3': give f16 or f32 or q8_0"),
    (["--engine", "fast"], "--engine cannot be 'fast'"),
    (["--gpu-layers", "some"], "--gpu-layers cannot be 'some'"),
    (["--temp", "-1"], "--temp cannot be -1.0"),
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
    (["--chat", "--overflow", "forget"], "overflow cannot be 'forget': give stop or drop or window"),
    (["--json", "--jsonl"], "exclude each other"),
    (["--logprobs", "2"], "--logprobs belongs to --json or --jsonl"),
    (["--json", "--logprobs", "0"], "--logprobs cannot be 0: give a whole number, at least 1"),
    (["--chat", "--template-arg", "x"], "not K=V"),
    (["Hello", "it's me"], """a prompt goes behind -p: -p 'Hello it'"'"'s me' (see"""),
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
    assert "No such file" in only_line(generate(path, "-f", tmp_path / "none"), 1)
    assert "directory" in only_line(generate(path, "-f", tmp_path), 1)
    assert "name of the file is empty" in only_line(generate(path, "-p", "x", "--system-file", ""), 1)
    assert "too long for the context of 512" in only_line(generate(path, "-p", "z" * 600), 1)
    empty = only_line(generate(model_file(**TINY, tokenizer="gpt2"), "-p", ""), 1)
    assert "without even a BOS token" in empty and "give some text with -p" in empty
    for nothing in (generate(path), generate(path, stdin=b"")):
        assert "no prompt: give -p TEXT" in only_line(nothing, 2)


def test_what_this_version_does_not_have(path: Path, model_file: ModelFile) -> None:
    assert "CPU alone" in only_line(generate(path, "-p", "x", "--gpu-layers", "all", "--engine", "llama.cpp"), 1)
    for message, words in (
        (["--chat"], "has no chat template: it may not be a chat model"),
        (["--system", ""], "has no chat template, which a system prompt needs: give one with --template"),
        (["--overflow", "window"], "has no chat template, which --overflow needs: give one with --template"),
        (["--template-arg", "a=b"], "has no chat template, which --template-arg needs"),
    ):
        assert words in only_line(generate(model_file(**TINY), "-p", "x", *message), 1)


@posix
def test_a_closed_pipe_is_silent(path: Path) -> None:
    """As `| head -c 5` does: the reader goes away after five bytes."""
    endless = [*EDGELLM, "generate", path, "-p", "the", "--temp", "0", "--logit-bias", "2=-inf"]
    with subprocess.Popen(endless, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout and child.stderr
        assert len(child.stdout.read(5)) == 5
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 141


@posix
def test_a_full_disk_and_a_closed_stdout(path: Path) -> None:
    if Path("/dev/full").exists():
        with Path("/dev/full").open("wb") as full:
            command = [*EDGELLM, "generate", path, "-p", "x", *GREEDY]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, check=False)
        assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
        assert b"No space left on device" in done.stderr
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *EDGELLM, "generate", path, "-p", "x", *GREEDY]
    done = subprocess.run(shell, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (0, 1)


Child = subprocess.Popen[bytes]


def interrupted(path: Path, prompt: bytes, *args: str, after: Callable[[Child], object]) -> tuple[int, bytes, str]:
    """Run until `after` returns, then SIGINT: exit code, the rest of stdout, stderr."""
    command = [*EDGELLM, "generate", str(path), "--temp", "0", "--logit-bias", "2=-inf", *args]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    # Unbuffered: what `after` did not read must be left for `communicate`.
    with subprocess.Popen(command, bufsize=0, **pipes) as child:
        assert child.stdin
        child.stdin.write(prompt)
        child.stdin.close()
        child.stdin = None
        after(child)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
        return child.returncode, out, err.decode()


def computing(child: Child) -> None:
    """Wait until a child has used some seconds of CPU time, more than it takes to begin."""
    process = psutil.Process(child.pid)
    while sum(process.cpu_times()[:2]) < 1.5:
        time.sleep(0.05)


@posix
def test_ctrl_c_in_a_long_prompt(model_file: ModelFile) -> None:
    code, out, err = interrupted(model_file(**LONG), b"z" * 30_000, "--json", after=computing)
    assert code == 130
    reply = json.loads(out)
    assert (reply["text"], reply["tokens"], reply["finish_reason"]) == ("", [], "cancelled")
    assert reply["stats"]["prompt_tokens"] == 30_002
    assert err.splitlines()[-1].startswith("prompt 30,002 (0 cached) · generated 0")
    assert "Traceback" not in err


@posix
def test_ctrl_c_while_writing_json(model_file: ModelFile) -> None:
    code, out, err = interrupted(model_file(**LONG), b"the time", "--json", after=computing)
    assert code == 130
    reply = json.loads(out)
    assert reply["finish_reason"] == "cancelled"
    assert len(reply["tokens"]) == reply["stats"]["generated_tokens"] > 0
    assert f"generated {len(reply['tokens']):,} · " in err.splitlines()[-1]


@posix
def test_ctrl_c_while_writing_json_lines(model_file: ModelFile) -> None:
    """Every line is whole, and the stats count them all."""
    read: list[bytes] = []

    def after(child: Child) -> None:
        assert child.stdout
        read.extend(child.stdout.readline() for _ in range(3))

    code, out, err = interrupted(model_file(**LONG), b"the time", "--jsonl", after=after)
    tokens = [json.loads(line) for line in [*read, *out.splitlines()]]
    assert code == 130
    assert len(tokens) >= 3
    assert f"generated {len(tokens):,} · " in err.splitlines()[-1]


def test_a_warm_generation_imports_nothing_heavy_that_it_does_not_need(path: Path) -> None:
    code = (
        "import sys\n"
        "from edgellm.cli import run\n"
        "code = run()\n"
        "heavy = {'numba', 'gguf', 'textual', 'llama_cpp', 'requests', 'jinja2'} & set(sys.modules)\n"
        "print(code, *sorted(heavy), file=sys.stderr)"
    )
    assert generate(path, "-p", "x", *GREEDY).returncode == 0
    command = [sys.executable, "-c", code, "generate", str(path), "--raw", "-p", "x", *GREEDY]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.stderr.decode().splitlines()[-1] == "0"
