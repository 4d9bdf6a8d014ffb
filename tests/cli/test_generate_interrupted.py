"""`edgellm generate` that is interrupted: by Ctrl-C, a closed pipe, or a full disk."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.generate_command import EDGELLM, GREEDY, path
from support.model_file import ModelFile

__all__ = ["path"]

LONG: dict[str, Any] = {"types": "Q8_0", "context_length": 32768}
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes are POSIX here")
Child = subprocess.Popen[bytes]


@posix
def test_a_closed_pipe_is_silent(path: Path) -> None:
    """As with `| head -c 5`: the reader closes the pipe after five bytes."""
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
    """Every line is complete, and the stats count all tokens."""
    read: list[bytes] = []

    def after(child: Child) -> None:
        assert child.stdout
        read.extend(child.stdout.readline() for _ in range(3))

    code, out, err = interrupted(model_file(**LONG), b"the time", "--jsonl", after=after)
    tokens = [json.loads(line) for line in [*read, *out.splitlines()]]
    assert code == 130
    assert len(tokens) >= 3
    assert f"generated {len(tokens):,} · " in err.splitlines()[-1]
