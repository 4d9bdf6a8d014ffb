"""Wrong usage of the command line: one line says what may be, and which help to read."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from edgellm import cli

Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """What the command line says to words that it refuses with exit code 2."""

    def refuse(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["edgellm", *words])
        assert cli.run() == 2
        return capsys.readouterr().err

    return refuse


@pytest.mark.parametrize(
    "wrong",
    ["--against ollama", "--threads 0", "--threads 1,,2", "--threads x", "--rounds 0", "-p -1", "--parallel 0"],
)
def test_wrong_usage(wrong: str, refused: Refused) -> None:
    said = refused(*f"bench m.gguf {wrong}".split())
    assert wrong.split()[0] in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("bench m.gguf --parallel 0", "--parallel cannot be 0: give a whole number, from 1 to 64"),
        ("bench m.gguf --parallel 65", "--parallel cannot be 65: give a whole number, from 1 to 64"),
        ("bench m.gguf -p -1", "--prompt-tokens cannot be -1: give a whole number, at least 0"),
        ("perplexity m.gguf text --ctx 4", "--ctx cannot be 4: give a whole number, at least 5"),
    ],
)
def test_a_number_that_cannot_be_is_told_what_may(given: str, told: str, refused: Refused) -> None:
    assert refused(*given.split()).startswith(f"edgellm: {told}")


@pytest.mark.parametrize(
    ("words", "named"),
    [("bench --against", "edgellm bench"), ("-- bench --json=1", "edgellm bench"), ("--version=1", "edgellm")],
)
def test_wrong_usage_names_the_help_to_read(words: str, named: str, refused: Refused) -> None:
    assert refused(*words.split()).endswith(f"(see {named} --help)\n")


@pytest.mark.parametrize(("name", "advice"), [("genrate", "; did you mean generate?"), ("xyz\x1b", "'. (see")])
def test_a_command_that_there_is_not(name: str, advice: str, refused: Refused) -> None:
    said = refused(name)
    assert said.startswith("edgellm: No such command '") and advice in said and "\x1b" not in said


def test_help_is_light() -> None:
    code = (
        "import sys; sys.argv = ['edgellm', 'bench', '--help']; from edgellm.cli import run; run(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "numba", "llama_cpp"} & set(done.stdout.split())
