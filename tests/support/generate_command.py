"""`edgellm generate` as a program, for tests: a tiny model, the command, and the texts that Python generates for it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgellm import Model
from support.model_file import ModelFile

EDGELLM = [sys.executable, "-m", "edgellm"]
TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
GREEDY = ["--temp", "0", "-n", "8", "--logit-bias", "2=-inf", "--threads", "1"]
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
