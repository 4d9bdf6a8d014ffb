"""`edgellm serve` as a program: where it listens, how it stops, and what it refuses before a model is opened."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from edgellm.cli import cli
from support.chat_model import write_chat_model

ENDLESS = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
TIMEOUT_S = 120


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("served") / "m.gguf")


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program, and its address."""
    command = [sys.executable, "-m", "edgellm", "serve", "--port", "0", "--threads", "1", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stderr
        try:
            line = program.stderr.readline()
            found = re.fullmatch(r"edgellm: serving at (http://127\.0\.0\.1:\d+)\n", line)
            assert found, line + program.stderr.read()
            yield program, found[1]
        finally:
            program.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it(path: Path, number: signal.Signals) -> None:
    with running(str(path)) as (program, url):
        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "m"
        program.send_signal(number)
        output, errors = program.communicate(timeout=TIMEOUT_S)
        assert (program.returncode, output) == (0, "")
        assert "Traceback" not in errors and "GET /v1/models 200" in errors


def test_a_running_reply_may_end_and_a_second_signal_ends_it(path: Path) -> None:
    with running(str(path)) as (program, url):
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=ENDLESS, timeout=TIMEOUT_S) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            program.send_signal(signal.SIGINT)
            for _ in range(20):  # it goes on
                next(lines)
            assert program.poll() is None
            program.send_signal(signal.SIGINT)
            errors = program.communicate(timeout=TIMEOUT_S)[1]
        assert program.returncode == 130 and "Traceback" not in errors


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a pipe can be set on Linux alone")
def test_a_log_that_nobody_reads_stops_no_answer(path: Path) -> None:
    import fcntl  # there is none on Windows

    with running(str(path)) as (program, url):
        assert program.stderr
        fcntl.fcntl(program.stderr, fcntl.F_SETPIPE_SZ, 4096)  # type: ignore[attr-defined]
        with httpx.Client(base_url=url) as client:  # whose lines take more than the pipe holds
            assert {client.get("/v1/models").status_code for _ in range(200)} == {200}
        program.send_signal(signal.SIGTERM)
        assert program.wait(TIMEOUT_S) == 0


def serve(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["serve", *arguments])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "--api-key"),
        (("--port", "70000"), "from 0 to 65535"),
        (("--parallel", "0"), "parallel"),
        (("--keep-alive", "soon"), "-1 for ever"),
        (("--api-key", "é"), "ASCII"),
        (("--ctx", "0.5"), "--ctx"),
        (("--kv-memory", "-1"), "kv_memory"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], words: str) -> None:
    found = serve(*arguments)
    assert found.exit_code and words in str(found.exception) + found.output


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    found = serve("--port", "0", str(tmp_path / "none.gguf"))
    assert found.exit_code == 1 and "does not exist" in str(found.exception)
